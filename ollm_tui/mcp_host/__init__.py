"""A process of its own that holds the connections to MCP servers, so that none can slow or fill the dashboard's."""
