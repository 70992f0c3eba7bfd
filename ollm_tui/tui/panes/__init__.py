"""The panes of the dashboard."""
