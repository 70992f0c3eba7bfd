"""Runs the benchmarks: `python -m tests.bench [NAME...]` runs those whose name holds one of the words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Each in a process of its own, one after the other; the exit code is the number of those that failed."""
    words = sys.argv[1:]
    failed = 0
    for path in sorted(HERE.glob("bench_*.py")):
        if not words or any(word in path.stem for word in words):
            print(f"\n== {path.stem.removeprefix('bench_')} ==", flush=True)
            failed += subprocess.run([sys.executable, "-m", f"tests.bench.{path.stem}"], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
