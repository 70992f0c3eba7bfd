"""`run_tests`: run the project's tests, judged as the command that does it (003; contract section 1)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.errors import InvalidArguments, ToolFailure
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import Artifact, ExecutionPlace, ToolError, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.secrets import own_environment
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.files.atomic import replace_text
from ollm_tui.core.sandbox.look import LookCage
from ollm_tui.core.sandbox.work import WorkCage
from ollm_tui.core.search.repository import read_file
from ollm_tui.core.shell.hub import CommandRequest
from ollm_tui.core.shell.pty_process import bash_line
from ollm_tui.core.test_runs.printed import TestProgress, parse_cargo, parse_tap, parse_unittest
from ollm_tui.core.test_runs.report import (
    MAX_REPORT_BYTES,
    FailedTest,
    Locator,
    ReportError,
    TestReport,
    parse_go,
    parse_jest,
    parse_junit,
)
from ollm_tui.core.test_runs.runners import REPORT, ReportFormat, Selection, TestCommand, find_command
from ollm_tui.core.tools.base import (
    CallFacts,
    Effect,
    Question,
    Tool,
    ToolGroup,
    ToolInvocation,
    TouchedPath,
)
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.run_tests_outcome import (
    RunState,
    RunTestsData,
    RunTestsParameters,
    TestFailure,
    failure_of,
    place_of,
    state_of,
    told,
)
from ollm_tui.core.tools.shell import SHELL, ShellData, ShellInvocation, ShellParameters

_MAX_REPORTS = 2_000


class RunTestsInvocation(ToolInvocation[RunTestsParameters]):
    """Runs the tests once, by a command of the shell tool's making."""

    def get_description(self) -> str:
        given = self.params
        if given.last_failed:
            return "Run the tests that failed last time"
        named = [*(given.paths or ()), *(given.names or ())]
        return f"Run the tests {', '.join(map(visible, named))}" if named else "Run the tests"

    def touched_paths(self) -> list[TouchedPath]:
        paths = [path.partition("::")[0] for path in self.params.paths or ()]
        return [TouchedPath(path, Access.READ) for path in paths or ["."]]

    def facts(self) -> CallFacts:
        """Return the command line that is judged in this call's place."""
        try:
            shell = self._shell
        except ToolFailure as failure:
            # It is asked about at least: once there is a command it runs only after a judgement of that.
            return CallFacts(self.tool.effect, question=failure.message)
        return replace(shell.facts(), command=self._command.line)

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise FileNotFound for a path that is not there, and what `find_command` raises."""
        fence = self.context.fence
        for touched in self.touched_paths():
            location = fence.resolve(touched.path)
            if fence.status(location) is None:
                raise fence.missing(location)
        await signal.in_thread(lambda: self._command)
        return None

    async def question(self) -> Question:
        """Return the shell's question, bound to the command line that was found."""
        self._shell.refused_by = self.refused_by
        question = await self._shell.question()
        return replace(question, state=f"{question.state} {self._command.line}")

    @property
    def place(self) -> ExecutionPlace | None:
        try:
            self._shell.looks, self._shell.chosen_place = self.looks, self.chosen_place
        except ToolFailure:
            return None
        return self._shell.place

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run the tests; OperationCancelled carries the output so far."""
        shell = self._shell
        shell.looks, shell.approved, shell.chosen_place = self.looks, self.approved, self.chosen_place
        shell.folder = Path(tempfile.mkdtemp(prefix="ollm-tests-"))
        try:
            before = await signal.in_thread(self._report_times)
            started = time.monotonic()
            ran = await shell.execute(signal, None if update_output is None else _with_progress(update_output))
            self.refused = shell.refused
            duration = round((time.monotonic() - started) * 1000)
            return await signal.in_thread(self._result, ran, duration, before)
        finally:
            await asyncio.to_thread(shutil.rmtree, shell.folder, ignore_errors=True)

    @cached_property
    def _command(self) -> TestCommand:
        """Detected once, so that what was judged is what runs. Raises ToolFailure."""
        fence, given = self.context.fence, self.params
        paths: list[str] = []
        for path in given.paths or ():
            file, mark, rest = path.partition("::")
            real = fence.resolve(file).real
            inside = real.is_relative_to(fence.root)
            paths.append(f"{real.relative_to(fence.root) if inside else real}{mark}{rest}")
        if any("\0" in text or "\n" in text for text in (*paths, *(given.names or ()))):
            raise InvalidArguments("A path or name of a test holds a line break or NUL. Correct it.")
        failed = _LastRun(fence.root).failed() if given.last_failed else ()
        chosen = Selection(tuple(paths), tuple(given.names or ()), given.last_failed, failed)
        command = find_command(fence.root, self.context.test_command, chosen)
        if given.last_failed and not failed and command.runner not in ("pytest", "jest", "ctest"):
            raise InvalidArguments("No test failed in the last run here. Run without lastFailed.")
        return command

    @cached_property
    def _shell(self) -> _TestShell:
        timeout = round(self.params.timeout * 1000)
        parameters = ShellParameters(command=self._command.line, timeout=timeout, idle_timeout=None)
        return _TestShell(self._command, parameters, self.context)

    def _report_times(self) -> dict[Path, int]:
        """Return the reports that lie in the project already, with their times."""
        end = self._command.folders
        if not end:
            return {}
        root = self.context.fence.root
        folders = [folder for depth in ("", "*/", "*/*/") for folder in root.glob(f"{depth}{end}")]
        files = [file for folder in folders for file in folder.glob("*.xml")]
        return {file: file.lstat().st_mtime_ns for file in files[:_MAX_REPORTS]}

    def _result(self, ran: ToolResult, duration: int, before: dict[Path, int]) -> ToolResult:
        shell, command = ran.data, self._command
        assert isinstance(shell, ShellData)
        output = self._whole_output(ran, shell)
        report = TestReport()
        unread = ""
        try:
            report = self._report(output, before)
        except ReportError as error:
            unread = str(error)
        state = state_of(report, shell, command, unread)
        if state in (RunState.PASSED, RunState.FAILED):
            _LastRun(self.context.fence.root).save(report.failures)
        data = RunTestsData(
            passed=report.passed,
            failed=report.failed,
            errors=report.errors,
            skipped=report.skipped,
            duration=duration,
            failures=tuple(
                TestFailure(path=each.path, line=each.line, name=each.name, message=each.message)
                for each in report.failures
            ),
            state=state,
            runner=command.runner,
            command=command.line,
        )
        failure = failure_of(state, data, report, unread, self.params)
        text = told(data, failure, report, output)
        saved = self._save(report)
        content = text if saved is None else f"{text}\n\nFull report: {saved}"
        artifacts = ran.artifacts if saved is None else (Artifact(kind="report", path=str(saved)), *ran.artifacts)
        return ran.model_copy(
            update={
                "llm_content": content,
                "return_display": content,
                "error": None if failure is None else ToolError.of(failure),
                "data": data,
                "artifacts": artifacts,
                "truncated": False,
            }
        )

    def _whole_output(self, ran: ToolResult, shell: ShellData) -> str:
        whole = next((each.path for each in ran.artifacts if each.kind == "full-text"), None)
        content = None if whole is None else read_file(os.fsencode(whole), MAX_REPORT_BYTES)
        return shell.output if content is None else content.decode("utf-8", "replace")

    def _report(self, output: str, before: dict[Path, int]) -> TestReport:
        command, folder = self._command, self._shell.folder
        locator = Locator(self.context.fence.root)
        printed: dict[ReportFormat, Callable[[str, Locator], TestReport]] = {
            ReportFormat.GO: parse_go,
            ReportFormat.CARGO: parse_cargo,
            ReportFormat.UNITTEST: parse_unittest,
            ReportFormat.TAP: parse_tap,
        }
        if command.format in printed:
            return printed[command.format](output, locator)
        if command.format is ReportFormat.JEST:
            return parse_jest(_read(folder / "report"), locator)
        if command.format is ReportFormat.JUNIT:
            return parse_junit(_read(folder / "report"), locator)
        new = [file for file, changed in self._report_times().items() if before.get(file) != changed]
        if not new:
            raise ReportError("it wrote no report")
        whole = TestReport()
        for file in new:
            whole.include(parse_junit(_read(file), locator))
        return whole

    def _save(self, report: TestReport) -> Path | None:
        """Write all failures with their texts where read_file finds them; None where there are none, or no room."""
        if not report.failures:
            return None
        parts = [f"{place_of(each)}: {each.message}\n\n{each.text}\n" for each in report.failures]
        with suppress(OSError):
            path = self.context.command_hub.log_folder() / f"tests-{secrets.token_hex(4)}.txt"
            path.write_text(visible_block("\n".join(parts)), "utf-8", errors="replace")
            return path
        return None


def _with_progress(update_output: UpdateOutput) -> UpdateOutput:
    """Return what passes the output on and says after it how far the tests are."""
    progress = TestProgress()

    def passed_on(text: str) -> None:
        told = progress.feed(text)
        # what comes in the middle of a line waits for none: the line stands on one of its own
        update_output(text if not told else f"{text}{'' if text.endswith(chr(10)) else chr(10)}{told}")

    return passed_on


class _TestShell(ShellInvocation):
    """The shell's call that runs the tests, with a folder for their report."""

    folder = Path()

    def __init__(self, command: TestCommand, parameters: ShellParameters, context: ToolContext) -> None:
        super().__init__(SHELL, parameters, context)
        self._tests = command

    def _request(self) -> CommandRequest:
        report = str(self.folder / "report")
        own = own_environment()
        variables = {REPORT: report}
        for name, value in self._tests.variables.items():
            mine = value.replace("{report}", report)
            variables[name] = f"{own[name]} {mine}" if " --" in f" {value}" and own.get(name) else mine
        assignments = [f"{name}={value}" for name, value in variables.items()]
        request = super()._request()
        return replace(request, argv=["/usr/bin/env", *assignments, *bash_line(request.command)])

    def _cage(self) -> LookCage | WorkCage | None:
        cage = super()._cage()
        if isinstance(cage, WorkCage):
            cage.grant = replace(cage.grant, writable=(*cage.grant.writable, self.folder))
        return cage


