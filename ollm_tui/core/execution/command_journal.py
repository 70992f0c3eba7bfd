"""Find out by two looks at the workspace what a command changed, and keep beforehand what files hold."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from threading import Event

from ollm_tui.core.fence.protected_paths import holds_credentials
from ollm_tui.core.files.journal import Change, Entry, EntryState, Journal, with_state
from ollm_tui.core.files.journal_states import (
    ABSENT,
    FileKind,
    FileState,
    Place,
    Sighting,
    Signature,
    look_at,
    signature_of,
    state_of,
)
from ollm_tui.core.search.workspace_scan import KEPT_BYTES, MOST_SCANNED, WorkspaceScan, scan_workspace

FIRST_SECONDS = 0.1
"""How long a command waits for that; the newest files come first, and the rest is kept while it runs."""
_AT_ONCE = 4_000_000
_WHILE_RUNNING = 64_000_000
MOST_RECORDED = 2_000
"""Changes of one command; more are counted only."""

UNKNOWN = "no earlier content is known"
IGNORED = "ignore rules leave it out: what it held is not known"

Known = dict[bytes, tuple[Signature, str]]


@dataclass
class Looked:
    """The workspace before a command."""

    scans: dict[str, WorkspaceScan]
    unknown: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    """Files whose content is not kept yet, the newest first."""


@dataclass(frozen=True)
class Recorded:
    """What an entry says of its command."""

    call: str
    tool: str
    title: str
    turn: str | None = None
    """None for the one that runs now."""


class CommandJournal:
    """What commands changed in the directories of a workspace. Every call blocks; raises StorageFailed and OSError."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, Known] = {}

    def look(self, roots: tuple[str, ...]) -> Looked:
        """Look at the workspace before a command, and keep what it may change as far as FIRST_SECONDS reach."""
        return self._to_keep({root: scan_workspace(root) for root in roots}, time.monotonic() + FIRST_SECONDS)

    def _to_keep(self, scans: dict[str, WorkspaceScan], until: float) -> Looked:
        looked = Looked(scans)
        for root, scan in looked.scans.items():
            known = self._known_in(root)
            unknown = [
                path
                for path, seen in scan.files.items()
                if path not in scan.targets
                and seen.st_size <= KEPT_BYTES
                and ((kept := known.get(path)) is None or kept[0] != signature_of(seen))
                and not holds_credentials(os.fsdecode(path).split("/"))
            ]
            unknown.sort(key=lambda path: -scan.files[path].st_mtime_ns)
            looked.unknown[root] = unknown
            self._keep(root, scan, unknown, until)
        return looked

    def keep_more(self, looked: Looked, over: Event) -> None:
        """Go on keeping while the command runs: what has changed by then is left out."""
        budget = _WHILE_RUNNING
        for root, unknown in looked.unknown.items():
            while unknown and budget > 0 and not over.is_set():
                budget -= self._keep(root, looked.scans[root], unknown, float("inf"), over)

    def record(self, looked: Looked, command: Recorded, note: str = "", since: str = "") -> Looked:
        """Save an entry with what is other now, none where nothing is; return the workspace as it is now.

        With `since`, a moment, what other calls have recorded from then on is left to their entries.
        """
        changes: list[Change] = []
        notes = [note] if note else []
        contents: list[bytes] = []
        scans: dict[str, WorkspaceScan] = {}
        for root, before in looked.scans.items():
            scans[root] = after = scan_workspace(root)
            comparison = _Comparison(root, before, after, self._known_in(root))
            changes += comparison.changes()
            notes += comparison.notes
            contents += comparison.contents
        if since and changes:
            changes = list(_left(changes, [one for one in self._journal.entries() if one.at >= since]))
        if changes:
            entry = self._journal.begin(command.call, command.tool, command.title, contents, turn=command.turn)
            self._journal.save(with_state(entry, EntryState.DONE, changes, note="; ".join(notes)))
        return Looked(scans)

    def go_on(self, now: Looked) -> Looked:
        """Keep what a command that goes on may change from now on, as far as FIRST_SECONDS reach."""
        return self._to_keep(now.scans, time.monotonic() + FIRST_SECONDS)

    def _known_in(self, root: str) -> Known:
        if root not in self._known:
            self._known[root] = self._journal.known(root)
        return self._known[root]

    def _keep(
        self, root: str, scan: WorkspaceScan, unknown: list[bytes], until: float, over: Event | None = None
    ) -> int:
        """Keep files off the list's front; return how many bytes."""
        found: dict[bytes, tuple[Signature, bytes]] = {}
        size = taken = 0
        for path in unknown:
            if size > _AT_ONCE or time.monotonic() > until or (over is not None and over.is_set()):
                break
            taken += 1
            sighting = look_at(Place(root, os.fsdecode(path)))
            expected = signature_of(scan.files[path])
            if sighting.content is not None and sighting.signature == expected:
                found[path] = (expected, sighting.content)
                size += len(sighting.content)
        del unknown[:taken]
        if found:
            self._known_in(root).update(self._journal.note_known(root, found))
        return size


