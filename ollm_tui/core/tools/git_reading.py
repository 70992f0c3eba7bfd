"""`git_status`, `git_diff`, `git_log`, `git_show`, `git_blame`: look at a repository, in the cage (003)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, ShellExecutionFailed
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.git.reports import (
    LOG_FORMAT,
    STATUS_ARGUMENTS,
    GitBlameData,
    GitCommit,
    GitDiffData,
    GitFileChange,
    GitLogData,
    GitShowData,
    GitStatusData,
    blame_text,
    commit_line,
    diff_summary,
    parse_blame,
    parse_changed_files,
    parse_log,
    parse_status,
    status_text,
    unfinished_operation,
)
from ollm_tui.core.tools.base import Effect, P, Parameters, Tool, ToolGroup
from ollm_tui.core.tools.git_calls import GitInvocation, Revision, SearchText

_AS_IT_IS = ("--no-ext-diff", "--no-textconv", "--no-color")
_BINARY_LOOK = 8_000


class GitStatusParameters(Parameters):
    """Below which directory."""

    path: str | None = None


class GitDiffParameters(Parameters):
    """What to compare: the working tree with the index, `staged` the index with HEAD; or with a revision or range."""

    revision: Revision | None = None
    staged: bool = False
    paths: list[str] | None = None
    context_lines: int = Field(3, ge=0, le=1_000)


class GitLogParameters(Parameters):
    """Which commits; `grep` and `author` are regular expressions, case does not matter."""

    revision: Revision | None = None
    limit: int = Field(20, ge=1, le=1_000)
    paths: list[str] | None = None
    grep: SearchText | None = None
    author: SearchText | None = None


class GitShowParameters(Parameters):
    """A commit with its diff; with `path` that file's content at the revision."""

    revision: Revision = "HEAD"
    path: str | None = None


class GitBlameParameters(Parameters):
    """Which lines of which file, 1-based, both ends included."""

    path: str
    start_line: int | None = Field(None, ge=1)
    end_line: int | None = Field(None, ge=1)
    revision: Revision | None = None


class GitStatusInvocation(GitInvocation[GitStatusParameters]):
    """Tells what changed."""

    def get_description(self) -> str:
        return f"Show the git status of {visible(self.params.path or 'the workspace')}"

    def _paths(self) -> Sequence[str]:
        return () if self.params.path is None else (self.params.path,)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run git status. Raises ShellExecutionFailed."""
        status = await self.status(signal)
        text = status_text(status)
        return ToolResult(llm_content=text, return_display=text, data=status)

    async def status(self, signal: AbortSignal) -> GitStatusData:
        """Return the state of the working tree. Raises ShellExecutionFailed."""
        root = self._root()
        output = await self._git(root, [*STATUS_ARGUMENTS, "--", *self._pathspecs(root)], signal)
        repository = self._repository(root)
        return parse_status(output, self._shown_by(root), unfinished_operation(repository.git_dir))


class _DiffInvocation(GitInvocation[P]):
    """A call that prints a diff without what holds credentials."""

    async def _diff(
        self, root: Path, command: Sequence[str], options: Sequence[str], signal: AbortSignal, context: int = 3
    ) -> tuple[tuple[GitFileChange, ...], str, tuple[str, ...]]:
        """Return the files, the diff, and notes on what was left out of it."""
        specs = self._pathspecs(root)
        rest = ["--end-of-options", *options, "--", *specs]
        named = await self._git(root, [*command, *_AS_IT_IS, "--raw", "--numstat", "-z", *rest], signal)
        files = parse_changed_files(named, self._shown_by(root))
        asked_for = {location.shown for location in self._locations()}
        secret = {
            paths: file.path
            for paths, file in files.items()
            if any(self._is_secret(name) for name in {file.path, file.old_path or ""} - asked_for)
        }
        rest += [f":(exclude,top,literal){os.fsdecode(path)}" for paths in secret for path in paths]
        printed = await self._git(root, [*command, *_AS_IT_IS, "--relative", f"--unified={context}", *rest], signal)
        notes: list[str] = []
        if secret:
            names = ", ".join(secret.values())
            notes.append(f"left out, as it may hold secrets: {names}; ask for it by its path")
        return tuple(files.values()), printed.decode("utf-8", "replace"), tuple(notes)


class GitDiffInvocation(_DiffInvocation[GitDiffParameters]):
    """Shows changes."""

    def get_description(self) -> str:
        what = f"against {self.params.revision}" if self.params.revision else "that are not staged"
        return f"Show the changes {'that are staged' if self.params.staged else what}"

    def _paths(self) -> Sequence[str]:
        return self.params.paths or ()

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run git diff. Raises ShellExecutionFailed."""
        command = ["diff", *(["--cached"] if self.params.staged else [])]
        root, revision = self._root(), self.params.revision
        if revision is not None:
            await self._require_commits(root, revision, signal)
        options = [revision] if revision else []
        files, diff, notes = await self._diff(root, command, options, signal, self.params.context_lines)
        text = f"{diff_summary(files)}\n\n{diff}" if files else "No changes"
        return ToolResult(llm_content=text, return_display=text, data=GitDiffData(files=files, diff=diff), notes=notes)


