"""The fence: which files a call may reach, resolved and opened so that nothing can be swapped in between (001 R3.8).

Every tool that takes a path goes through here. A path leads where the kernel would lead it (`link/../x`
included), is judged by its components and never by its text, and is opened beneath its root without following links.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.core.base.errors import (
    FileNotFound,
    FileReadFailed,
    FileWriteFailed,
    InvalidPath,
    IsADirectory,
    NoPermission,
    NotADirectory,
    ToolFailure,
    from_os_error,
)
from ollm_tui.core.base.escape import quote_name, unquote_name, visible
from ollm_tui.core.fence import openat, protected_paths
from ollm_tui.core.fence.file_identity import (
    OtherNames,
    is_own_directory,
    lies_in,
    protected_by_identity,
)
from ollm_tui.core.fence.protected_paths import ProtectedPatterns, Sensitivity
from ollm_tui.core.fence.secrets import is_secret_configuration

__all__ = ["Access", "Location", "Sensitivity", "Workspace"]

_MOST_NAMES = 2_000
"""Names of a directory that are compared."""

_SUGGESTIONS = 3


class Access(StrEnum):
    """What a call wants to do at a place."""

    READ = "read"
    WRITE = "write"

    @property
    def failure(self) -> type[ToolFailure]:
        """The type for operating-system errors that none of the named failures says."""
        return FileReadFailed if self is Access.READ else FileWriteFailed


@dataclass(frozen=True)
class Location:
    """A resolved place inside the fence; there may be nothing at it."""

    asked: str
    """As the caller wrote it."""
    real: Path
    """Absolute, without links (but for the last name, where that was not to be followed)."""
    shown: str
    """How results show it: relative to the workspace with `/`, quoted as git does where it is not plain text."""
    root: Path
    """The allowed directory it lies in."""

    @property
    def relative(self) -> str:
        """Below `root`; empty for the root itself."""
        return _below(str(self.real), str(self.root))


class Workspace:
    """The directories that tools may reach: the workspace, added ones, and some that may only be read."""

    def __init__(
        self,
        root: Path | str,
        extra_roots: Sequence[Path | str] = (),
        readable_roots: Sequence[Path | str] = (),
        protected_patterns: Sequence[str] = (),
    ) -> None:
        """`protected_patterns` are a person's own, of the kind `.gitignore` has.

        Raises NotADirectory or FileNotFound where `root` or one of `extra_roots` is no directory.

        `readable_roots` need not exist yet.
        """
        self.root = _real_directory(root)
        self.roots: tuple[Path, ...] = tuple(dict.fromkeys([self.root, *map(_real_directory, extra_roots)]))
        self.readable_roots: tuple[Path, ...] = tuple(Path(os.path.realpath(each)) for each in readable_roots)
        self.own_protection = ProtectedPatterns(protected_patterns)
        self._judged: Mapping[tuple[str, bool], Path] | None = None

    def bound_to(self, judged: Mapping[tuple[str, bool], Path]) -> Workspace:
        """Return the fence of one call, in which paths lead where they did when it was judged, or nowhere.

        Args:
            judged: Where each path led, with whether its last link was followed. Other files that are protected are
                not opened.
        """
        bound = copy(self)
        bound._judged = judged
        return bound

    def varied(self, *, readable: Sequence[Path] = (), protected_patterns: Sequence[str] = ()) -> Workspace:
        """Return the same fence with further places to read and further protected files."""
        return Workspace(
            self.root,
            self.roots[1:],
            (*self.readable_roots, *readable),
            (*self.own_protection.patterns, *protected_patterns),
        )

    def resolve(self, path: str, access: Access = Access.READ, *, follow: bool = True) -> Location:
        """Return where `path` (relative to the workspace, or absolute) leads. Blocking, but asks for status only.

        With `follow=False` the entry itself is meant where it is a link, as for deleting and moving.
        Raises InvalidPath outside the fence, for what no file can be called, and for devices, pipes and sockets;
        FileNotFound or NotADirectory where the path goes on behind something that is no directory; NoPermission.
        """
        text = self._readable(path)
        found = openat.resolve_links(str(self.root), text, follow_last=follow)
        real = Path(found.real)
        root = self._root_of(real, access)
        if root is None:
            raise self._outside(path, real, access)
        shown = self.shown(real)
        if found.problem is not None:
            raise _unusable(found.problem, quote_name(path), access)
        if found.status is not None:
            _refuse_special(found.status.st_mode, shown)
        if self._judged is not None and self._judged.get((path, follow), real) != real:
            message = f"{quote_name(path)} leads elsewhere than a moment ago. Nothing was done; try again."
            raise InvalidPath(message, {"path": shown})
        return Location(asked=path, real=real, shown=shown, root=root)

    def sensitivity(self, location: Location, access: Access) -> Sensitivity | None:
        """Return why this access needs a question or is denied; None where it does not."""
        judge = protected_paths.judge_reading if access is Access.READ else protected_paths.judge_writing
        relative = location.relative
        named = judge(relative.split("/"))
        if named is not None and named.decision == "deny":
            return named
        identified = self._identified(location, access)
        if identified is not None and identified.decision == "deny":
            return identified
        found = named or identified or self._judge_other_names(location) or self.own_protection.judge(relative)
        if found is None and access is Access.READ and is_secret_configuration(str(location.real), relative.split("/")):
            return protected_paths.CREDENTIALS
        return found

    def open_for_reading(self, location: Location) -> int:
        """Return a descriptor of the regular file for the caller to close; never waits. Raises ToolFailure."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        self._refuse_unjudged(location)
        try:
            descriptor = self._open(location.root, location.relative, flags, location.shown, Access.READ)
        except FileNotFound:
            raise self.missing(location) from None
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectory(f"{location.shown} is a directory. Use ls to list it.", {"path": location.shown})
        _refuse_special(mode, location.shown)
        raise InvalidPath(f"{location.shown} is no regular file.", {"path": location.shown})

    def _refuse_unjudged(self, location: Location) -> None:
        """Raise NoPermission for a protected file that a call came by and nobody was asked about."""
        judged = self._judged
        if judged is None or location.real in judged.values():
            return
        found = self.sensitivity(location, Access.READ)
        if found is not None:
            message = f"{location.shown} {found.reason}. Ask for it by its path, with read_file."
            raise NoPermission(message, {"path": location.shown})

    def open_directory(self, location: Location) -> int:
        """Return a descriptor of the directory there, for listing and for `dir_fd`. The caller closes it."""
        flags = os.O_RDONLY | os.O_DIRECTORY
        return self._open(location.root, location.relative, flags, location.shown, Access.READ)

    def open_parent(self, location: Location) -> tuple[int, str]:
        """Return the parent directory's descriptor, for the caller to close, and the name in it. Raises ToolFailure."""
        if location.real == location.root:
            raise InvalidPath(f"{location.shown} is a root of the workspace itself.", {"path": location.shown})
        parent, _, name = location.relative.rpartition("/")
        shown = self.shown(location.real.parent)
        try:
            return self._open(location.root, parent, os.O_RDONLY | os.O_DIRECTORY, shown, Access.WRITE), name
        except ToolFailure as failure:
            if failure.code != "PERMISSION_DENIED":
                raise
        # A directory may be entered and written without being readable.
        return self._open(location.root, parent, openat.O_PATH | os.O_DIRECTORY, shown, Access.WRITE), name

    def create_parents(self, location: Location) -> list[str]:
        """Make missing directories above; return them relative to the root, outermost first. Raises ToolFailure."""
        parent = location.relative.rpartition("/")[0]
        try:
            return openat.make_directories(str(location.root), parent)
        except OSError as error:
            raise from_os_error(error, self.shown(location.real.parent), FileWriteFailed) from None

    def remove_created(self, location: Location, made: Sequence[str]) -> None:
        """Undo `create_parents` as far as the directories are still empty."""
        openat.remove_directories(str(location.root), made)

    def status(self, location: Location) -> os.stat_result | None:
        """Return what lies there now, links not followed; None where nothing does. Raises ToolFailure."""
        if location.real == location.root:
            return os.stat(location.root)
        try:
            directory, name = self.open_parent(location)
        except (FileNotFound, NotADirectory):
            return None
        try:
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise from_os_error(error, location.shown, FileReadFailed) from None
        finally:
            os.close(directory)

    def shown(self, real: Path) -> str:
        """Return how results show a real path: relative to the workspace, else absolute, quoted where not plain."""
        if not lies_in(str(real), str(self.root)):
            return quote_name(str(real))
        return quote_name(_below(str(real), str(self.root)) or ".")

    def missing(self, location: Location, advice: str = "Check the path with ls or glob.") -> FileNotFound:
        """Return the error for a location at which nothing is, naming what comes near it. Blocking."""
        near = [self.shown(each) for each in _near_paths(location.real, location.root)]
        hint = f"Did you mean {' or '.join(near)}?" if near else advice
        details: dict[str, JsonValue] = {"path": location.shown, "closest": list[JsonValue](near)}
        return FileNotFound(f"{location.shown}: no such file or directory. {hint}", details)

    def _readable(self, path: str) -> str:
        """Return the path meant, out of what a caller wrote; raises InvalidPath for what cannot be one."""
        _refuse_impossible(path, path)
        text = path
        if path.startswith('"') and not os.path.lexists(self.root / path):
            try:
                text = unquote_name(path)
            except ValueError:
                text = path  # a file may well have such a name
            _refuse_impossible(text, path)
        if text == path and text.split("/")[0] == "~" and not os.path.lexists(self.root / "~"):
            raise InvalidPath(
                f"{visible(path)}: ~ is not expanded here, and the home directory is outside the workspace "
                f"{visible(str(self.root))}. Use a path inside it (./~ for a file of that name), or ask the person "
                "to add a directory with --add-dir.",
                {"path": visible(path)},
            )
        return text

    def _root_of(self, real: Path, access: Access) -> Path | None:
        """Return the outermost root around a path: no tool can have swapped what is above it."""
        roots = self.roots if access is Access.WRITE else (*self.roots, *self.readable_roots)
        around = [root for root in roots if lies_in(str(real), str(root))]
        return min(around, key=lambda root: len(str(root)), default=None)

    def _outside(self, path: str, real: Path, access: Access) -> InvalidPath:
        shown = visible(path)
        if access is Access.WRITE and self._root_of(real, Access.READ) is not None:
            return InvalidPath(f"{shown} may be read, but not written.", {"path": shown})
        return InvalidPath(
            f"{shown} is outside the workspace {visible(str(self.root))}. Use a path inside it, or ask the person "
            "to add the directory with --add-dir.",
            {"path": shown, "workspace": str(self.root)},
        )

    def _open(self, root: Path, relative: str, flags: int, shown: str, access: Access) -> int:
        try:
            return openat.open_beneath(str(root), relative, flags)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EXDEV):
                raise InvalidPath(
                    f"{shown}: a part of the path is a symbolic link that was not there a moment ago. Nothing was "
                    "done; try again.",
                    {"path": shown},
                ) from None
            if error.errno in (errno.ENXIO, errno.ENODEV):
                raise InvalidPath(f"{shown} is a device, a pipe or a socket, no file.", {"path": shown}) from None
            raise from_os_error(error, shown, access.failure) from None

    def _identified(self, location: Location, access: Access) -> Sensitivity | None:
        """Return what protects the place by device and inode, whatever name and links lead to it."""
        real, reading = str(location.real), access is Access.READ
        own_may_be_read = reading and any(lies_in(real, str(root)) for root in self.readable_roots)
        if not own_may_be_read and is_own_directory(real):
            return protected_paths.OWN_SETTINGS_READ if reading else protected_paths.OWN_SETTINGS_WRITE
        known = protected_paths.IDENTIFIED_TO_READ if reading else protected_paths.IDENTIFIED_TO_WRITE
        return protected_by_identity(real, str(location.root), known)

    def _judge_other_names(self, location: Location) -> Sensitivity | None:
        """Return whether the place is another name of what is protected, in reading as in writing."""
        return OtherNames(self.roots, self.own_protection).judge(os.fsencode(location.real))


