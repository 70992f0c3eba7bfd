"""`install_package`: install packages with pip or npm, exactly as they were shown (003; contract section 1)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FileChanged, FileWriteFailed, InvalidArguments, ShellExecutionFailed, ShellTimeout
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ExecutionPlace, ToolData, ToolError, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.files.snapshots import replace
from ollm_tui.core.packages.npm_packages import LOCK, MANIFEST, NpmInstaller, scripted
from ollm_tui.core.packages.pip_packages import PipInstaller
from ollm_tui.core.packages.plan import Installer, InstallPlan, Manager
from ollm_tui.core.search.repository import read_file
from ollm_tui.core.shell.hub import CommandRequest
from ollm_tui.core.shell.pty_process import StartError, bash_line
from ollm_tui.core.shell.shell_service import CommandOutcome
from ollm_tui.core.shell.status import CommandEnding, TimeLimits
from ollm_tui.core.tools.base import Effect, Parameters, Question, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.command_outcome import full_text
from ollm_tui.core.tools.git_calls import trusted_path
from ollm_tui.core.tools.shell import shell_service

INSTALL_SECONDS = 900.0


class InstallPackageParameters(Parameters):
    """What to install; `dev` puts it among npm's devDependencies."""

    manager: Manager
    packages: list[str] = Field(min_length=1, max_length=50)
    dev: bool = False


class InstalledPackage(ToolData):
    """One package that was installed; `replaced` is the version it took the place of."""

    name: str
    version: str
    replaced: str | None = None