class GitLogInvocation(GitInvocation[GitLogParameters]):
    """Lists commits."""

    def get_description(self) -> str:
        what = f" of {self.params.revision}" if self.params.revision else ""
        return f"Show the last {self.params.limit} commits{what}"

    def _paths(self) -> Sequence[str]:
        return self.params.paths or ()

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run git log. Raises ShellExecutionFailed."""
        root, given = self._root(), self.params
        arguments = ["log", "-z", f"--format={LOG_FORMAT}", f"--max-count={given.limit + 1}", "--regexp-ignore-case"]
        arguments += [f"--grep={given.grep}"] if given.grep else []
        arguments += [f"--author={given.author}"] if given.author else []
        arguments += ["--end-of-options", given.revision or "HEAD", "--"]
        try:
            commits = parse_log(
                await self._git(root, [*arguments, *(self._pathspecs(root) if given.paths else ())], signal)
            )
        except ShellExecutionFailed:
            if given.revision is None and not await self._has_commits(root, signal):
                return ToolResult.of_text("No commits yet", data=GitLogData())
            raise
        lines = [commit_line(commit) for commit in commits[: given.limit]]
        if len(commits) > given.limit:
            lines.append(f"[stopped at {given.limit} commits; there are more]")
        text = "\n".join(lines) or "No commits found"
        return ToolResult(llm_content=text, return_display=text, data=GitLogData(commits=commits[: given.limit]))

    async def _has_commits(self, root: Path, signal: AbortSignal) -> bool:
        try:
            await self._git(root, ["rev-parse", "--verify", "--quiet", "HEAD"], signal)
        except ShellExecutionFailed:
            return False
        return True


class GitShowInvocation(_DiffInvocation[GitShowParameters]):
    """Shows a commit, or a file as it was."""

    def get_description(self) -> str:
        revision = visible(self.params.revision)
        return f"Show {visible(self.params.path)} at {revision}" if self.params.path else f"Show commit {revision}"

    def _paths(self) -> Sequence[str]:
        return () if self.params.path is None else (self.params.path,)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run git show. Raises ShellExecutionFailed."""
        root = self._root()
        if self.params.path is not None:
            return await self._file(root, signal)
        # A range would show many: the tool is for one.
        named = await self._git(
            root,
            ["log", "-z", "--max-count=1", f"--format={LOG_FORMAT}", "--end-of-options", self.params.revision, "--"],
            signal,
        )
        (commit,) = parse_log(named) or (None,)
        if commit is None:
            raise ShellExecutionFailed(f"{visible(self.params.revision)} names no commit. git_log shows what there is.")
        files, diff, notes = await self._diff(
            root, ["show", "--format=", "--diff-merges=first-parent"], [commit.hash], signal
        )
        text = _commit_text(commit, files, diff.lstrip("\n"))
        data = GitShowData(commit=commit, files=files, diff=diff.lstrip("\n"))
        return ToolResult(llm_content=text, return_display=text, data=data, notes=notes)

    async def _file(self, root: Path, signal: AbortSignal) -> ToolResult:
        (location,) = self._locations()
        await self._require_commits(root, self.params.revision, signal)
        name = f"{self.params.revision}:./{location.real.relative_to(root)}"
        content = await self._git(root, ["show", "--no-textconv", "--end-of-options", name], signal)
        if b"\0" in content[:_BINARY_LOOK]:
            text = f"(binary file of {len(content):,} bytes)"
            return ToolResult(llm_content=text, return_display=text, data=GitShowData())
        text = content.decode("utf-8", "replace")
        return ToolResult(llm_content=text or "(file is empty)", return_display=text, data=GitShowData(content=text))


