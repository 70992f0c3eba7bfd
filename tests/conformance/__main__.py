"""Runs the suites and prints counts against the goals: `python -m tests.conformance FOLDER [--failures]`.

FOLDER keeps what was fetched. Exit status 1 when a suite that could be had falls short of its goal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import libvterm, own, packages, xterm_fixtures
from tests.conformance.counts import Counts


@dataclass(frozen=True)
class Suite:
    """A suite; its goal is a share of its checks, as packages differ in how many they have."""

    name: str
    source: str
    goal: float
    run: Callable[[Path], Counts]


SUITES = (
    Suite("xterm fixtures", f"npm {packages.XTERM_PACKAGE}", 71 / 76, lambda folder: xterm_fixtures.run(packages.xterm_fixtures(folder))),
    Suite("libvterm", f"Debian source {packages.LIBVTERM_PACKAGE}", 405 / 428, lambda folder: libvterm.run(packages.libvterm_tests(folder))),
    Suite("own table", "tests/data/terminal/conformance.toml", 1, lambda _: own.table()),
    Suite("recorded programs", "tests/data/terminal/*.raw", 1, lambda _: own.programs()),
)  # fmt: skip
ELSEWHERE = {
    "esctest": "no package of it found",
    "alacritty ref": "no package with its recordings found",
}
"""Suites that cannot be had from a package registry."""


def main() -> int:
    """Print a line a suite."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--failures", action="store_true", help="print what failed as well")
    options = parser.parse_args()
    short = False
    for suite in SUITES:
        try:
            counts = suite.run(options.folder)
        except packages.NotAvailableError as error:
            print(f"{suite.name:18} skipped: {error}")
            continue
        enough = counts.share >= suite.goal
        short = short or not enough
        print(
            f"{suite.name:18} {counts.passed:4} of {counts.made:4}: {counts.share:6.1%}, goal {suite.goal:6.1%}: "
            f"{'met' if enough else 'SHORT'}, {len(counts.by_choice)} otherwise by choice  ({suite.source})"
        )
        if options.failures:
            print(*(f"    {failure}\n" for failure in [*counts.by_choice, *counts.failures]), sep="", end="")
    for name, reason in ELSEWHERE.items():
        print(f"{name:18} not run: {reason}")
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