class _LastRun:
    """What failed in the last run in a workspace, for runners that do not keep it themselves."""

    def __init__(self, root: Path) -> None:
        digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        self._path = state_dir() / "tests" / f"{digest}.json"

    def failed(self) -> tuple[str, ...]:
        """Return the names; none where nothing is known."""
        try:
            known = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            return ()
        names: list[object] = known if isinstance(known, list) else []  # pyright: ignore[reportUnknownVariableType]
        return tuple(each for each in names if isinstance(each, str))

    def save(self, failures: list[FailedTest]) -> None:
        """Keep the names; nothing where the disk does not take them."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(self._path, json.dumps([each.name for each in failures]))


def _read(path: Path) -> bytes:
    """Return a report that tests wrote: a regular file, never a link. Raises ReportError."""
    content = read_file(os.fsencode(path), MAX_REPORT_BYTES + 1, follow=False)
    if content is None:
        raise ReportError("it wrote no report")
    return content


RUN_TESTS = Tool(
    name="run_tests",
    display_name="Run Tests",
    description="Run the project's tests; the runner is found. lastFailed: only what failed last. timeout in seconds.",
    group=ToolGroup.RUNTIME,
    effect=Effect.RUNS,
    parameters=RunTestsParameters,
    invocation=RunTestsInvocation,
    returns=RunTestsData,
    risk=Risk.HIGH,
    time_limit=None,
    cuts_itself=True,
)
