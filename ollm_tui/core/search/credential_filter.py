"""Leave credentials out of listings, under all of their names."""

from __future__ import annotations

import os

from ollm_tui.core.fence import protected_paths
from ollm_tui.core.fence.file_identity import Identity, home_dir, identity_of_linked, linked_credentials
from ollm_tui.core.fence.protected_paths import ProtectedPatterns


class CredentialFilter:
    """What nobody may read without being asked; counts what it left out.

    Paths are absolute bytes, directories with a slash behind. `own` is a person's own list of such files.
    """

    def __init__(self, start: bytes, boundary: bytes, own: ProtectedPatterns | None) -> None:
        self.skipped = 0
        self._start = start
        self._boundary = boundary
        self._own = own if own is not None and own.patterns else None
        self._harmless: set[bytes] = set()
        places = (boundary, *_directories_between(boundary, start), home_dir())
        self._linked: set[Identity] = set(linked_credentials(os.lstat(start).st_dev, places))
        """Credentials that have further names, which are then left out too."""
        self._known_at_start = len(self._linked)

    @property
    def has_met_linked(self) -> bool:
        """Whether credentials with other names were met, under which they may have been listed before."""
        return len(self._linked) > self._known_at_start

    def meet(self, directory: bytes, files: list[bytes]) -> set[bytes]:
        """Return the credentials among all files of a directory, and remember those that have other names."""
        found = self._sensitive(directory, files)
        self._linked.update(filter(None, (identity_of_linked(directory + name) for name in found)))
        return found

    def kept(self, directory: bytes, names: list[bytes], sensitive: set[bytes] | None = None) -> list[bytes]:
        """Return the names that may be listed; `sensitive` is what `meet` found among them."""
        sensitive = self._sensitive(directory, names) if sensitive is None else sensitive
        kept = [name for name in names if name not in sensitive] if sensitive else names
        if self._own is not None and directory.startswith(self._boundary):
            parent = os.fsdecode(directory[len(self._boundary) :])
            kept = [name for name in kept if self._own.judge(parent + os.fsdecode(name)) is None]
        self.skipped += len(names) - len(kept)
        return kept

    def without_other_names(self, directory: bytes, paths: list[bytes]) -> list[bytes]:
        """Return the paths below a directory that are no hard links to credentials, as far as those have been met."""
        if not self._linked:
            return paths
        kept = [path for path in paths if identity_of_linked(directory + path) not in self._linked]
        self.skipped += len(paths) - len(kept)
        return kept

    def _sensitive(self, directory: bytes, names: list[bytes]) -> set[bytes]:
        # Only hidden directories (`.docker`, `.config`) make credentials of names that would not be so elsewhere.
        parent = directory[len(self._start) : -1].rpartition(b"/")[2]
        if parent[:1] == b".":
            return {name for name in names if _is_sensitive(parent, name)}
        if self._harmless.issuperset(names):
            return set()
        found = {name for name in names if name not in self._harmless and _is_sensitive(b"", name)}
        self._harmless.update(name for name in names if name not in found)
        return found


def _is_sensitive(parent: bytes, name: bytes) -> bool:
    return protected_paths.judge_reading(os.fsdecode(parent + b"/" + name).split("/")) is not None


def _directories_between(boundary: bytes, start: bytes) -> list[bytes]:
    """Return those below `boundary` on the way to `start`, which is the last one."""
    names = start[len(boundary) :].split(b"/")[:-1] if start.startswith(boundary) else []
    return [boundary + b"/".join(names[: index + 1]) + b"/" for index in range(len(names))]
