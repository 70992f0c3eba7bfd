"""Tests, in folders as the packages of `ollm_tui`."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA_DIR = ROOT / "tests" / "data"
