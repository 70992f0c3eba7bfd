"""Runs the benchmarks: `python -m tests.bench [NAME...]` runs those whose name holds one of the words.

`--compare REF` runs those of another commit as well and prints both beside each other; `--rounds 3` runs each three times,
by turns, and compares the medians.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from tests.bench.compare import compare

HERE = Path(__file__).parent


def main() -> int:
    """Run each in a process of its own, one after the other; the exit code is the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", allow_abbrev=False)
    parser.add_argument("words", metavar="NAME", nargs="*", help="run only those whose name holds one of these")
    parser.add_argument("--compare", metavar="REF", help="a commit to run as well, beside this working copy")
    parser.add_argument("--rounds", metavar="N", type=int, default=1, help="with --compare: runs of each, by turns")
    given = parser.parse_args()
    if given.compare is None:
        return run(given.words)
    try:
        return compare(given.compare, given.words, HERE.parents[1], given.rounds)
    except subprocess.CalledProcessError:
        parser.error(f"git has no commit {given.compare!r} that can be checked out")


def run(words: Collection[str]) -> int:
    """Run the benchmarks of this working copy."""
    failed = 0
    for path in sorted(HERE.glob("bench_*.py")):
        if not words or any(word in path.stem for word in words):
            print(f"\n== {path.stem.removeprefix('bench_')} ==", flush=True)
            failed += subprocess.run([sys.executable, "-m", f"tests.bench.{path.stem}"], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
