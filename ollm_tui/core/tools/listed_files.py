"""The directory walk of glob, grep and ls, and notes on skipped entries."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ollm_tui.core.base import app_dirs
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import NotADirectory, ToolFailure, from_os_error
from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.fence.workspace import Location, Workspace
from ollm_tui.core.search.listing import Listing, ListingOptions
from ollm_tui.core.search.listing_scope import with_slash

_NAMED_DIRECTORIES = 3
"""Unreadable directories that a note names; the rest are only counted."""


def status_of(workspace: Workspace, location: Location, failure: type[ToolFailure]) -> os.stat_result:
    """Return what lies at a resolved place; raises FileNotFound and its like. `failure` stands for what has no name."""
    try:
        return os.lstat(location.real)
    except FileNotFoundError:
        raise workspace.missing(location) from None
    except OSError as error:
        raise from_os_error(error, location.shown, failure) from None


def directory_at(workspace: Workspace, path: str, failure: type[ToolFailure]) -> Location:
    """Return the directory a caller named. Raises InvalidPath, FileNotFound, NotADirectory. Blocking."""
    location = workspace.resolve(path)
    if not stat.S_ISDIR(status_of(workspace, location, failure).st_mode):
        raise NotADirectory(
            f"{location.shown} is a file, not a directory. Read it with read_file.", {"path": location.shown}
        )
    return location


def listing_of(workspace: Workspace, location: Location, options: ListingOptions, signal: AbortSignal) -> Listing:
    """Open a walk below a directory, which ends with OperationCancelled on abort. Raises ToolFailure."""
    readable = any(location.real == root or root in location.real.parents for root in workspace.readable_roots)
    own = () if readable else (app_dirs.config_dir(), app_dirs.data_dir(), app_dirs.state_dir())
    off_limits = frozenset(with_slash(os.fsencode(os.path.realpath(folder))) for folder in own)
    return Listing(
        DirHandle(os.fsencode(location.real), workspace.open_directory(location)),
        os.fsencode(location.root),
        replace(options, off_limits=off_limits, own_protection=workspace.own_protection),
        signal.throw_if_aborted,
    )


def notes_of(listing: Listing, location: Location) -> tuple[str, ...]:
    """Return notes on what is missing from the result."""
    notes: list[str] = []
    if listing.scopes.start_ignored:
        notes.append(f"{location.shown} is ignored by git; it was searched because it was asked for")
    if listing.credentials_skipped:
        count = listing.credentials_skipped
        what = "entry that holds" if count == 1 else "entries that hold"
        notes.append(f"{count} {what} credentials or settings left out; read_file asks a person")
    if listing.unreadable:
        shown = ", ".join(quote_name(os.fsdecode(path)) for path in listing.unreadable[:_NAMED_DIRECTORIES])
        more = len(listing.unreadable) - _NAMED_DIRECTORIES
        shown += f" and {more} more" if more > 0 else ""
        what = "folder" if len(listing.unreadable) == 1 else "folders"
        notes.append(f"{len(listing.unreadable)} {what} could not be read: {shown}")
    return tuple(notes)


def stopped_at(count: int) -> str:
    """Return the last line of a result that holds only the first entries."""
    return f"[stopped at {count} results; there are more]"


def shown_prefix(directory: Path, workspace: Workspace) -> str:
    """Return the prefix of names below a directory; empty for the workspace."""
    if directory == workspace.root:
        return ""
    inside = workspace.root in directory.parents
    return f"{directory.relative_to(workspace.root) if inside else directory}/"


def shown_path(prefix: str, path: bytes) -> str:
    """Return a path below a directory as results show it."""
    return shown_name(prefix + os.fsdecode(path))


def shown_paths(prefix: str, paths: Sequence[bytes]) -> list[str]:
    """Return paths as `shown_path` does, quickly where all are plain."""
    text = os.fsdecode(b"\0".join(paths))
    plain = text.isascii() and text.replace("\0", "").isprintable() and '"' not in text and "\\" not in text
    if paths and plain and shown_name(prefix) == prefix:
        return [prefix + name for name in text.split("\0")] if prefix else text.split("\0")
    return [shown_path(prefix, path) for path in paths]


def paths_below(prefix: str, shown: Sequence[str], names: Sequence[bytes]) -> list[str]:
    """Return paths as `shown_paths` does, from names already quoted."""
    if shown_name(prefix) == prefix and '"' not in "".join(shown):  # what is quoted is quoted as a whole
        return [prefix + name for name in shown]
    return shown_paths(prefix, names)


def shown_name(name: str) -> str:
    """Quote a name as `quote_name` does, quickly for common names."""
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return name
    return quote_name(name)


class _Seconds(dict[int, str]):
    """Whole seconds since 1970 as text; files of one directory often share them."""

    def __missing__(self, seconds: int) -> str:
        try:
            moment = datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):  # beyond the years that calendars here know
            moment = datetime.max.replace(tzinfo=UTC)
        if len(self) >= _SECONDS_CACHED:
            self.clear()
        self[seconds] = text = moment.isoformat()[: len("1970-01-01T00:00:00")]
        return text


_SECONDS_CACHED = 4096
SECONDS = _Seconds()
MILLISECONDS = tuple(f".{number:03}Z" for number in range(1000))
"""The halves of `iso_time`, for callers with very many times."""


def iso_time(nanoseconds: int) -> str:
    """Return a file's time stamp as results show it: UTC, ISO 8601, milliseconds."""
    return SECONDS[nanoseconds // 1_000_000_000] + MILLISECONDS[nanoseconds // 1_000_000 % 1000]
