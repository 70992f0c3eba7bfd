"""`install_package`: install packages with pip or npm, exactly as they were shown (003; contract section 1)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
import time
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
from ollm_tui.core.packages.plan import InstallPlan, Manager
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

    _installed: tuple[InstallPlan, ToolResult] | None = None
    """What is installed by now; executed once more, its install scripts run."""

    def get_description(self) -> str:
        if self._installed is not None:
            return f"Run {visible(self.further)}"
        return f"Install {', '.join(map(visible, self.params.packages))} with {self.params.manager.value}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(".", Access.READ)]

    @property
    def place(self) -> ExecutionPlace:
        return ExecutionPlace.THIS_MACHINE

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise what no approval can help: unknown names, no network; return a result where all is there."""
        if self._installed is not None:
            return None
        plan = await signal.in_thread(self._plan, signal)
        return None if plan.packages or plan.removed else self._told(plan, "All of it is installed already.")

    async def question(self) -> Question:
        """Return what would be installed, bound to it and to the project's files as they are."""
        signal = AbortSignal()
        if self._installed is not None:
            return await self._scripts_question(self._installed[0], signal)
        plan = await signal.in_thread(self._plan, signal)
        state = f"{await signal.in_thread(self._project_state)} {plan.text()} {plan.warnings}"

        async def preview() -> TextPreview:
            return TextPreview(text=plan.text(), warnings=plan.warnings)

        return Question(hashlib.sha256(state.encode("utf-8", "replace")).hexdigest(), preview)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Install the plan, then its scripts. Raises ShellExecutionFailed, ShellTimeout, FileChanged."""
        if self._installed is not None:
            return await self._run_scripts(*self._installed, signal, update_output)
        plan = await signal.in_thread(self._plan, signal)
        if not plan.packages and not plan.removed:
            return self._told(plan, "All of it is installed already.")
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="ollm-install-"))
        old = await signal.in_thread(self._put_files, plan)
        done = False
        try:
            line = await signal.in_thread(self._line, plan, folder, signal)
            outcome = await self._run(line, signal, update_output)
            done = outcome.status.exit_code == 0 and outcome.status.ending is None
        finally:
            if not done:
                await asyncio.to_thread(self._put_back, old)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if not done:
            return self._failed(outcome)
        result = self._told(plan, f"Installed into {plan.target}:")
        if unrun := scripted(plan):
            self.further = f"the install scripts of {', '.join(unrun)}"
            self._installed = plan, result
        return result

    async def _scripts_question(self, plan: InstallPlan, signal: AbortSignal) -> Question:
        """Return the scripts that would run, bound to them and to the project's files as they are."""
        installer = self._installer
        assert isinstance(installer, NpmInstaller), "pip's packages have no scripts"
        scripts = await signal.in_thread(installer.scripts, plan)
        line, root = installer.rebuild(plan), self.context.fence.root
        preview = TextPreview(
            text="\n".join([*map(visible, scripts), "", visible(f"by {line}")]),
            warnings=("A yes runs code of these packages on this machine, outside any cage.",),
        )

        async def shown() -> TextPreview:
            return preview

        state = f"{await signal.in_thread(self._project_state)} {root} {preview.text}"
        return Question(hashlib.sha256(state.encode("utf-8", "replace")).hexdigest(), shown)

    async def _run_scripts(
        self, plan: InstallPlan, installed: ToolResult, signal: AbortSignal, update_output: UpdateOutput | None
    ) -> ToolResult:
        """Run the install scripts; what is installed stays where one fails."""
        installer = self._installer
        assert isinstance(installer, NpmInstaller), "pip's packages have no scripts"
        outcome = await self._run(installer.rebuild(plan), signal, update_output)
        if outcome.status.exit_code != 0 or outcome.status.ending is not None:
            return self._failed(outcome, "The packages are installed, but their install scripts failed")
        content = f"{installed.llm_content}\nIts install scripts ran: {', '.join(scripted(plan))}"
        return installed.model_copy(update={"llm_content": content, "return_display": content, "notes": ()})

    @cached_property
    def _installer(self) -> PipInstaller | NpmInstaller:
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

    def _line(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        installer = self._installer
        return installer.command() if isinstance(installer, NpmInstaller) else installer.command(plan, folder, signal)

    async def _run(self, line: str, signal: AbortSignal, update_output: UpdateOutput | None) -> CommandOutcome:
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
        restored = self.params.manager is Manager.NPM and self._installed is None
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