class GitBlameInvocation(GitInvocation[GitBlameParameters]):
    """Tells who wrote each line."""

    def get_description(self) -> str:
        return f"Show who wrote the lines of {visible(self.params.path)}"

    def _paths(self) -> Sequence[str]:
        return (self.params.path,)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run git blame. Raises ShellExecutionFailed and InvalidArguments."""
        start, end = self.params.start_line, self.params.end_line
        if start and end and start > end:
            raise InvalidArguments("startLine is after endLine. Give the smaller one first.")
        root = self._root()
        (location,) = self._locations()
        arguments = ["blame", "--line-porcelain", *([f"-L{start or 1},{end or ''}"] if start or end else [])]
        arguments += [self.params.revision] if self.params.revision else []
        output = await self._git(root, [*arguments, "--", str(location.real.relative_to(root))], signal)
        runs, texts = parse_blame(output)
        text = blame_text(runs, texts) or "(file is empty)"
        return ToolResult(llm_content=text, return_display=text, data=GitBlameData(lines=runs))


def _commit_text(commit: GitCommit, files: Sequence[GitFileChange], diff: str) -> str:
    head = f"commit {commit.hash}\nAuthor: {visible(commit.author)} <{visible(commit.email)}>\nDate: {commit.date}"
    body = f"\n\n{visible_block(commit.body)}" if commit.body else ""
    changes = f"\n\n{diff_summary(files)}\n\n{diff}" if files else "\n\nNo changes to files"
    return f"{head}\n\n{visible(commit.subject)}{body}{changes}"


GIT_STATUS = Tool(
    name="git_status",
    display_name="Git status",
    description="Show branch, staged, changed, untracked and conflicting files.",
    group=ToolGroup.GIT,
    effect=Effect.READS,
    parameters=GitStatusParameters,
    invocation=GitStatusInvocation,
    returns=GitStatusData,
    risk=Risk.LOW,
)
GIT_DIFF = Tool(
    name="git_diff",
    display_name="Git diff",
    description="Show changes: not staged, staged, or against a revision or range (main..HEAD).",
    group=ToolGroup.GIT,
    effect=Effect.READS,
    parameters=GitDiffParameters,
    invocation=GitDiffInvocation,
    returns=GitDiffData,
    risk=Risk.LOW,
)
GIT_LOG = Tool(
    name="git_log",
    display_name="Git log",
    description="List commits, newest first. grep searches messages.",
    group=ToolGroup.GIT,
    effect=Effect.READS,
    parameters=GitLogParameters,
    invocation=GitLogInvocation,
    returns=GitLogData,
    risk=Risk.LOW,
)
GIT_SHOW = Tool(
    name="git_show",
    display_name="Git show",
    description="Show a commit with its diff; with path, the file as it was at the revision.",
    group=ToolGroup.GIT,
    effect=Effect.READS,
    parameters=GitShowParameters,
    invocation=GitShowInvocation,
    returns=GitShowData,
    risk=Risk.LOW,
)
GIT_BLAME = Tool(
    name="git_blame",
    display_name="Git blame",
    description="Show which commit wrote each line of a file.",
    group=ToolGroup.GIT,
    effect=Effect.READS,
    parameters=GitBlameParameters,
    invocation=GitBlameInvocation,
    returns=GitBlameData,
    risk=Risk.LOW,
)
