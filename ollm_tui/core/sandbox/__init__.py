"""Cages: what the kernel lets a command do, whatever its text says (contract section 8)."""
