"""Search services, one interface for all."""
