"""`run_code`: run Python or bash code in a cage (003; contract sections 2 and 8)."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal as signals
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import IO

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import OperationCancelled, ShellExecutionFailed, ShellTimeout, StorageFailed, ToolFailure
from ollm_tui.core.base.escape import quote_name, visible
from ollm_tui.core.base.output import NO_OUTPUT, ExcerptBuffer, Truncated
from ollm_tui.core.base.results import Artifact, ExecutionPlace, ToolData, ToolError, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.protected_paths import judge_writing
from ollm_tui.core.fence.secrets import command_environment, own_environment
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.sandbox.code_turns import CODE_TURNS
from ollm_tui.core.sandbox.made_files import changed_since, folders_in, set_aside_protected
from ollm_tui.core.sandbox.work import WorkCage
from ollm_tui.core.shell.orphans import ORPHANS
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.termination import Termination
from ollm_tui.core.tools.base import (
    CallFacts,
    Effect,
    Parameters,
    Question,
    Tool,
    ToolGroup,
    ToolInvocation,
    TouchedPath,
)
from ollm_tui.core.tools.command_outcome import likely_refusal

MOST_ARTIFACTS = 100
FIRST_LINE = 60
"""Characters of the code that a call's line shows."""
_READ_BYTES = 1 << 16
_CLOCK_TICK = 0.012
"""Seconds by which the clock that stamps files may lag behind: what runs after them changes files later."""


class CodeLanguage(StrEnum):
    """What the code is written in."""

    PYTHON = "python"
    BASH = "bash"


class RunCodeParameters(Parameters):
    """What to run, and for how many seconds."""

    language: CodeLanguage
    code: str = Field(min_length=1)
    args: list[str] | None = None
    env: dict[str, str] | None = None
    timeout: float = Field(60, gt=0, le=86_400)


class RunCodeData(ToolData):
    """What the code wrote; `exit_code` is None after a time-out, `duration` is in milliseconds."""

    stdout: str
    stderr: str
    exit_code: int | None
    duration: int


