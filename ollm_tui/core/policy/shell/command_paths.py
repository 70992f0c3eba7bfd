"""Judge the paths a command names as `read_file` would."""

from __future__ import annotations

import os
import posixpath
import re
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import translate
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ollm_tui.core.base.errors import InvalidPath, ToolFailure
from ollm_tui.core.fence.dir_handle import is_settled
from ollm_tui.core.fence.protected_paths import holds_credentials
from ollm_tui.core.fence.secrets import is_secret_configuration
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.git.configuration import configured_program, holds_secrets, index_files, tracked_names

MAX_ENTRIES_BELOW = 100_000
"""How many names below a directory are looked at for credentials before a search in it asks."""

SKIPPED_BELOW = frozenset({".git", "node_modules", ".venv", "__pycache__"})

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.,@%+=: -][A-Za-z0-9_./,@%+=:~ -]*")


_BARE = ("objects", "commondir")
"""With HEAD, what makes git take a directory for a repository: the second says where the rest lies."""

IGNORE_FILES = frozenset({".gitignore", ".ignore", ".rgignore"})
MAX_IGNORE_BYTES = 65_536


class Descent(NamedTuple):
    """What a search reads below a directory.

    `hidden`: names with a leading dot; `links`: what links lead to; `shown`: globs of hidden names it reads anyway,
    `endings` those of hidden files.
    """

    hidden: bool = True
    links: bool = False
    shown: tuple[str, ...] = ()
    endings: frozenset[str] = frozenset()


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
        return self._reason_below(location.real, descends) if descends and location.real.is_dir() else None

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
        if self._repository_of(real) != self._repository_of(self.workspace.root):
            return "it belongs to another repository than the workspace"
        return None

    def reason_to_ask_for_git(self, directory: str) -> str | None:
        """Return why git needs a question there: its configuration could run programs."""
        foreign = self.foreign_repository(directory)
        repository = self._repository_of(self.workspace.root)
        if foreign is not None or repository is None:
            return foreign
        if repository not in self._programs:
            self._programs[repository] = configured_program(repository)
        return self._programs[repository]

    def tracked_credentials(self) -> str | None:
        """Return a file of the workspace's repository that git prints and `read_file` asks about."""
        repository = self._repository_of(self.workspace.root)
        if repository is None:
            return None
        try:
            states = tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in index_files(repository))
            found = _first_credential(repository, states)
            if found is None and self.workspace.own_protection.patterns:
                found = next(
                    (each for each in tracked_names(repository) if self._is_protected(repository / each)), None
                )
            return found
        except (OSError, ValueError):
            return "what its index does not say"

    def configured_secrets(self) -> bool:
        """Return whether the configuration of the workspace's repository holds a password."""
        repository = self._repository_of(self.workspace.root)
        return repository is not None and holds_secrets(repository)

    def is_in_repository(self, directory: str) -> bool:
        """Return whether git would find a repository from there."""
        try:
            return self._repository_of(self._resolve(directory).real) is not None
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
        repository = self._repository_of(folder)
        for each in (folder, *folder.parents):
            if os.path.lexists(f"{each}/HEAD") and any(os.path.exists(f"{each}/{name}") for name in _BARE):
                return True
            if each == repository:
                break
        return False

    def _repository_of(self, folder: Path) -> Path | None:
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

    def _is_protected(self, path: Path) -> bool:
        protection = self.workspace.own_protection
        return bool(protection.patterns) and protection.judge(os.path.relpath(path, self.workspace.root)) is not None

    def _joined(self, path: str) -> str:
        return posixpath.join(self.cwd, path) if self.cwd else path

    def _reason_below(self, folder: Path, descent: Descent) -> str | None:
        seen = 0
        shown = [re.compile(".*") if "{" in glob or "\\" in glob else _last_name(glob) for glob in descent.shown]
        if not descent.hidden:
            shown += [pattern for parent in folder.parents for pattern in _shown_again(str(parent), IGNORE_FILES)]
        waiting = [str(folder)]
        while waiting:
            path = waiting.pop()
            listing = _listing_of(path, str(self.workspace.root))
            seen += listing.entries
            if seen > MAX_ENTRIES_BELOW:
                return "too much lies below it to tell whether credentials are among it"
            if descent.links and listing.link:
                return f"{os.path.relpath(f'{path}/{listing.link}', folder)} below it leads elsewhere"
            folders, secrets = listing.folders, listing.secrets or self._protected_in(path)
            if not descent.hidden:
                shown += _shown_again(path, listing.ignore_files)
                folders = [name for name in folders if _is_reached(name, shown)]
                secrets = [name for name in secrets if _is_reached(name, shown) or _ending(name) in descent.endings]
            if secrets:
                return f"{os.path.relpath(f'{path}/{secrets[0]}', folder)} below it holds credentials"
            if (held := _secret_configuration(path, folders)) is not None:
                return f"{os.path.relpath(held, folder)} below it holds credentials"
            if not descent.links:  # what is installed is full of links
                folders = [name for name in folders if name not in SKIPPED_BELOW]
            waiting += [f"{path}/{name}" for name in folders]
        return None

    def _protected_in(self, path: str) -> list[str]:
        """Return the names in a directory that the person's own list protects."""
        if not self.workspace.own_protection.patterns:
            return []
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if self._is_protected(Path(entry.path))]


