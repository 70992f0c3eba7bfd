"""`git_add` and `git_commit`, and what all git tools share that change a repository: a preview of the change (003)."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ShellExecutionFailed
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.git.configuration import configured_program
from ollm_tui.core.git.reports import STATUS_ARGUMENTS, GitStatusData, parse_status, status_text, unfinished_operation
from ollm_tui.core.sandbox.look import GIT_ENVIRONMENT
from ollm_tui.core.search.repository import Repository
from ollm_tui.core.tools.base import CallFacts, Effect, P, Parameters, Question, Tool, ToolGroup
from ollm_tui.core.tools.git_calls import GitInvocation

COMMIT_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
_MOST_HOOK_BYTES = 10_000_000


def _named_paths(paths: list[str]) -> list[str]:
    if any(os.path.normpath(path) == "." for path in paths):
        raise ValueError('name the files or folders, not the whole workspace (".")')
    return paths


def _branch_name(name: str) -> str:
    if not name or name.startswith("-") or any(ord(each) <= 32 or each in ":?*[\\^~" for each in name):
        raise ValueError("give a name as git takes it: no blanks, no leading dash, none of : ? * [ \\ ^ ~")
    return name


NamedPaths: TypeAlias = Annotated[list[str], AfterValidator(_named_paths), Field(min_length=1)]
"""Files and folders, but never everything."""
BranchName: TypeAlias = Annotated[str, AfterValidator(_branch_name)]
"""The name of a branch or a remote."""


class GitAddParameters(Parameters):
    """What to stage."""

    paths: NamedPaths


class GitCommitParameters(Parameters):
    """What to commit: what is staged, or just `paths`; `amend` replaces the last commit."""

    message: str = Field(min_length=1)
    paths: NamedPaths | None = None
    amend: bool = False


class GitChangeInvocation(GitInvocation[P]):
    """A call that changes a repository: asked about with what it would change, and told by the status after it."""

    def facts(self) -> CallFacts:
        """Return what the policy judges by: a repository that names programs makes it ask."""
        found = Repository.around(os.path.join(os.fsencode(self._root()), b""))
        program = None if found is None else configured_program(Path(os.fsdecode(found.root[:-1])))
        return CallFacts(self.tool.effect, question=program)

    async def question(self) -> Question:
        """Return what would change, and a fingerprint of it."""
        text, warnings = await self._effect(AbortSignal())

        async def preview() -> TextPreview:
            return TextPreview(text=visible_block(text), warnings=warnings)

        return Question(hashlib.sha256("\0".join((text, *warnings)).encode("utf-8", "replace")).hexdigest(), preview)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Change the repository. Raises ShellExecutionFailed."""
        done = await self._change(self._root(), signal)
        status = await self._status(signal)
        text = f"{done}\n\n{status_text(status)}"
        return ToolResult(llm_content=text, return_display=text, data=status)

    @abstractmethod
    async def _effect(self, signal: AbortSignal) -> tuple[str, tuple[str, ...]]:
        """Return what would change, and what a person should know before saying yes."""

    @abstractmethod
    async def _change(self, root: Path, signal: AbortSignal) -> str:
        """Change the repository and return one line about it."""

    async def _status(self, signal: AbortSignal) -> GitStatusData:
        root = self._root()
        output = await self._git(root, [*STATUS_ARGUMENTS, "--", "."], signal)
        return parse_status(output, self._shown_by(root), unfinished_operation(self._repository(root).git_dir))

    async def _text(self, root: Path, arguments: Sequence[str], signal: AbortSignal) -> str:
        return (await self._git(root, arguments, signal)).decode("utf-8", "replace")

    async def _write(
        self,
        root: Path,
        arguments: Sequence[str],
        signal: AbortSignal,
        *,
        given: bytes = b"",
        settings: Sequence[tuple[str, str]] = (),
    ) -> str:
        """Return what a changing git prints, on this machine; `settings` win over those that keep it from programs."""
        variables = settings_environment(settings)
        output = await self._run(root, arguments, signal, caged=False, given=given, variables=variables)
        return output.decode("utf-8", "replace").strip()

    async def _hooks(self, root: Path, names: Sequence[str], signal: AbortSignal) -> dict[str, Path]:
        """Return the hooks of those names that git would run, and the directory they lie in as ""."""
        repository = self._repository(root)
        try:
            own = await self._run(
                root,
                ["config", "--null", "--type=path", "--get", "core.hooksPath"],
                signal,
                caged=False,
                variables=settings_environment((), count=0),
            )
            folder = Path(os.fsdecode(repository.root), os.fsdecode(own.rstrip(b"\0")))
        except ShellExecutionFailed:
            folder = Path(os.fsdecode(repository.common_dir), "hooks")
        found = {name: folder / name for name in names if os.access(folder / name, os.X_OK)}
        return {**found, "": folder}