class RunCodeInvocation(ToolInvocation[RunCodeParameters]):
    """Runs one program."""

    def get_description(self) -> str:
        lines = [line.strip() for line in self.params.code.splitlines() if line.strip()]
        first = next(
            (line for line in lines if not line.startswith(("#", "import ", "from "))), lines[0] if lines else ""
        )
        length = self.params.code.count("\n") + 1
        text = visible(first if len(first) <= FIRST_LINE else f"{first[:FIRST_LINE]}…")
        return f"Run {length} line{'s' if length > 1 else ''} of {self.params.language} {self.place.value}: {text}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(".", Access.READ)]

    def facts(self) -> CallFacts:
        """Return what makes it ask: no cage, or one with the network of this machine."""
        if self.place is ExecutionPlace.THIS_MACHINE:
            return CallFacts(self.tool.effect, question="no sandbox works here: it would run unsandboxed")
        networked = "its sandbox has the network of this machine ([sandbox] network)"
        return CallFacts(self.tool.effect, question=networked if self.context.sandbox.settings.network else None)

    @cached_property
    def _default_place(self) -> ExecutionPlace:
        # Once for the call: what was judged as caged must not run outside because the engine failed since.
        return ExecutionPlace.WORK_CAGE if self.context.sandbox.works else ExecutionPlace.THIS_MACHINE

    @property
    def place(self) -> ExecutionPlace:
        return self.chosen_place or self._default_place

    async def question(self) -> Question:
        """Return why the cage cannot take the code."""
        return Question(cage_problem=self._cage_problem)

    def _cage_problem(self) -> str:
        return "it was refused there" if self.refused_by is ExecutionPlace.WORK_CAGE else self.context.sandbox.problem

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check that arguments and variables can be passed to a program. Raises ShellExecutionFailed."""
        for name, value in (self.params.env or {}).items():
            if not name or "=" in name or "\0" in name + value:
                raise ShellExecutionFailed(f"{name!r} cannot be the name of an environment variable. Correct env.")
        if any("\0" in argument for argument in self.params.args or ()):
            raise ShellExecutionFailed("An argument holds a NUL character. Correct args.")
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run the code; OperationCancelled carries the output so far."""
        root = self.context.fence.root
        moment = time.time_ns()
        await signal.guard(asyncio.sleep(_CLOCK_TICK))
        started = time.monotonic()
        caged = self.place is ExecutionPlace.WORK_CAGE
        outcome = await (self._in_turn(signal, moment) if caged else self._on_this_machine(signal))
        duration = round((time.monotonic() - started) * 1000)
        made = outcome.made if caged else await signal.in_thread(changed_since, root, moment)
        return self._result(outcome, duration, made)

    async def _in_turn(self, signal: AbortSignal, moment: int) -> _Outcome:
        """Run it where no command that was judged by its paths still reads. Raises ShellExecutionFailed."""
        await CODE_TURNS.looks_are_over(signal)
        with CODE_TURNS.code() as may_run:
            if not may_run:
                raise ShellExecutionFailed(
                    "A command that only reads is still running, and code could change what its paths lead to. Nothing "
                    "was run. Wait for it, or end it with shell_kill; then run the code again."
                )
            return await self._in_cage(signal, moment)

    async def _in_cage(self, signal: AbortSignal, moment: int) -> _Outcome:
        fence, language = self.context.fence, self.params.language
        root = fence.root
        folders = await signal.in_thread(folders_in, root)
        environment = self._environment()
        venv = root / ".venv"
        name = f"code.{'py' if language is CodeLanguage.PYTHON else 'sh'}"
        cage = self.context.sandbox.work_cage(
            fence,
            files={name: self.params.code.encode("utf-8", "replace")},
            variables=self.params.env,
            read_only=[venv] if venv.is_dir() else [],
            secrets_hidden=True,  # nobody was asked whether the model may read them
        )
        try:
            argv = await signal.in_thread(cage.command, self._argv(cage.file(name), cage), environment)
            child = await signal.in_thread(cage.start, partial(self._start, argv, cage), environment, None)
        except OSError as error:
            cage.close()
            raise ShellExecutionFailed(f"The cage cannot be made: {error}. Nothing was run.") from None
        except BaseException:
            cage.close()
            raise
        try:
            outcome = await self._run(child, signal, cage)
            outcome.notes = await asyncio.to_thread(cage.after)
        except BaseException:
            cage.close()
            self._settle(moment, folders)
            raise
        cage.close()
        said, outcome.made = await asyncio.to_thread(self._settle, moment, folders)
        outcome.notes = (*outcome.notes, *said)
        return outcome

    def _settle(self, moment: int, folders: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """Set aside and keep what the code made; return what to say of it, and the files. Blocks."""
        fence = self.context.fence
        said = set_aside_protected(fence.roots, fence.own_protection, moment)
        made = changed_since(fence.root, moment)
        changed = [path for path, inode in folders_in(fence.root).items() if folders.get(path) != inode]
        try:
            self.context.unasked_writes.note([*map(Path, changed), *(fence.root / name for name in made)])
        except StorageFailed as failure:
            said.append(f"which files it changed could not be kept: {failure.message}")
        return said, made

    async def _on_this_machine(self, signal: AbortSignal) -> _Outcome:
        with tempfile.TemporaryDirectory(prefix="ollm-code-") as folder:
            path = Path(folder, "code")
            path.write_text(self.params.code, "utf-8", errors="replace")
            environment = {**self._environment(), **(self.params.env or {})}
            child = self._start(self._argv(str(path), None), None, environment)
            return await self._run(child, signal, None)

    def _argv(self, path: str, cage: WorkCage | None) -> list[str]:
        given = self.params.args or []
        if self.params.language is CodeLanguage.BASH:
            return ["/bin/bash", "--noprofile", "--norc", path, *given]
        own = self.context.fence.root / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else _python()
        return [python if cage is None else cage.python(python), "-I", "-X", "utf8", path, *given]

    def _environment(self) -> dict[str, str]:
        root = str(self.context.fence.root)
        return command_environment(own_environment(), attended=False, cwd=root, mark=self._mark)

    @cached_property
    def _mark(self) -> str:
        return secrets.token_hex(8)

    def _start(
        self, argv: Sequence[str], cage: WorkCage | None, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            list(argv),
            cwd=self.context.fence.root,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=() if cage is None else cage.passed,
        )

    async def _run(self, child: subprocess.Popen[bytes], signal: AbortSignal, cage: WorkCage | None) -> _Outcome:
        """Read it to its end, or to that of its time; what it started ends with it."""

        def wait() -> None:
            child.wait()
            if cage is not None:
                cage.end()

        tree = None if cage is not None and cage.ends_alone else ProcessTree(child.pid, self._mark)
        if tree is not None:
            await asyncio.to_thread(ORPHANS.watch, child.pid, self._mark)
        limits = self.context.limits
        outcome = _Outcome(*(ExcerptBuffer(limits.result_chars // 2, limits.result_lines // 2) for _ in range(2)))
        streams = [await _reader(pipe) for pipe in (child.stdout, child.stderr) if pipe is not None]
        ended = asyncio.ensure_future(asyncio.to_thread(wait))
        try:
            async with asyncio.timeout(self.params.timeout):
                await signal.guard(
                    asyncio.gather(
                        *(
                            _drain(one, into)
                            for (one, _), into in zip(streams, (outcome.out, outcome.err), strict=True)
                        ),
                        asyncio.shield(ended),
                    )
                )
            outcome.exit_code = child.returncode
        except TimeoutError:
            outcome.exit_code = None
        except OperationCancelled as cancelled:
            raise OperationCancelled(signal.reason, partial=outcome.text) from cancelled
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signals.SIGKILL)
            await ended
            if tree is not None:
                tree.leader_ended()
                await asyncio.to_thread(Termination(tree, (signals.SIGKILL,), grace=0).run_to_end)
                ORPHANS.forget(self._mark)
            for _, transport in streams:
                transport.close()
        return outcome

    def _result(self, outcome: _Outcome, duration: int, made: list[str]) -> ToolResult:
        code = outcome.exit_code
        failure: ToolFailure | None = None
        if code is None:
            failure = ShellTimeout(
                f"The code timed out after {self.params.timeout:g} s and was ended. Give a longer timeout.",
                {"limitMs": round(self.params.timeout * 1000), "elapsedMs": duration},
            )
        elif code != 0:
            failure = ShellExecutionFailed(f"The code exited with code {code}", {"exitCode": code})
        text = outcome.text or NO_OUTPUT
        named = f"\n\nFiles made or changed: {', '.join(made[:MOST_ARTIFACTS])}" if made else ""
        content = f"Exit code: {'none' if code is None else code}\n\nOutput:\n{text}{named}"
        if isinstance(failure, ShellTimeout):
            content = f"{content}\n\n{failure.type}: {failure.message}"
        notes = [*outcome.notes, *_about_protected(made)]
        if (
            self.params.language is CodeLanguage.PYTHON
            and code
            and "ModuleNotFoundError" in outcome.err.excerpt().content
        ):
            notes.append('the workspace\'s own modules can be imported after: import sys; sys.path.insert(0, ".")')
        if failure is not None and self.place is ExecutionPlace.WORK_CAGE:
            self.refused = likely_refusal(text)
            notes += [f"[blocked by the cage: {self.refused}]"] if self.refused else []
            notes.append("it ran in a cage: only the workspace can be written, .git cannot, and there is no network")
            notes += [hint] if (hint := self.context.sandbox.hint) else []
        return ToolResult(
            llm_content=content,
            return_display=text,
            error=None if failure is None else ToolError.of(failure),
            data=RunCodeData(
                stdout=outcome.out.excerpt().content,
                stderr=outcome.err.excerpt().content,
                exit_code=code,
                duration=duration,
            ),
            notes=tuple(notes),
            exit_code=code,
            artifacts=tuple(Artifact(kind="file", path=name) for name in made[:MOST_ARTIFACTS]),
            truncated=outcome.truncated,
        )


class _Outcome:
    """What a program wrote, and its exit code once it has one."""

    def __init__(self, out: ExcerptBuffer, err: ExcerptBuffer) -> None:
        self.out = out
        self.err = err
        self.exit_code: int | None = None
        self.notes: Sequence[str] = ()
        """What the cage set aside."""
        self.made: list[str] = []

    @property
    def text(self) -> str:
        """Return both streams, one after the other."""
        return "\n[stderr]\n".join(each.content for each in self._excerpts() if each.content)

    @property
    def truncated(self) -> bool:
        return any(each.truncated for each in self._excerpts())

    def _excerpts(self) -> tuple[Truncated, Truncated]:
        return self.out.excerpt(), self.err.excerpt()


async def _reader(pipe: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
    return stream, transport


async def _drain(stream: asyncio.StreamReader, into: ExcerptBuffer) -> None:
    while data := await stream.read(_READ_BYTES):
        into.feed_bytes(data)
    into.end_of_input()


def _python() -> str:
    return shutil.which("python3") or sys.executable


def _about_protected(made: Sequence[str]) -> list[str]:
    """Return what to say of files that other programs act on."""
    notes: list[str] = []
    if any(".git" in Path(name).parts for name in made):
        notes.append("it made or changed a repository (.git) in the workspace: look at it before using git there")
    for name in made[:MOST_ARTIFACTS]:
        sensitivity = judge_writing(Path(name).parts)
        if sensitivity is not None and ".git" not in Path(name).parts and ".set-aside" not in name:
            notes.append(f"it made {quote_name(name)}, which {sensitivity.reason}: look at it")
    return notes


RUN_CODE = Tool(
    name="run_code",
    display_name="Run code",
    description=(
        "Run Python or bash code in a sandbox without network. "
        'sys.path.insert(0, ".") before importing modules of the workspace. timeout in seconds.'
    ),
    group=ToolGroup.RUNTIME,
    effect=Effect.RUNS,
    parameters=RunCodeParameters,
    invocation=RunCodeInvocation,
    returns=RunCodeData,
    risk=Risk.HIGH,
    time_limit=None,
    cuts_itself=True,
)
