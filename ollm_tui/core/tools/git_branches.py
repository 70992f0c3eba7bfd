"""`git_branch`, `git_checkout` and `git_push`: other branches, here and elsewhere (003)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.secrets import mask, own_environment
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.git.reports import GitStatusData
from ollm_tui.core.tools.base import CallFacts, Effect, Parameters, Tool, ToolGroup, TouchedPath
from ollm_tui.core.tools.git_calls import Revision
from ollm_tui.core.tools.git_changing import (
    BranchName,
    GitChangeInvocation,
    NamedPaths,
    hook_warning,
    settings_environment,
)

PROTOCOLS = "file:http:https:ssh"
"""How a push may reach the other repository; `ext` and `git` with a proxy would start any program."""


class GitBranchParameters(Parameters):
    """Which branch; `from` is where a new one begins."""

    name: BranchName | None = None
    action: Literal["create", "delete", "list"] = "create"
    from_: Revision | None = Field(None, alias="from")


class GitCheckoutParameters(Parameters):
    """What to check out: a branch or commit, or with `paths` those files as they were there."""

    revision: Revision
    paths: NamedPaths | None = None
    create: bool = False


class GitBranchesData(ToolData):
    """The branches by name, and the one that is checked out."""

    branches: tuple[str, ...] = ()
    current: str | None = None


class GitBranchInvocation(GitChangeInvocation[GitBranchParameters]):
    """Makes, deletes or lists branches."""

    def get_description(self) -> str:
        given = self.params
        if given.action == "list":
            return "List the branches"
        start = f" from {given.from_}" if given.from_ else ""
        return f"{given.action.capitalize()} branch {visible(given.name or '')}{start}"

    def facts(self) -> CallFacts:
        """Return what the policy judges by; listing only reads."""
        facts = super().facts()
        return CallFacts(Effect.READS) if self.params.action == "list" else facts

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise InvalidArguments for a branch without a name."""
        if self.params.action != "list" and not self.params.name:
            raise InvalidArguments(f"git_branch: name is missing: which branch to {self.params.action}?")
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Change or list the branches. Raises ShellExecutionFailed."""
        if self.params.action != "list":
            return await super().execute(signal, update_output)
        arguments = ["branch", "--all", "--format=%(HEAD)%(refname:short) %(objectname:short) %(subject)"]
        lines = (await self._text(self._root(), arguments, signal)).splitlines()
        names = [line[1:].split(" ")[0] for line in lines]
        current = next((name for name, line in zip(names, lines, strict=True) if line.startswith("*")), None)
        text = "\n".join(f"{line[:1]} {visible(line[1:])}" for line in lines) or "No branches yet"
        return ToolResult(
            llm_content=text, return_display=text, data=GitBranchesData(branches=tuple(names), current=current)
        )

    async def _effect(self, signal: AbortSignal) -> tuple[str, tuple[str, ...]]:
        at = (self.params.from_ or "HEAD") if self.params.action == "create" else f"refs/heads/{self.params.name}"
        return (
            await self._text(self._root(), ["log", "-1", "--format=%h %s", "--end-of-options", at, "--"], signal)
        ), ()

    async def _change(self, root: Path, signal: AbortSignal) -> str:
        name = self.params.name or ""
        if self.params.action == "delete":
            await self._write(root, ["branch", "--quiet", "--delete", "--", name], signal)
            return f"Deleted branch {visible(name)}"
        await self._write(root, ["branch", "--no-track", "--", name, self.params.from_ or "HEAD"], signal)
        return f"Created branch {visible(name)}"


class GitCheckoutInvocation(GitChangeInvocation[GitCheckoutParameters]):
    """Checks out a branch or commit, or single files of one."""

    def get_description(self) -> str:
        given = self.params
        if given.paths:
            return f"Set {', '.join(map(visible, given.paths))} back to {visible(given.revision)}"
        return f"Check out {'the new branch ' if given.create else ''}{visible(given.revision)}"

    def _paths(self) -> Sequence[str]:
        return self.params.paths or ()

    def touched_paths(self) -> list[TouchedPath]:
        written = [TouchedPath(path, Access.WRITE, follow=False) for path in self._paths()]
        return written or super().touched_paths()

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise InvalidArguments for files out of a branch that is only made."""
        if self.params.create and self.params.paths:
            raise InvalidArguments("git_checkout: create makes a branch and takes no paths. Leave out one of them.")
        return None

    async def _effect(self, signal: AbortSignal) -> tuple[str, tuple[str, ...]]:
        root, given = self._root(), self.params
        if given.create:
            return f"new branch {given.revision} at HEAD", ()
        options = ["--no-ext-diff", "--no-textconv", "-R", "--end-of-options", given.revision, "--"]
        if given.paths:
            lost = await self._text(root, ["diff", "--relative", *options, *self._pathspecs(root)], signal)
            return lost or "(nothing changes)", (("what is not committed in these files is lost",) if lost else ())
        return await self._text(root, ["diff", "--stat", *options[:-1], "HEAD", "--"], signal) or "(the same files)", ()

    async def _change(self, root: Path, signal: AbortSignal) -> str:
        given = self.params
        if given.paths:
            await self._write(root, ["checkout", "--quiet", given.revision, "--", *self._pathspecs(root)], signal)
            return f"Set {len(given.paths)} path{'s' * (len(given.paths) > 1)} back to {visible(given.revision)}"
        target = ["--create", given.revision] if given.create else [given.revision]
        try:
            await self._write(root, ["switch", "--quiet", "--no-guess", *target], signal)
        except ShellExecutionFailed as failure:
            if "branch is expected" not in failure.message:
                raise
            await self._write(root, ["switch", "--quiet", "--detach", given.revision], signal)
        return f"Checked out {visible(given.revision)}"


