"""What a search below a directory would read: whether credentials are among it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple

from ollm_tui.core.fence.dir_handle import is_settled
from ollm_tui.core.fence.file_identity import OtherNames
from ollm_tui.core.fence.protected_paths import holds_credentials
from ollm_tui.core.fence.secrets import is_secret_configuration
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.git.configuration import holds_secrets

MAX_ENTRIES_BELOW = 100_000
"""How many names below a directory are looked at for credentials before a search in it asks."""

SKIPPED_BELOW = frozenset({".git", "node_modules", ".venv", "__pycache__"})

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


def reason_below(folder: Path, descent: Descent, workspace: Workspace) -> str | None:
    """Return why a search below a directory needs a question; None where it does not. Blocks."""
    other_names = OtherNames(workspace.roots, workspace.own_protection)
    seen = 0
    shown = [re.compile(".*") if "{" in glob or "\\" in glob else _last_name(glob) for glob in descent.shown]
    if not descent.hidden:
        shown += [pattern for parent in folder.parents for pattern in _shown_again(str(parent), IGNORE_FILES)]
    waiting = [str(folder)]
    while waiting:
        path = waiting.pop()
        listing = _listing_of(path, str(workspace.root))
        seen += listing.entries
        if seen > MAX_ENTRIES_BELOW:
            return "too much lies below it to tell whether credentials are among it"
        if descent.links and listing.link:
            return f"{os.path.relpath(f'{path}/{listing.link}', folder)} below it leads elsewhere"
        folders, secrets = listing.folders, listing.secrets or _protected_in(path, workspace)
        if not descent.hidden:
            shown += _shown_again(path, listing.ignore_files)
            folders = [name for name in folders if _is_reached(name, shown)]
            secrets = [name for name in secrets if _is_reached(name, shown) or _ending(name) in descent.endings]
        if secrets:
            return f"{os.path.relpath(f'{path}/{secrets[0]}', folder)} below it holds credentials"
        linked = (name for name in listing.linked if descent.hidden or _is_reached(name, shown))
        name = next((name for name in linked if other_names.judge(os.fsencode(f"{path}/{name}"))), None)
        if name is not None:
            return f"{os.path.relpath(f'{path}/{name}', folder)} below it is another name of what is protected"
        if (held := _secret_configuration(path, folders)) is not None:
            return f"{os.path.relpath(held, folder)} below it holds credentials"
        if not descent.links:  # what is installed is full of links
            folders = [name for name in folders if name not in SKIPPED_BELOW]
        waiting += [f"{path}/{name}" for name in folders]
    return None


def _protected_in(path: str, workspace: Workspace) -> list[str]:
    """Return the names in a directory that the person's own list protects."""
    own = workspace.own_protection
    if not own.patterns:
        return []
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if own.judge(os.path.relpath(entry.path, workspace.root)) is not None]


class _Listing(NamedTuple):
    """What counts of a directory's entries for a search below it."""

    entries: int
    folders: Sequence[str] = ()
    """Links to directories are none: a search that follows links asks about them anyway."""
    secrets: Sequence[str] = ()
    """Files that hold credentials."""
    linked: Sequence[str] = ()
    """Other files that have further names."""
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
    secrets = sorted(name for name in others if holds_credentials((*parts, name)))
    return _Listing(
        len(entries),
        folders,
        secrets,
        sorted(entry.name for entry in entries if _has_further_names(entry) and entry.name not in secrets),
        sorted(IGNORE_FILES & others),
        min(links, default=""),
    )


def _has_further_names(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink > 1


def _secret_configuration(path: str, folders: Sequence[str]) -> str | None:
    """Return a configuration of git in a directory, or in the repository of one, that holds a password."""
    if ".git" in folders and holds_secrets(Path(path)):
        return f"{path}/.git"
    inside = ".git" in path.split("/")
    files = (f"{path}/config", f"{path}/config.worktree") if inside else ()
    return next((file for file in files if is_secret_configuration(file, file.split("/"))), None)


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
