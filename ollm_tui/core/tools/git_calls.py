"""What the git tools share: running git so that no repository starts a program, and its paths and errors (003)."""

from __future__ import annotations

import os
import secrets
import shutil
import signal as signals
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Annotated, TypeAlias

from pydantic import AfterValidator

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FileTooLarge, InvalidPath, ShellExecutionFailed
from ollm_tui.core.base.escape import unquote_name, visible
from ollm_tui.core.base.results import ExecutionPlace
from ollm_tui.core.fence.protected_paths import judge_reading
from ollm_tui.core.fence.secrets import command_environment, mask, own_environment
from ollm_tui.core.fence.workspace import Access, Location
from ollm_tui.core.git.objects import ASK_GIT, nameless, object_names
from ollm_tui.core.git.reports import shown_below
from ollm_tui.core.sandbox.engines import look_cage
from ollm_tui.core.sandbox.engines import look_works as cage_works
from ollm_tui.core.sandbox.look import GIT_ENVIRONMENT
from ollm_tui.core.search.repository import Repository, global_exclude_file, read_file
from ollm_tui.core.shell.orphans import ORPHANS
from ollm_tui.core.shell.pty_process import Cage
from ollm_tui.core.tools.base import CallFacts, Effect, P, ToolInvocation, TouchedPath