class GitPushParameters(Parameters):
    """What to push where; without `branch` the one that is checked out."""

    remote: BranchName = "origin"
    branch: BranchName | None = None
    set_upstream: bool = False
    force_with_lease: bool = False
    """Replace the branch there, unless it changed since it was fetched last."""


class GitPushInvocation(GitChangeInvocation[GitPushParameters]):
    """Sends commits to another repository."""

    def get_description(self) -> str:
        force = ", replacing what is there" if self.params.force_with_lease else ""
        return f"Push {visible(self.params.branch or 'the current branch')} to {visible(self.params.remote)}{force}"

    async def _branch(self, signal: AbortSignal) -> str:
        """Return the branch to push. Raises ShellExecutionFailed where none is checked out."""
        if self.params.branch:
            return self.params.branch
        found = (await self._text(self._root(), ["branch", "--show-current"], signal)).strip()
        if not found:
            raise ShellExecutionFailed("No branch is checked out. Name the branch to push.")
        return found

    async def _own(self, key: str, signal: AbortSignal) -> list[str]:
        """Return the values of a setting in the person's own files, not in the repository's."""
        root = self._root()
        try:
            listed = await self._run(
                root,
                ["config", "--null", "--show-scope", "--get-all", key],
                signal,
                caged=False,
                variables=settings_environment((), count=0),
            )
        except ShellExecutionFailed:
            return []
        fields = listed.decode("utf-8", "replace").split("\0")
        return [value for scope, value in zip(fields[::2], fields[1::2], strict=False) if scope in ("global", "system")]

    async def _effect(self, signal: AbortSignal) -> tuple[str, tuple[str, ...]]:
        root, remote, branch = self._root(), self.params.remote, await self._branch(signal)
        url = (await self._text(root, ["remote", "get-url", "--push", "--", remote], signal)).strip()
        ours = (await self._text(root, ["rev-parse", "--verify", f"refs/heads/{branch}"], signal)).strip()
        known = f"refs/remotes/{remote}/{branch}"
        warnings = [
            hook_warning(path) for name, path in (await self._hooks(root, ["pre-push"], signal)).items() if name
        ]
        try:
            theirs = (await self._text(root, ["rev-parse", "--verify", "--quiet", known], signal)).strip()
            commits = await self._text(root, ["log", "--format=%h %s", f"{known}..refs/heads/{branch}", "--"], signal)
            gone = await self._text(root, ["log", "--format=%h %s", f"refs/heads/{branch}..{known}", "--"], signal)
        except ShellExecutionFailed:
            theirs = "new there"
            commits = await self._text(
                root, ["log", "--format=%h %s", f"refs/heads/{branch}", "--not", "--remotes", "--"], signal
            )
            gone = ""
        if gone and self.params.force_with_lease:
            warnings.append(f"removes these commits there: {visible(gone.strip())}")
        elif gone:
            warnings.append("the branch there has commits that are not here: the push will be refused")
        lines = [
            f"to {mask(url)}",
            f"branch {branch}: {theirs[:9]} -> {ours[:9]}",
            "",
            commits.strip() or "(no new commits)",
        ]
        return "\n".join(lines), tuple(warnings)

    async def _change(self, root: Path, signal: AbortSignal) -> str:
        branch, remote = await self._branch(signal), self.params.remote
        helpers = await self._own("credential.helper", signal)
        ssh = (await self._own("core.sshCommand", signal) or ["ssh"])[-1]
        hooks = await self._hooks(root, ["pre-push"], signal)
        settings = [
            ("core.hooksPath", str(hooks[""])),
            ("core.sshCommand", f"{ssh} -o BatchMode=yes"),
            *(("credential.helper", helper) for helper in helpers),
            ("protocol.allow", "user"),
        ]
        # The repository may name programs for the other end; for a path on this machine they would run here.
        options = ["--receive-pack=git-receive-pack", "--no-signed", "--recurse-submodules=no", "--no-follow-tags"]
        options += ["--set-upstream"] if self.params.set_upstream else []
        if self.params.force_with_lease:
            known = ["rev-parse", "--verify", f"refs/remotes/{remote}/{branch}"]
            options.append(f"--force-with-lease=refs/heads/{branch}:{(await self._text(root, known, signal)).strip()}")
        variables = {**settings_environment(settings), "GIT_ALLOW_PROTOCOL": PROTOCOLS}
        agent = own_environment().get("SSH_AUTH_SOCK")
        variables |= {"SSH_AUTH_SOCK": agent} if agent else {}
        refs = f"refs/heads/{branch}:refs/heads/{branch}"
        await self._run(
            root, ["push", "--porcelain", *options, "--", remote, refs], signal, caged=False, variables=variables
        )
        return f"Pushed {visible(branch)} to {visible(remote)}"


