"""The dashboard: everything that draws."""