class _Comparison:
    """What two looks at one root tell."""

    def __init__(self, root: str, before: WorkspaceScan, after: WorkspaceScan, known: Known) -> None:
        self.root = root
        self.notes: list[str] = []
        self.contents: list[bytes] = []
        self._before = before
        self._after = after
        self._known = known

    def changes(self) -> list[Change]:
        """Return the changes in the order in which they can be undone from the end."""
        before, after = self._before, self._after
        changed = before.changed(after)
        if before.cut or after.cut:
            self.notes.append(f"only {MOST_SCANNED:,} files were compared")
            changed = [path for path in changed if path in before.files and path in after.files]
        if len(changed) > MOST_RECORDED:
            self.notes.append(f"{len(changed) - MOST_RECORDED:,} more files changed and are not recorded")
            changed = changed[:MOST_RECORDED]
        made = sorted(path for path in after.directories if path not in before.directories)
        gone = sorted((path for path in before.directories if path not in after.directories), reverse=True)
        absent_before = [path for path in made if not before.cut]
        absent_after = [path for path in gone if not after.cut]
        return [
            *(Change(self._place(path), ABSENT, _directory(after.directories[path])) for path in absent_before),
            *self._files(changed),
            *(Change(self._place(path), _directory(before.directories[path]), ABSENT) for path in absent_after),
            *self._ignored(),
        ]

    def _files(self, changed: list[bytes]) -> Iterator[Change]:
        before, after = self._before.files, self._after.files
        now = {path: self._look(path) for path in changed if path in after}
        gone = [path for path in changed if path not in after]
        by_inode = {before[path].st_ino: path for path in gone}
        lost_sizes = {before[path].st_size for path in gone if not self._known_before(path)}
        moved: set[bytes] = set()
        for path, seen in now.items():
            old = before.get(path)
            origin = by_inode.get(after[path].st_ino)
            earlier = ABSENT if old is None else self._state_before(path)
            reason = "" if old is None or self._known_before(path) else UNKNOWN
            if old is not None and reason and _same_content(old, after[path]):
                earlier, reason = replace(earlier, digest=seen.state.digest), ""
            if origin is not None and origin not in moved and _same_content(before[origin], after[path]):
                moved.add(origin)
                yield Change(self._place(path), ABSENT if reason else earlier, seen.state, origin=self._place(origin))
                if reason:
                    yield Change(self._place(path), earlier, seen.state, reason=reason)
            elif earlier != seen.state:
                if old is None and (after[path].st_ino in by_inode or after[path].st_size in lost_sizes):
                    held = "it may hold what is gone under another name, and may be its only copy"
                    reason = held if lost_sizes else ""
                yield Change(self._place(path), earlier, seen.state, reason=reason)
        for path in gone:
            if path not in moved:
                reason = "" if self._known_before(path) else UNKNOWN
                yield Change(self._place(path), self._state_before(path), ABSENT, reason=reason)

    def _ignored(self) -> Iterator[Change]:
        before, after = self._before.ignored, self._after.ignored
        gone = sorted(path for path in before if path not in after and path not in self._after.files)
        touched = sum(1 for path in after if path in before and after[path].st_ctime_ns != before[path].st_ctime_ns)
        if touched:
            self.notes.append(f"{touched:,} ignored {'path' if touched == 1 else 'paths'} changed too")
        for path in gone[:100]:
            yield Change(self._place(path), state_of(before[path], ""), ABSENT, reason=IGNORED)

    def _look(self, path: bytes) -> Sighting:
        seen = look_at(self._place(path))
        small = seen.content is not None and len(seen.content) <= KEPT_BYTES
        if small and seen.content is not None and not holds_credentials(os.fsdecode(path).split("/")):
            self.contents.append(seen.content)
        return Sighting(seen.state, None, seen.signature, seen.device)

    def _known_before(self, path: bytes) -> bool:
        if path in self._before.targets:
            return True
        kept = self._known.get(path)
        return kept is not None and kept[0] == signature_of(self._before.files[path])

    def _state_before(self, path: bytes) -> FileState:
        seen = self._before.files[path]
        target = self._before.targets.get(path)
        if target is not None:
            return state_of(seen, target)
        return state_of(seen, self._known[path][1] if self._known_before(path) else "")

    def _place(self, path: bytes) -> Place:
        return Place(self.root, os.fsdecode(path))


def _left(changes: Iterable[Change], recorded: Iterable[Entry]) -> Iterator[Change]:
    """Yield what of the changes others have not recorded, from the state in which they left it."""
    states: dict[str, FileState] = {}
    for entry in recorded:
        for change in entry.changes:
            states[change.place.path] = change.after
            if change.origin is not None:
                states[change.origin.path] = ABSENT
    for change in changes:
        known = states.get(change.place.path)
        if known is None:
            yield change
        elif known != change.after:
            yield Change(change.place, known, change.after)


def _same_content(before: os.stat_result, after: os.stat_result) -> bool:
    """Return whether it is the same file, not written since: renamed, or with other permissions, at most."""
    old, new = ((each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns) for each in (before, after))
    return old == new


def _directory(mode: int) -> FileState:
    return FileState(FileKind.DIRECTORY, mode)