def _list_is_low(arguments: Mapping[str, JsonValue]) -> Risk:
    return Risk.LOW if arguments.get("action") == "list" else Risk.MEDIUM


GIT_BRANCH = Tool(
    name="git_branch",
    display_name="Git branch",
    description="Create, delete (only if merged) or list branches.",
    group=ToolGroup.GIT,
    effect=Effect.RUNS,
    parameters=GitBranchParameters,
    invocation=GitBranchInvocation,
    returns=GitStatusData | GitBranchesData,
    risk=Risk.MEDIUM,
    risk_of_call=_list_is_low,
)
GIT_CHECKOUT = Tool(
    name="git_checkout",
    display_name="Git checkout",
    description="Check out a branch or commit; create makes the branch; with paths, set files back to the revision.",
    group=ToolGroup.GIT,
    effect=Effect.RUNS,
    parameters=GitCheckoutParameters,
    invocation=GitCheckoutInvocation,
    returns=GitStatusData,
    risk=Risk.MEDIUM,
)
GIT_PUSH = Tool(
    name="git_push",
    display_name="Git push",
    description="Send a branch to a remote. forceWithLease replaces the branch there.",
    group=ToolGroup.GIT,
    effect=Effect.SENDS,
    parameters=GitPushParameters,
    invocation=GitPushInvocation,
    returns=GitStatusData,
    risk=Risk.HIGH,
    requires_approval=True,
)