class InstallPackageData(ToolData):
    """What was installed and removed, where, and which files of the project changed."""

    target: str
    installed: tuple[InstalledPackage, ...] = ()
    removed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class InstallPackageInvocation(ToolInvocation[InstallPackageParameters]):
    """Looks ahead without running anything, asks with what it found, and installs that and nothing else."""

    _first: tuple[InstallPlan, ToolResult] | None = None
    """What came of the first yes; executed once more, what runs a package's own code follows."""

    def get_description(self) -> str:
        if self._first is not None:
            return f"Run {visible(self.further)}"
        return f"Install {', '.join(map(visible, self.params.packages))} with {self.params.manager.value}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(".", Access.READ)]

    @property
    def place(self) -> ExecutionPlace:
        return ExecutionPlace.THIS_MACHINE

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise what no approval can help: unknown names, no network; return a result where all is there."""
        if self._first is not None:
            return None
        plan = await signal.in_thread(self._plan, signal)
        return None if plan.packages or plan.removed else self._told(plan, "All of it is installed already.")

    async def question(self) -> Question:
        """Return what would be installed, bound to it and to the project's files as they are."""
        signal = AbortSignal()
        if self._first is not None:
            return await self._further_question(self._first[0], signal)
        plan = await signal.in_thread(self._plan, signal)
        state = f"{await signal.in_thread(self._project_state)} {plan.text()} {plan.warnings}"

        async def preview() -> TextPreview:
            return TextPreview(text=plan.text(), warnings=plan.warnings)

        return Question(hashlib.sha256(state.encode("utf-8", "replace")).hexdigest(), preview)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Install the plan; executed once more, run the code of packages that was asked about by itself.

        Raises ShellExecutionFailed, ShellTimeout, FileChanged.
        """
        if self._first is not None:
            return await self._run_further(*self._first, signal, update_output)
        plan = await signal.in_thread(self._plan, signal)
        if not plan.packages and not plan.removed:
            return self._told(plan, "All of it is installed already.")
        further = self._installer.further(plan)
        if plan.builds:
            return self._asked_further(further, plan, _not_built(plan))
        old = await signal.in_thread(self._put_files, plan)
        done = False
        try:
            outcome = await self._run(self._installer.command, plan, signal, update_output)
            done = outcome.status.exit_code == 0 and outcome.status.ending is None
        finally:
            if not done:
                await asyncio.to_thread(self._put_back, old)
        if not done:
            return self._failed(outcome)
        return self._asked_further(further, plan, self._told(plan, f"Installed into {plan.target}:"))

    def _asked_further(self, further: str, plan: InstallPlan, result: ToolResult) -> ToolResult:
        """Return what came of the first yes, having a second one asked for what of the plan runs code."""
        if further:
            self.further, self._first = further, (plan, result)
        return result

    async def _further_question(self, plan: InstallPlan, signal: AbortSignal) -> Question:
        """Return what would run, bound to it and to the project's files as they are."""
        text = await signal.in_thread(self._installer.further_text, plan)
        if plan.builds:
            warning = "Building runs code of these packages (their setup.py or build backend)"
        else:
            warning = "A yes runs code of these packages"
        preview = TextPreview(text=text, warnings=(f"{warning} on this machine, outside any cage.",))

        async def shown() -> TextPreview:
            return preview

        state = f"{await signal.in_thread(self._project_state)} {self.context.fence.root} {preview.text}"
        return Question(hashlib.sha256(state.encode("utf-8", "replace")).hexdigest(), shown)

    async def _run_further(
        self, plan: InstallPlan, first: ToolResult, signal: AbortSignal, update_output: UpdateOutput | None
    ) -> ToolResult:
        """Run what was asked about by itself; what is installed stays where an install script fails."""
        outcome = await self._run(self._installer.further_command, plan, signal, update_output)
        ended_well = outcome.status.exit_code == 0 and outcome.status.ending is None
        if plan.builds:
            if not ended_well:
                return self._failed(outcome, "The build or the installation failed")
            result = self._told(plan, f"Built and installed into {plan.target}:")
            needs = await signal.in_thread(self._installer.unmet, plan)
            note = f"not installed, though what was built says it needs it: {visible(', '.join(needs))}"
            return result.model_copy(update={"notes": (note,)}) if needs else result
        if not ended_well:
            return self._failed(outcome, "The packages are installed, but their install scripts failed")
        content = f"{first.llm_content}\nIts install scripts ran: {', '.join(scripted(plan))}"
        return first.model_copy(update={"llm_content": content, "return_display": content, "notes": ()})

    @cached_property
    def _installer(self) -> Installer:
        """Return what installs. Raises InvalidArguments."""
        root, packages = self.context.fence.root, self.params.packages
        path = trusted_path(self.context.fence.roots)
        if self.params.manager is Manager.NPM:
            return NpmInstaller(root, packages, path, dev=self.params.dev)
        if self.params.dev:
            raise InvalidArguments("pip keeps no list of development packages. Leave out dev.")
        return PipInstaller(root, packages, path)

    @cached_property
    def _plans(self) -> dict[str, InstallPlan]:
        return {}

    def _plan(self, signal: AbortSignal) -> InstallPlan:
        """Return the plan for the project as it is, made once for each state of it. Blocks; raises ToolFailure."""
        state = self._project_state()
        if state not in self._plans:
            self._plans[state] = self._installer.plan(signal)
        return self._plans[state]

    def _project_state(self) -> str:
        """Return a text that changes with what the plan was made from."""
        root = self.context.fence.root
        digest = hashlib.sha256()
        for name in (MANIFEST, LOCK, ".npmrc"):
            digest.update(read_file(os.fsencode(root / name), 50_000_000) or b"-")
        if isinstance(self._installer, PipInstaller):
            there = sorted(str(each) for each in self._installer.venv.glob("lib/python3*/site-packages/*.dist-info"))
            digest.update("\0".join([str(self._installer.venv), *there]).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def _put_files(self, plan: InstallPlan) -> dict[str, bytes | None]:
        """Put manifest and lock file in place; return what they held. Raises FileChanged."""
        if not plan.files:
            return {}
        if self._plans.get(self._project_state()) is not plan:
            raise FileChanged("package.json or its lock file was changed at this moment. Nothing was installed.")
        root = self.context.fence.root
        old = {name: read_file(os.fsencode(root / name), 50_000_000, follow=False) for name in plan.files}
        for name, content in plan.files.items():
            self._write(name, content)
        return old

    def _put_back(self, files: dict[str, bytes | None]) -> None:
        for name, content in files.items():
            if content is None:
                (self.context.fence.root / name).unlink(missing_ok=True)
            else:
                self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        fence = self.context.fence
        location = fence.resolve(name, Access.WRITE, follow=False)
        replace(fence, location, [content], fence.status(location), AbortSignal(), otherwise=FileWriteFailed)

    async def _run(
        self,
        command: Callable[[InstallPlan, Path, AbortSignal], str],
        plan: InstallPlan,
        signal: AbortSignal,
        update_output: UpdateOutput | None,
    ) -> CommandOutcome:
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="ollm-install-"))
        try:
            return await self._run_line(await signal.in_thread(command, plan, folder, signal), signal, update_output)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _run_line(self, line: str, signal: AbortSignal, update_output: UpdateOutput | None) -> CommandOutcome:
        root, started = self.context.fence.root, time.monotonic()
        request = CommandRequest(
            command=line,
            cwd=root,
            call_id=self.context.call_id,
            limits=TimeLimits(INSTALL_SECONDS, None),
            argv=["/usr/bin/env", f"PATH={trusted_path(self.context.fence.roots)}", *bash_line(line)],
        )
        try:
            outcome = await shell_service(self.context).run(request, signal, update_output)
        except StartError as failure:
            raise ShellExecutionFailed(str(failure)) from None
        if outcome.status.ending is CommandEnding.TIMED_OUT:
            elapsed = round((time.monotonic() - started) * 1000)
            raise ShellTimeout(
                f"The installation took more than {INSTALL_SECONDS:g} s and was ended; it may be done in part.",
                {"limitMs": round(INSTALL_SECONDS * 1000), "elapsedMs": elapsed},
            )
        return outcome

    def _told(self, plan: InstallPlan, head: str) -> ToolResult:
        lines = [visible(f"{each.name} {each.version}") for each in plan.packages]
        data = InstallPackageData(
            target=plan.target,
            installed=tuple(
                InstalledPackage(name=each.name, version=each.version, replaced=each.replaces or None)
                for each in plan.packages
            ),
            removed=plan.removed,
            files=tuple(plan.files),
        )
        unrun = scripted(plan)
        note = (
            "install scripts were not run, as that needs a person's second yes; "
            f"`npm rebuild {' '.join(unrun)}` in shell runs them, if they are needed"
        )
        return ToolResult.of_text("\n".join([head, *lines]), data=data, notes=(note,) if unrun else ())

    def _failed(self, outcome: CommandOutcome, what: str = "The installation failed") -> ToolResult:
        code, text = outcome.status.exit_code, outcome.output.text.content
        restored = self.params.manager is Manager.NPM and self._first is None
        kept = " package.json and its lock file are as before." if restored else ""
        error = ShellExecutionFailed(f"{what} with code {code}; see the output.{kept}", {"exitCode": code})
        content = f"{error.type}: {error.message}\n\nOutput:\n{text}"
        return ToolResult(
            llm_content=content,
            return_display=content,
            error=ToolError.of(error),
            exit_code=code,
            artifacts=full_text(outcome.output),
        )


def _not_built(plan: InstallPlan) -> ToolResult:
    """Return what holds until a person says yes to building: nothing is installed."""
    titles = ", ".join(build.source.file.title for build in plan.builds)
    error = ShellExecutionFailed(
        f"Nothing was installed. {titles} is there only as source, and building it runs its own code, which needs "
        "a person's second yes. Without one, ask for a version or another package that comes as a wheel."
    )
    return ToolResult.of_failure(error)


INSTALL_PACKAGE = Tool(
    name="install_package",
    display_name="Install Package",
    description="Install packages by name, with or without a version, into the project's environment.",
    group=ToolGroup.RUNTIME,
    effect=Effect.RUNS,
    parameters=InstallPackageParameters,
    invocation=InstallPackageInvocation,
    returns=InstallPackageData,
    risk=Risk.HIGH,
    requires_approval=True,
    time_limit=None,
    cuts_itself=True,
)
