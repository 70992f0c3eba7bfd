"""What `run_tests` takes and tells: how a run ended, its counts and first failures, and why it failed."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from ollm_tui.core.base.errors import ShellExecutionFailed, ShellTimeout, ToolFailure
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import ToolData
from ollm_tui.core.test_runs.report import FailedTest, TestReport
from ollm_tui.core.test_runs.runners import ReportFormat, TestCommand
from ollm_tui.core.tools.base import Parameters
from ollm_tui.core.tools.shell import LONGEST_MS, ShellData

FAILURES_TOLD = 20
"""Failures that the model is told; the full report has all."""
_MESSAGE = 300
_OUTPUT_TAIL = 4_000


class RunTestsParameters(Parameters):
    """Which tests, and for how many seconds; without paths and names all."""

    paths: list[str] | None = None
    names: list[str] | None = None
    last_failed: bool = False
    timeout: float = Field(600, gt=0, le=LONGEST_MS / 1000)


class RunState(StrEnum):
    """How a run ended."""

    PASSED = "passed"
    FAILED = "failed"
    NO_TESTS = "noTests"
    CRASHED = "crashed"
    """It broke before or while it ran: collecting, loading or building failed."""
    TIMED_OUT = "timedOut"


class TestFailure(ToolData):
    """One test that failed."""

    __test__ = False

    path: str
    line: int | None
    name: str
    message: str


class RunTestsData(ToolData):
    """Counts and failures of a run; `duration` in milliseconds."""

    passed: int
    failed: int
    errors: int
    skipped: int
    duration: int
    failures: tuple[TestFailure, ...]
    state: RunState
    runner: str
    command: str


def state_of(report: TestReport, shell: ShellData, command: TestCommand, unread: str) -> RunState:
    """Return how a run ended; `unread` says why it has no report."""
    if shell.timed_out:
        return RunState.TIMED_OUT
    code = shell.exit_code
    if report.crashed:
        return RunState.CRASHED
    if unread and command.format is ReportFormat.TAP:
        return RunState.FAILED if code else RunState.PASSED
    if code is not None and code == command.no_tests_code:
        return RunState.NO_TESTS
    if unread or (code and not report.failures):
        return RunState.CRASHED
    if report.failures or code:
        return RunState.FAILED
    return RunState.PASSED if report.total else RunState.NO_TESTS


def failure_of(
    state: RunState, data: RunTestsData, report: TestReport, unread: str, given: RunTestsParameters
) -> ToolFailure | None:
    """Return what the call fails with; None where all passed."""
    match state:
        case RunState.PASSED:
            return None
        case RunState.FAILED:
            count = data.failed + data.errors
            total = count + data.passed
            return ShellExecutionFailed(f"{count} of {total} tests failed" if count else "The tests failed")
        case RunState.NO_TESTS if given.last_failed:
            return ShellExecutionFailed("No test failed in the last run here. Run without lastFailed.")
        case RunState.NO_TESTS:
            chosen = given.paths or given.names
            remedy = "Check paths and names." if chosen else "Name paths, or look where the tests are."
            return ShellExecutionFailed(f"{data.runner} found no tests. {remedy}")
        case RunState.CRASHED:
            why = report.crashed or unread or "it ended with an error that no test reports"
            return ShellExecutionFailed(f"The tests could not be run ({data.runner}): {visible(why)}. See the output.")
        case RunState.TIMED_OUT:
            return ShellTimeout(
                f"The tests timed out after {given.timeout:g} s and were ended. Run fewer, or give a longer timeout.",
                {"limitMs": round(given.timeout * 1000), "elapsedMs": data.duration},
            )


def told(data: RunTestsData, failure: ToolFailure | None, report: TestReport, output: str) -> str:
    """Return what the model reads: counts, the first failures, and the end of the output where no test tells more."""
    known = data.passed + data.failed + data.errors + data.skipped
    counts = f"{data.passed} passed, {data.failed} failed, {data.errors} errors, {data.skipped} skipped"
    lines = [f"{counts} ({data.runner})" if known else f"No counts ({data.runner}): {data.state.value}"]
    if failure is not None and data.state is not RunState.FAILED:
        lines.append(f"{failure.type}: {failure.message}")
    if report.failures:
        lines.append("")
        lines += [f"{place_of(each)}: {_short(each.message)}" for each in report.failures[:FAILURES_TOLD]]
    more = data.failed + data.errors - FAILURES_TOLD
    if more > 0:
        lines.append(f"... and {more} more")
    if not report.failures and data.state is not RunState.PASSED:
        tail = visible_block(output.strip())[-_OUTPUT_TAIL:]
        lines += ["", "Output (its end):", tail or "(no output)"]
    return "\n".join(lines)


def place_of(failure: FailedTest) -> str:
    """Return `path:line name` of a failure."""
    line = "" if failure.line is None else f":{failure.line}"
    return visible(f"{failure.path}{line} {failure.name}".strip())


def _short(message: str) -> str:
    text = visible(" ".join(message.split()))
    return text if len(text) <= _MESSAGE else f"{text[:_MESSAGE]}…"
