"""Sessions on disk: their log, how it is read back, resumed, listed and exported."""
