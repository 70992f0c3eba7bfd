"""What of a workspace is covered in a cage: protected files, other names of them, and sockets."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ollm_tui.core.fence.file_identity import files_at, home_dir, linked_credentials
from ollm_tui.core.fence.protected_paths import DEEPER_CREDENTIALS, ProtectedPatterns, judge_reading, judge_writing

MOST_ENTRIES = 500_000
"""Entries of the workspace that are looked through for what must be covered; more is refused."""

_DEEPER = {pattern.split("/")[0] for pattern in DEEPER_CREDENTIALS}
"""Directories with names in them that only count there; others of that kind are protected themselves."""

_SECRET_SETTINGS = re.compile(rb"(?im)(://)[^/\s@]+(?=@)|^(\s*(?:\w*token|password|extraheader)\s*=).*$")
"""Users and passwords in addresses, and the settings of git that hold such."""


@dataclass(frozen=True)
class Cover:
    """A path that must not be changed, and whether it must not be read either."""

    path: str
    hidden: bool
    by_place: bool = False
    """Whether it is protected by where it lies: the directories that lead there must keep their names."""


@dataclass
class Covers:
    """Looks through a workspace for what is protected in it."""

    root: Path
    own_protection: ProtectedPatterns = field(default_factory=lambda: ProtectedPatterns(()))
    """What the person protects besides."""
    secrets_hidden: bool = False
    """Whether what asks before it is read is hidden."""
    left_out: Collection[Path] = ()
    """Directories in it that are covered whole."""
    _not_entered: set[str] = field(default_factory=set[str], init=False)

    def __post_init__(self) -> None:
        self._not_entered.update(map(str, self.left_out))

    def find(self) -> Iterator[Cover]:
        """Yield what exists. A link is followed where it leads to something of the workspace.

        Raises:
            OSError: There are more than MOST_ENTRIES entries.
        """
        linked: dict[tuple[int, int], bool] = {}
        if self.secrets_hidden:
            device = self.root.stat().st_dev
            linked.update(dict.fromkeys(linked_credentials(device, [home_dir()]), True))
        numbers: set[int] = set()
        for path, hides, by_place in self._protected(numbers):
            real = Path(path).resolve()
            if real.exists() and real.is_relative_to(self.root):
                hidden = hides and (self.secrets_hidden or real.is_socket())
                linked.update(dict.fromkeys(_linked_files(real, every=hidden), hidden))
                yield Cover(str(real), hidden, by_place)
        if any(number in numbers for _, number in linked):
            yield from self._other_names(linked)

    def _protected(self, numbers: set[int]) -> Iterator[tuple[str, bool, bool]]:
        """Yield protected entries and sockets; add the numbers of other files.

        With each, whether reading it asks, and whether it is protected by its place.
        """
        declared = self.own_protection.judge if self.own_protection.patterns else None
        top = len(self.root.parts)
        for entries, last, covered in self._folders():
            within = last if last.lower() in _DEEPER else ""
            # Every entry of the workspace comes by here, so it is decided by its name before anything else.
            for entry in entries:
                hides, by_place = _judged(entry.name, within), False
                if declared is not None and hides is not True and declared("/".join(Path(entry.path).parts[top:])):
                    self._not_entered.add(entry.path)
                    hides = by_place = True
                if hides or (hides is not None and not covered):
                    yield entry.path, hides, by_place
                elif entry.is_file(follow_symlinks=False):
                    numbers.add(entry.inode())
                elif not entry.is_dir(follow_symlinks=False) and not entry.is_symlink() and _is_socket(entry):
                    yield entry.path, True, False

    def _folders(self) -> Iterator[tuple[list[os.DirEntry[str]], str, bool]]:
        """Yield the entries of each directory, its name, and whether it is covered itself.

        What cannot be written is entered for the secrets in it alone, and git's own data never.
        """
        seen = 0
        folders = [(str(self.root), "", False)]
        while folders:
            folder, name, covered = folders.pop()
            try:
                with os.scandir(folder) as found:
                    entries = list(found)
            except (PermissionError, FileNotFoundError, NotADirectoryError):
                continue
            seen += len(entries)
            if seen > MOST_ENTRIES:
                raise OSError(f"the workspace has more than {MOST_ENTRIES} entries, too many to look through")
            yield entries, name, covered
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False) or entry.path in self._not_entered:
                    continue
                hides = _judged(entry.name, name)
                if hides is None:
                    folders.append((entry.path, entry.name, covered))
                elif self.secrets_hidden and not hides and entry.name != ".git":
                    folders.append((entry.path, entry.name, True))

    def _other_names(self, linked: Mapping[tuple[int, int], bool]) -> Iterator[Cover]:
        numbers = {number for _, number in linked}
        for entries, last, _ in self._folders():
            for entry in entries:
                if entry.inode() in numbers and _judged(entry.name, last) is None:
                    status = entry.stat(follow_symlinks=False)
                    if (hidden := linked.get((status.st_dev, status.st_ino))) is not None:
                        yield Cover(entry.path, hidden)


def _linked_files(path: Path, *, every: bool) -> Iterator[tuple[int, int]]:
    """Yield what of a protected path has other names; of a directory, what git and we are configured by, or all."""
    if every:
        within = map(Path, map(os.fsdecode, files_at(os.fsencode(path))))
    else:
        within = (path / "config", path / "config.toml", *_listed(path / "hooks")) if path.is_dir() else (path,)
    for each in within:
        with suppress(OSError):
            status = each.stat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                yield status.st_dev, status.st_ino


def masked_git_configuration(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the configurations of a repository that hold passwords, without these."""
    for path in (root / ".git" / "config", *root.glob(".git/modules/*/config")):
        with suppress(OSError):
            masked, count = _SECRET_SETTINGS.subn(rb"\1\2***", path.read_bytes())
            if count:
                yield str(path), masked


def hidden_in_home(root: Path, home: str) -> Iterator[Cover]:
    """Yield where programs keep a person's own things, if the workspace is their home or lies around it."""
    real = Path(home).resolve()
    if home and real.is_relative_to(root):
        for path in _listed(real):
            if path.name.startswith(".") and path.name != ".git" and not path.is_symlink():
                yield Cover(str(path), True)


@lru_cache(maxsize=65_536)
def _judged(name: str, folder: str = "") -> bool | None:
    """Return whether reading an entry asks; None where it is not protected. No pattern has a third component."""
    parts = (folder, name) if folder else (name,)
    return None if judge_writing(parts) is None else judge_reading(parts) is not None


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def _listed(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except OSError:
        return []
