"""Runs the suite, and once more by itself whatever failed: what passes then is listed as FLAKY and does not fail the run.

    python -P tests/suite.py [ARGUMENTS OF PYTEST]

The first run is spread over four workers, the second runs only what failed, one test after the other. The exit code is
0 if everything passed in the end. A run that did not get through (a file that cannot be collected, no test at all, an
early stop) has its own exit code and is not repeated, since nobody knows what the rest would have done.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SPREAD = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
"""Twice the cores: many tests wait for processes and terminals. The order is `conftest`'s: slow files first."""
ALONE = ("-n", "0", "--dist", "no", "--last-failed")
MOST_REPEATED = 50
"""More failures than this are no coincidence, and repeating them would take longer than the suite."""

TESTS_FAILED = 1
"""pytest's exit code for a run that got through with failures."""

_RECORD = "--record"


@dataclass(eq=False)  # pytest wants its plugins hashable
class Outcomes:
    """What became of each test, as a pytest plugin of the process that spreads them."""

    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Node ids, each with the first line of what it failed with."""
    passed: list[str] = field(default_factory=list[str])
    complete: bool = False
    """Whether every file was collected and nothing stopped the run early."""

    def __post_init__(self) -> None:
        self._uncollected = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.setdefault(report.nodeid, _first_line(report))
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._uncollected = self._uncollected or report.failed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.complete = not (self._uncollected or session.shouldfail or session.shouldstop)


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(crash.message if crash is not None else report.longrepr or "").strip()
    return message.splitlines()[0] if message else "failed"


def main(arguments: list[str]) -> int:
    """Run the suite, then what failed of it; returns the exit code."""
    signal.signal(signal.SIGINT, lambda *_: None)  # pytest gets ctrl+c as well, and tells what it had done
    with tempfile.TemporaryDirectory(prefix="ollm-suite-") as folder:
        cache = ("-o", f"cache_dir={folder}/cache")
        code, first = _run(Path(folder, "first.json"), [*SPREAD, *cache, *arguments])
        if not first.complete:
            return code or TESTS_FAILED
        if code != TESTS_FAILED:
            return code
        if not first.failed or len(first.failed) > MOST_REPEATED:
            print(f"\n{len(first.failed)} tests failed; they are not repeated.", flush=True)
            return code
        print(f"\nRepeating what failed ({len(first.failed)}):", flush=True)
        code, second = _run(Path(folder, "second.json"), [*arguments, *cache, *ALONE])
    flaky = [name for name in first.failed if name in second.passed and name not in second.failed]
    if flaky:
        print("\nFLAKY")
        for name in flaky:
            print(f"{name}  {first.failed[name]}")
        sys.stdout.flush()
    if len(flaky) < len(first.failed) or not second.complete:
        return code or TESTS_FAILED
    return code


def _run(record: Path, arguments: list[str]) -> tuple[int, Outcomes]:
    """One run of pytest in a process of its own. Without a record (it crashed), nothing of it counts as complete."""
    command = [sys.executable, "-P", __file__, _RECORD, str(record), *arguments]
    code = subprocess.run(command, check=False).returncode
    return code, Outcomes(**json.loads(record.read_text("utf-8"))) if record.exists() else Outcomes()


def _recorded_run(record: Path, arguments: list[str]) -> int:
    import pytest

    outcomes = Outcomes()
    code = pytest.main(arguments, plugins=[outcomes])
    record.write_text(json.dumps(asdict(outcomes)), "utf-8")
    return int(code)


if __name__ == "__main__":
    if sys.argv[1:2] == [_RECORD]:
        sys.exit(_recorded_run(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main(sys.argv[1:]))
