"""Judge the paths a command names as `read_file` would."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import chain
from pathlib import Path

from ollm_tui.core.base.errors import InvalidPath, ToolFailure
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.git.configuration import configured_program
from ollm_tui.core.policy.shell.searched_directories import Descent, reason_below

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.,@%+=: -][A-Za-z0-9_./,@%+=:~ -]*")


_BARE = ("objects", "commondir")
"""With HEAD, what makes git take a directory for a repository: the second says where the rest lies."""


class _Entry(Enum):
    """What is at a path, links not followed."""

    PLAIN = "a directory or a file"
    NONE = "nothing"
    OTHER = "a link, something special, or not to be seen"


@dataclass(frozen=True)
class CommandPaths:
    """The paths of one command, relative to `cwd`, which is relative to the workspace."""

    workspace: Workspace
    cwd: str = ""
    _resolved: dict[str, Location | ToolFailure] = field(default_factory=dict[str, "Location | ToolFailure"])
    """Where paths lead: one judgement asks about each several times."""
    _entries: dict[str, _Entry] = field(default_factory=dict[str, "_Entry"])
    """What lies at the paths that were looked up."""
    _reasons: dict[Path, str | None] = field(default_factory=dict[Path, "str | None"])
    """What stands against reading a path: paths of one line often lead to the same."""
    _programs: dict[Path, str | None] = field(default_factory=dict[Path, "str | None"])
    """What git would run in the repositories looked at."""

    _repositories: dict[Path, Path | None] = field(default_factory=dict[Path, "Path | None"])
    """The repositories that directories belong to."""

    def reason_to_ask(self, path: str, *, descends: Descent | None = None) -> str | None:
        """Return why reading the path needs a question; None when it does not.

        With `descends`, what is below the path counts too.
        """
        try:
            location = self._resolve(path)
        except InvalidPath:
            return "it lies outside the workspace or is no regular file"
        except ToolFailure:
            return None  # nothing there to read: the command itself will say so
        if location.real not in self._reasons:
            found = self.workspace.sensitivity(location, Access.READ)
            self._reasons[location.real] = found.reason if found is not None else None
        reason = self._reasons[location.real]
        if reason is not None:
            return reason
        if descends is None or not location.real.is_dir():
            return None
        return reason_below(location.real, descends, self.workspace)

    def location(self, path: str) -> Path | None:
        """Return where the entry is that the word names; None outside the workspace."""
        try:
            return self.workspace.resolve(self._joined(os.path.expanduser(path)), Access.READ, follow=False).real
        except ToolFailure:
            return None

    def is_outside(self, path: str) -> bool:
        """Return whether the word, taken as a path, leads out of the workspace."""
        if path not in self._resolved and self._lies_plainly_inside(path):
            return False
        try:
            self._resolve(os.path.expanduser(path))
        except InvalidPath:
            return True
        except ToolFailure:
            return False
        return False

    def foreign_repository(self, directory: str) -> str | None:
        """Return why git would work there with another repository than the workspace's."""
        try:
            real = self._resolve(directory).real
        except ToolFailure:
            return "it lies outside the workspace"
        if self._lies_in_bare_repository(real):
            return "it looks like a bare repository, whose configuration git would follow"
        if self.repository_of(real) != self.repository_of(self.workspace.root):
            return "it belongs to another repository than the workspace"
        return None

    def reason_to_ask_for_git(self, directory: str) -> str | None:
        """Return why git needs a question there: its configuration could run programs."""
        foreign = self.foreign_repository(directory)
        repository = self.repository_of(self.workspace.root)
        if foreign is not None or repository is None:
            return foreign
        if repository not in self._programs:
            self._programs[repository] = configured_program(repository)
        return self._programs[repository]

    def is_in_repository(self, directory: str) -> bool:
        """Return whether git would find a repository from there."""
        try:
            return self.repository_of(self._resolve(directory).real) is not None
        except ToolFailure:
            return False

    def replaced_program(self, name: str, directories: Sequence[str]) -> str | None:
        """Return why a PATH directory of the workspace replaces a listed program that runs in one of `directories`."""
        path = os.environ.get("PATH", "")
        if not directories and not all(entry.startswith("/") for entry in path.split(":")):
            return "PATH has relative directories, and where it runs is not known"
        roots = self.workspace.roots
        starts = [self.cwd if each == "." else self._joined(each) for each in directories or (".",)]
        for folder, is_own in chain.from_iterable(_program_folders(path, roots, start) for start in starts):
            program = f"{folder}/{name}"
            if not os.access(program, os.X_OK):
                continue
            if not self._is_of_the_same_name_outside(program) if is_own else self._leads_inside(program):
                return f"{program} would run, which belongs to the workspace"
        return None

    def _leads_inside(self, program: str) -> bool:
        """Return whether a program outside is a link into the workspace or an added directory."""
        if not os.path.islink(program):
            return False
        real = Path(os.path.realpath(program))
        return any(real.is_relative_to(root) for root in self.workspace.roots)

    def _lies_in_bare_repository(self, folder: Path) -> bool:
        """Return whether git takes the directory, or one above up to its repository, for a repository itself."""
        repository = self.repository_of(folder)
        for each in (folder, *folder.parents):
            if os.path.lexists(f"{each}/HEAD") and any(os.path.exists(f"{each}/{name}") for name in _BARE):
                return True
            if each == repository:
                break
        return False

    def repository_of(self, folder: Path) -> Path | None:
        """Return the directory around this one in which git finds its repository."""
        if folder not in self._repositories:
            around = (each for each in (folder, *folder.parents) if os.path.exists(f"{each}/.git"))
            self._repositories[folder] = next(around, None)
        return self._repositories[folder]

    def _is_of_the_same_name_outside(self, program: str) -> bool:
        """Return whether it links to that program outside, as a virtual environment's `python` does."""
        real = Path(os.path.realpath(program))
        versionless = real.name.rstrip("0123456789.") == os.path.basename(program).rstrip("0123456789.")
        return versionless and not any(real.is_relative_to(root) for root in self.workspace.roots)

    def _lies_plainly_inside(self, path: str) -> bool:
        """Return whether a relative path leads inside through real directories; else the full check follows."""
        components = path.split("/")
        if self.cwd or ".." in components or _PLAIN_PATH.fullmatch(path) is None:
            return False
        path = str(self.workspace.root)
        for component in components:
            path = f"{path}/{component}"
            entry = self._entries.get(path)
            if entry is None:
                entry = self._entries[path] = _entry_at(path)
            if entry is not _Entry.PLAIN:
                return entry is _Entry.NONE
        return True

    def _resolve(self, path: str) -> Location:
        """Resolve a path; raises ToolFailure, InvalidPath outside the workspace."""
        if path not in self._resolved:
            try:
                self._resolved[path] = self.workspace.resolve(self._joined(path), Access.READ)
            except ToolFailure as failure:
                self._resolved[path] = failure
        found = self._resolved[path]
        if isinstance(found, ToolFailure):
            raise found
        return found

    def is_protected(self, path: Path) -> bool:
        """Return whether the person's own list protects a path."""
        protection = self.workspace.own_protection
        return bool(protection.patterns) and protection.judge(os.path.relpath(path, self.workspace.root)) is not None

    def _joined(self, path: str) -> str:
        return posixpath.join(self.cwd, path) if self.cwd else path


def _entry_at(path: str) -> _Entry:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return _Entry.NONE
    except OSError:
        return _Entry.OTHER
    return _Entry.PLAIN if stat.S_ISDIR(mode) or stat.S_ISREG(mode) else _Entry.OTHER


@lru_cache(maxsize=16)
def _program_folders(path: str, roots: tuple[Path, ...], cwd: str) -> tuple[tuple[str, bool], ...]:
    """Return the PATH directories, each with whether it lies in `roots`; cached, since no tool can change them."""
    folders = [os.path.join(roots[0], cwd, entry) for entry in path.split(":")]
    own = tuple(f"{root}/" for root in roots)
    return tuple(
        (folder, f"{folder}/".startswith(own) or f"{os.path.realpath(folder)}/".startswith(own))
        for folder in dict.fromkeys(folders)
    )
