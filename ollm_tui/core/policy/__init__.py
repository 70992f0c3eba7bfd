"""Policy: judges every call and records what was decided."""