_IDENTITY = tuple(f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE"))
"""Variables of git that stay: the others lead to other repositories, or start programs."""

_PIECE = 1 << 16
_ERROR_CHARACTERS = 2_000


def _not_an_option(text: str) -> str:
    # `HEAD:path` would lead to a file's content without its path being judged.
    if not text.strip() or text.startswith("-") or ":" in text or any(ord(character) < 32 for character in text):
        raise ValueError("give a revision such as HEAD~1, a branch, a tag or a commit's hash")
    return text


Revision: TypeAlias = Annotated[str, AfterValidator(_not_an_option)]
"""A revision, or a range of them, that cannot be taken for an option."""


def _without_controls(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise ValueError("give a text without control characters")
    return text


SearchText: TypeAlias = Annotated[str, AfterValidator(_without_controls)]
"""A regular expression of git's on one line."""


class GitInvocation(ToolInvocation[P]):
    """A call of git below one directory of the workspace."""

    def _paths(self) -> Sequence[str]:
        """Return the paths the caller named."""
        return ()

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(path, Access.READ, follow=False) for path in self._paths() or (".",)]

    def facts(self) -> CallFacts:
        """Return what makes it ask: git here could start what the repository names, and nothing would hold it."""
        held = "no cage works here: git could start programs that the repository names"
        return CallFacts(self.tool.effect, question=None if cage_works() else held)

    @property
    def place(self) -> ExecutionPlace:
        """Return where git runs: what reads is held by the cage, what changes has to reach the repository."""
        held = self.tool.effect is Effect.READS and cage_works()
        return ExecutionPlace.READING_CAGE if held else ExecutionPlace.THIS_MACHINE

    def _locations(self) -> list[Location]:
        fence = self.context.fence
        return [fence.resolve(path, follow=False) for path in self._paths()]

    def _root(self) -> Path:
        """Return the allowed directory that all named paths lie in. Raises InvalidPath."""
        roots = {location.root for location in self._locations()} or {self.context.fence.root}
        if len(roots) > 1:
            raise InvalidPath("The paths lie in different added directories. Ask about one of them at a time.")
        return roots.pop()

    def _pathspecs(self, root: Path) -> list[str]:
        """Return the named paths as git takes them from `root`; without any, all below it."""
        real = [location.real for location in self._locations()]
        return [f":(literal){path.relative_to(root)}" for path in real] or ["."]

    def _shown_by(self, root: Path) -> Callable[[bytes], str]:
        """Return how a path that git names from its own root is shown."""
        repository = self._repository(root)
        below = os.path.relpath(root, os.fsdecode(repository.root))
        return shown_below("" if below == "." else f"{below}/")

    def _repository(self, root: Path) -> Repository:
        """Return the repository around a directory; reads the disk. Raises ShellExecutionFailed."""
        found = Repository.around(os.path.join(os.fsencode(root), b""))
        if found is None:
            raise ShellExecutionFailed(
                f"{visible(str(root))} is not in a git repository. `git init` in the shell makes one."
            )
        return found

    def _is_secret(self, shown: str) -> bool:
        """Return whether a path, as it is shown, may not be looked into without a person being asked."""
        path = shown
        with suppress(ValueError):
            path = unquote_name(shown)
        return judge_reading(path.split("/")) is not None or self.context.fence.own_protection.judge(path) is not None

    async def _require_commits(self, root: Path, revision: str, signal: AbortSignal) -> None:
        """Raise ShellExecutionFailed where a revision names a directory or a file's content: its path is not known."""
        names = object_names([revision])
        if not names:
            return
        given = "".join(f"{each.name}\n" for each in names).encode("utf-8", "surrogateescape")
        answers = await self._run(root, ASK_GIT, signal, caged=cage_works(), given=given)
        if nameless(names, answers.decode("utf-8", "replace").splitlines(), below_trees=True) is not None:
            raise ShellExecutionFailed(f"{visible(revision)} names no commit. git_log shows what there is.")

    async def _git(self, root: Path, arguments: Sequence[str], signal: AbortSignal) -> bytes:
        """Return what git prints, run in the cage of what only looks. Raises ShellExecutionFailed, FileTooLarge."""
        return await self._run(root, arguments, signal, caged=cage_works())

    async def _run(
        self,
        root: Path,
        arguments: Sequence[str],
        signal: AbortSignal,
        *,
        caged: bool,
        given: bytes = b"",
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return what git prints.

        Args:
            root: Where it runs.
            arguments: Behind its name.
            signal: Ends it.
            caged: Whether it runs in the cage of what only looks.
            given: What it reads as input.
            variables: Set over those that keep it from starting programs; outside the cage only.

        Raises:
            ShellExecutionFailed: It failed, or is not there.
            FileTooLarge: It prints more than a file may hold.
        """
        fence = self.context.fence
        call = _GitCall(
            root,
            [_program(fence.roots), *arguments],
            self.context.limits.file_bytes,
            given,
            {"PATH": trusted_path(fence.roots), **(variables or {})},
        )
        readable = (*fence.roots, *fence.readable_roots) if caged else None
        unsubscribe = signal.subscribe(call.kill)
        try:
            return await signal.in_thread(call.run, readable, signal)
        finally:
            unsubscribe()
            call.kill()


class _GitCall:
    """One process of git, run to its end in a thread."""

    def __init__(
        self, folder: Path, argv: Sequence[str], most_bytes: int, given: bytes, variables: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._argv = argv
        self._most_bytes = most_bytes
        self._given = given
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None
        self._cage: Cage | None = None

    def kill(self) -> None:
        """End it with all that it started; nothing where it is over."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signals.SIGKILL)
            if self._cage is not None:
                self._cage.end()

    def run(self, readable: Sequence[Path] | None, signal: AbortSignal) -> bytes:
        """Return what it prints, in the cage of what only looks where directories are given.

        Blocks; raises ShellExecutionFailed, FileTooLarge, OperationCancelled.
        """
        cage = None
        if readable is not None:
            cage = self._cage = look_cage(readable, read_file(global_exclude_file(None) or b"") or b"")
        mark = secrets.token_hex(8)
        with tempfile.TemporaryFile() as errors:

            def start(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    argv,
                    cwd=self._folder,
                    env=dict(environment),
                    stdin=subprocess.PIPE if self._given else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                    pass_fds=() if cage is None else cage.passed,
                )

            try:
                environment = {**_environment(self._folder, mark), "PATH": self._variables["PATH"]}
                own = {**environment, **GIT_ENVIRONMENT, **self._variables}
                argv = self._argv if cage is None else cage.command(self._argv, environment)
                process = start(own) if cage is None else cage.start(start, environment, None)
                self._process = process
                if signal.aborted:
                    self.kill()
                alone = cage is not None and cage.ends_alone
                with nullcontext() if alone else ORPHANS.watching(process.pid, mark):
                    output = self._talk(process)
            except OSError as error:
                raise ShellExecutionFailed(f"git could not be started: {error}.") from None
            finally:
                if cage is not None:
                    cage.close()
            signal.throw_if_aborted()
            if process.returncode:
                errors.seek(0)
                raise failure_of(errors.read(_ERROR_CHARACTERS).decode("utf-8", "replace"), process.returncode)
            return output

    def _talk(self, process: subprocess.Popen[bytes]) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            if process.stdin is not None:
                with suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(self._given)
            while piece := _read(process.stdout):
                pieces.append(piece)
                size += len(piece)
                if size > self._most_bytes:
                    raise FileTooLarge(
                        f"git printed more than {self._most_bytes:,} bytes. Ask for fewer paths, or a smaller range."
                    )
            process.wait()
        finally:
            self.kill()
            process.wait()
        return b"".join(pieces)


def _read(stream: IO[bytes] | None) -> bytes:
    return b"" if stream is None else stream.read(_PIECE)


def _environment(folder: Path, mark: str) -> dict[str, str]:
    variables = command_environment(own_environment(), attended=False, cwd=str(folder), mark=mark)
    kept = {name: value for name, value in variables.items() if not name.startswith("GIT_") or name in _IDENTITY}
    return {**kept, "LC_ALL": "C.UTF-8", "GIT_LITERAL_PATHSPECS": "0"}


def trusted_path(roots: Sequence[Path]) -> str:
    """Return PATH without the directories that the agent can write."""
    folders = (Path(name) for name in os.environ.get("PATH", os.defpath).split(os.pathsep))
    trusted = (
        str(folder)
        for folder in folders
        if folder.is_absolute() and not any(folder.resolve().is_relative_to(root) for root in roots)
    )
    return os.pathsep.join(trusted)


def _program(roots: Sequence[Path]) -> str:
    """Return git's path, never one in a directory that the agent can write. Raises ShellExecutionFailed."""
    found = shutil.which("git", path=trusted_path(roots))
    if found is None:
        raise ShellExecutionFailed("git is not installed. Install it, or use the file tools.")
    return found


_REMEDIES = (
    ("not a git repository", "`git init` in the shell makes one."),
    ("unknown revision", "git_log and git_branch show what there is."),
    ("bad revision", "git_log and git_branch show what there is."),
    ("invalid object name", "git_log and git_branch show what there is."),
    ("does not have any commits yet", "git_status shows what could be committed first."),
    ("index.lock", "Another git is at work; wait for it, or remove the file if none runs."),
    ("no such path", "Check the path with git_status."),
    ("does not exist in", "Check the path with ls or git_log."),
    ("please tell me who you are", "Ask the person to set user.name and user.email with git config."),
    ("would be overwritten", "Commit or undo those changes first."),
)


def failure_of(errors: str, code: int) -> ShellExecutionFailed:
    """Return the error for what git said, with what to do next where that is known."""
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.startswith("hint:")]
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    said = mask(visible(said.removeprefix("fatal: ").removeprefix("error: "))) or f"it exited with code {code}"
    remedy = next((remedy for words, remedy in _REMEDIES if words in errors.lower()), "")
    return ShellExecutionFailed(f"git failed: {said.rstrip('.')}. {remedy}".rstrip(), {"exitCode": code})