def _real_directory(path: Path | str) -> Path:
    real = Path(os.path.realpath(path))
    try:
        mode = real.stat().st_mode
    except OSError as error:
        raise from_os_error(error, visible(str(path)), FileReadFailed) from None
    if not stat.S_ISDIR(mode):
        raise NotADirectory(f"{visible(str(path))} is not a directory.", {"path": visible(str(path))})
    return real


def _unusable(problem: OSError, shown: str, access: Access) -> ToolFailure:
    if problem.errno == errno.ENAMETOOLONG:
        return InvalidPath(f"{shown}: {problem.strerror}.", {"path": shown})
    return from_os_error(problem, shown, access.failure)


def _refuse_special(mode: int, shown: str) -> None:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    kind = kinds.get(stat.S_IFMT(mode))
    if kind is not None:
        raise InvalidPath(f"{shown} is {kind}, no file that can be read or written.", {"path": shown})


def _below(place: str, folder: str) -> str:
    """Return the place relative to a directory that it lies in; empty for the directory itself."""
    return place[len(folder) :].lstrip("/")


def _refuse_impossible(text: str, path: str) -> None:
    """Raise InvalidPath for a text that cannot be a path."""
    shown = quote_name(path)
    if not text:
        raise InvalidPath("The path is empty. Write . for the workspace itself.", {"path": path})
    if "\0" in text:
        raise InvalidPath(f"{shown}: a path cannot contain a NUL character.", {"path": shown})
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidPath(f"{shown}: no file can have this name.", {"path": shown}) from None


def _near_paths(path: Path, root: Path) -> list[Path]:
    """Return existing paths near a missing one below `root`, closest first; case does not count."""
    missing, rest = path, Path()
    while missing != root and not os.path.lexists(missing.parent):
        rest = missing.name / rest
        missing = missing.parent
    if missing == root:
        return []
    try:
        with os.scandir(missing.parent) as entries:
            by_folded = {entry.name.casefold(): entry.name for entry in islice(entries, _MOST_NAMES)}
    except OSError:
        return []
    close = difflib.get_close_matches(missing.name.casefold(), by_folded, n=_SUGGESTIONS, cutoff=0.6)
    found = [missing.parent / by_folded[name] for name in close]
    whole = [each / rest for each in found if os.path.lexists(each / rest)]
    return whole or found
