"""Agents of others behind this dashboard, by the Agent Client Protocol."""
