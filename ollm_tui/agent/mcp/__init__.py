"""MCP servers as tools: their settings, the process that holds them, and what a person has approved of them."""