class GitAddInvocation(GitChangeInvocation[GitAddParameters]):
    """Stages files."""

    def get_description(self) -> str:
        return f"Stage {', '.join(map(visible, self.params.paths))}"

    def _paths(self) -> Sequence[str]:
        return self.params.paths

    async def _effect(self, signal: AbortSignal) -> tuple[str, tuple[str, ...]]:
        root = self._root()
        specs = self._pathspecs(root)
        changes = await self._text(root, ["diff", "--no-ext-diff", "--no-textconv", "--relative", "--", *specs], signal)
        new = await self._text(root, ["ls-files", "-z", "--others", "--exclude-standard", "--", *specs], signal)
        added = [f"new file: {self.context.fence.shown(root / name)}" for name in new.split("\0") if name]
        return "\n".join([*added, changes]).strip() or "(nothing to stage)", ()

    async def _change(self, root: Path, signal: AbortSignal) -> str:
        await self._write(root, ["add", "--", *self._pathspecs(root)], signal)
        return f"Staged {', '.join(location.shown for location in self._locations())}"


class GitCommitInvocation(GitChangeInvocation[GitCommitParameters]):
    """Makes a commit; its hooks run on this machine, once the question has named them."""

    def get_description(self) -> str:
        subject = visible(self.params.message.strip().partition("\n")[0])
        return f"{'Replace the last commit by' if self.params.amend else 'Commit'} “{subject}”"

    def _paths(self) -> Sequence[str]:
        return self.params.paths or ()

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise ShellExecutionFailed where there is nothing to commit, before anyone is asked."""
        if not self.params.amend and not await self._staged(signal):
            raise ShellExecutionFailed("There is nothing to commit. Stage changes with git_add, or name paths.")
        return None

    async def _staged(self, signal: AbortSignal, *format_: str) -> str:
        root = self._root()
        unborn = not await self._has_commits(root, signal)
        before = ["HEAD"] if self.params.paths and not unborn else ["--cached"]
        arguments = ["diff", "--no-ext-diff", "--no-textconv", *format_, *before, "--"]
        return await self._text(root, [*arguments, *(self._pathspecs(root) if self.params.paths else ())], signal)

    async def _has_commits(self, root: Path, signal: AbortSignal) -> bool:
        try:
            await self._git(root, ["rev-parse", "--verify", "--quiet", "HEAD"], signal)
        except ShellExecutionFailed:
            return False
        return True

    async def _effect(self, signal: AbortSignal) -> tuple[str, tuple[str, ...]]:
        root = self._root()
        hooks = await self._hooks(root, COMMIT_HOOKS, signal)
        warnings = [hook_warning(path) for name, path in hooks.items() if name]
        if self.params.amend:
            last = await self._text(root, ["log", "-1", "--format=%h %s", "HEAD"], signal)
            warnings.append(f"replaces the commit {visible(last.strip())}")
        head = await self._text(root, ["status", "--porcelain=v2", "--branch", "--untracked-files=no"], signal)
        place = next((line for line in head.splitlines() if line.startswith("# branch.head ")), "")
        staged = await self._staged(signal)
        return f"on {place.removeprefix('# branch.head ')}:\n\n{self.params.message}\n\n{staged}", tuple(warnings)

    async def _change(self, root: Path, signal: AbortSignal) -> str:
        hooks = await self._hooks(root, COMMIT_HOOKS, signal)
        arguments = ["commit", "--quiet", "--no-gpg-sign", "--cleanup=strip", "--file=-"]
        arguments += ["--amend"] if self.params.amend else []
        arguments += ["--only", "--", *self._pathspecs(root)] if self.params.paths else []
        message = self.params.message.encode("utf-8", "replace")
        # Unasked (a rule allowed it) no hook runs: nobody was shown it.
        settings = [("core.hooksPath", str(hooks[""]))] if self.approved or len(hooks) == 1 else []
        await self._write(root, arguments, signal, given=message, settings=settings)
        made = await self._text(root, ["log", "-1", "--format=%h %s", "HEAD"], signal)
        skipped = "" if settings else " (its hooks were not run: nobody was asked)"
        return f"Committed {visible(made.strip())}{skipped}"


def settings_environment(settings: Sequence[tuple[str, str]], count: int | None = None) -> dict[str, str]:
    """Return the variables that put settings of git behind those which keep it from starting programs."""
    first = int(GIT_ENVIRONMENT["GIT_CONFIG_COUNT"]) if count is None else count
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        variables[f"GIT_CONFIG_KEY_{number}"], variables[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return variables


def hook_warning(path: Path) -> str:
    """Return what a person should know about a hook: which file, and what is in it by its digest."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_MOST_HOOK_BYTES)).hexdigest()[:12]
    return f"runs the hook {visible(str(path))} on this machine (sha256 {digest})"


GIT_ADD = Tool(
    name="git_add",
    display_name="Git add",
    description="Stage files for the next commit.",
    group=ToolGroup.GIT,
    effect=Effect.RUNS,
    parameters=GitAddParameters,
    invocation=GitAddInvocation,
    returns=GitStatusData,
    risk=Risk.MEDIUM,
)
GIT_COMMIT = Tool(
    name="git_commit",
    display_name="Git commit",
    description="Commit what is staged, or only paths.",
    group=ToolGroup.GIT,
    effect=Effect.RUNS,
    parameters=GitCommitParameters,
    invocation=GitCommitInvocation,
    returns=GitStatusData,
    risk=Risk.MEDIUM,
)