class _Listing(NamedTuple):
    """What counts of a directory's entries for a search below it."""

    entries: int
    folders: Sequence[str] = ()
    """Links to directories are none: a search that follows links asks about them anyway."""
    secrets: Sequence[str] = ()
    """Files that hold credentials."""
    ignore_files: Sequence[str] = ()
    link: str = ""
    """One of the links, if there are any."""


def _listing_of(path: str, root: str) -> _Listing:
    """Return what is in a directory below the root; one not changed for a while is not read again (12 ms for 800)."""
    try:
        status = os.stat(path)
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = _listings.get((path, root))
        if known is not None and known[0] == stamp:
            return known[1]
        moment = time.time_ns()
        listing = _read_listing(path, root)
    except OSError:
        return _Listing(1)  # a search cannot read it either
    if is_settled(status, moment):
        if len(_listings) >= _MOST_LISTINGS:
            _listings.clear()
        _listings[path, root] = stamp, listing
    return listing


_MOST_LISTINGS = 10_000
_listings: dict[tuple[str, str], tuple[tuple[int, ...], _Listing]] = {}


def _read_listing(path: str, root: str) -> _Listing:
    parts = tuple(part for part in os.path.relpath(path, root).split("/") if part not in (".", ".."))
    with os.scandir(path) as found:
        entries = list(found)
    links = {entry.name for entry in entries if entry.is_symlink()}
    folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    others = {entry.name for entry in entries}.difference(folders)
    return _Listing(
        len(entries),
        folders,
        sorted(name for name in others if holds_credentials((*parts, name))),
        sorted(IGNORE_FILES & others),
        min(links, default=""),
    )


def _secret_configuration(path: str, folders: Sequence[str]) -> str | None:
    """Return a configuration of git in a directory, or in the repository of one, that holds a password."""
    if ".git" in folders and holds_secrets(Path(path)):
        return f"{path}/.git"
    inside = ".git" in path.split("/")
    files = (f"{path}/config", f"{path}/config.worktree") if inside else ()
    return next((file for file in files if is_secret_configuration(file, file.split("/"))), None)


def _entry_at(path: str) -> _Entry:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return _Entry.NONE
    except OSError:
        return _Entry.OTHER
    return _Entry.PLAIN if stat.S_ISDIR(mode) or stat.S_ISREG(mode) else _Entry.OTHER


@lru_cache(maxsize=8)
def _first_credential(repository: Path, states: tuple[tuple[int, int], ...]) -> str | None:
    """Return a tracked name that holds credentials; remembered while the index is as in `states` (6 ms for 670)."""
    return next((each for each in tracked_names(repository) if holds_credentials(each.split("/"))), None)


@lru_cache(maxsize=16)
def _program_folders(path: str, roots: tuple[Path, ...], cwd: str) -> tuple[tuple[str, bool], ...]:
    """Return the PATH directories, each with whether it lies in `roots`; cached, since no tool can change them."""
    folders = [os.path.join(roots[0], cwd, entry) for entry in path.split(":")]
    own = tuple(f"{root}/" for root in roots)
    return tuple(
        (folder, f"{folder}/".startswith(own) or f"{os.path.realpath(folder)}/".startswith(own))
        for folder in dict.fromkeys(folders)
    )


def _is_reached(name: str, shown: list[re.Pattern[str]]) -> bool:
    """Return whether a search that skips hidden names reads this one."""
    return not name.startswith(".") or any(pattern.fullmatch(name.casefold()) for pattern in shown)


def _ending(hidden: str) -> str:
    """Return the last ending of a hidden name: none of `.env`, `json` of `.env.json`."""
    return hidden[1:].casefold().rpartition(".")[2] if "." in hidden[1:] else ""


def _shown_again(folder: str, names: Iterable[str]) -> list[re.Pattern[str]]:
    """Return patterns of hidden names that ignore files re-include (`!.env`), by last component."""
    found: list[re.Pattern[str]] = []
    for name in names:
        try:
            with open(os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                content = file.read(MAX_IGNORE_BYTES + 1)
        except OSError:
            continue
        if len(content) > MAX_IGNORE_BYTES:
            return [re.compile(".*")]
        lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
        found += [_last_name(line[1:]) for line in lines if line.startswith("!")]
    return found


def _last_name(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob.rstrip("/").rpartition("/")[2].casefold()), re.DOTALL)
