"""The journal: what calls changed in the workspace, before and after, so that it can be taken back (contract 9).

It lies outside the workspace, for this user alone: a secret that a call changed is no easier to read here than there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.files.journal_states import FileKind, FileState, Place, Sighting, Signature, digest_of
from ollm_tui.core.storage.store import Schema, Store, workspace_key

KEPT_DAYS = 30
MOST_KEPT_BYTES = 2_000_000_000
_PRUNED_EVERY = 64_000_000
"""Bytes stored between two looks at the whole size."""
_PACKED = range(1_000, 256_000)
"""Sizes of content worth compressing: below it saves nothing, above it takes longer than storing it."""

SCHEMA = Schema(
    "undo",
    (
        (
            "CREATE TABLE contents(digest TEXT PRIMARY KEY, packed INTEGER NOT NULL, data BLOB NOT NULL) WITHOUT ROWID",
            "CREATE TABLE entries(id INTEGER PRIMARY KEY AUTOINCREMENT, workspace BLOB NOT NULL, at TEXT NOT NULL, "
            "call TEXT NOT NULL, turn TEXT NOT NULL, tool TEXT NOT NULL, title TEXT NOT NULL, state TEXT NOT NULL, "
            "note TEXT NOT NULL, changes TEXT NOT NULL)",
            "CREATE INDEX entries_of ON entries(workspace, id)",
            "CREATE TABLE known(root BLOB NOT NULL, path BLOB NOT NULL, signature TEXT NOT NULL, digest TEXT NOT NULL, "
            "PRIMARY KEY(root, path)) WITHOUT ROWID",
        ),
    ),
)


class EntryState(StrEnum):
    """How far an entry is."""

    OPEN = "open"
    """The call began, and its end is not recorded: it still runs, or the program ended with it."""
    DONE = "done"
    UNDOING = "undoing"
    """An undo that began; it is finished by whoever opens the journal next."""


@dataclass(frozen=True)
class Change:
    """One path that a call changed."""

    place: Place
    before: FileState
    after: FileState
    origin: Place | None = None
    """Where the file was moved from."""
    trash: str = ""
    """The entry of the trash that holds what was there before."""
    reason: str = ""
    """Why it cannot be undone; empty where it can."""
    undoes: tuple[int, int] | None = None
    """Entry and number of the change that this one took back."""


@dataclass(frozen=True)
class Entry:
    """What one call changed, or one undo."""

    id: int
    workspace: str
    at: str
    call: str
    turn: str
    tool: str
    title: str
    state: EntryState = EntryState.OPEN
    note: str = ""
    changes: tuple[Change, ...] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        """The id as people write it."""
        return f"u{self.id}"

    @property
    def is_undo(self) -> bool:
        """Whether it took back others."""
        return self.tool == UNDO


UNDO = "undo"


class Journal:
    """The entries of one workspace, for any thread and process. Every call blocks. Raises StorageFailed."""

    def __init__(self, store: Store, workspace: Path | str, *, clock: Clock | None = None) -> None:
        self.store = store
        self.workspace = str(workspace)
        self.turn = ""
        """The id that entries of this process get from now on, to be undone together."""
        self._key = workspace_key(Path(workspace))
        self._clock = clock or SystemClock()
        self._stored = 0

    @property
    def moment(self) -> str:
        """The present moment, as entries have it."""
        return iso_time(self._clock.now())

    # -- writing

    def begin(self, call: str, tool: str, title: str, contents: Iterable[bytes] = (), turn: str | None = None) -> Entry:
        """Open an entry, with the contents that the call may replace; of the turn that runs, or another."""
        at = self.moment
        with self.store.write(SCHEMA) as db:
            self._keep(db, contents)
            turn = "" if tool == UNDO else self.turn if turn is None else turn
            row = (self._key, at, call, turn, tool, title, EntryState.OPEN, "", "[]")
            cursor = db.execute(
                "INSERT INTO entries(workspace, at, call, turn, tool, title, state, note, changes) "
                "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            identifier = cursor.lastrowid or 0
        return Entry(identifier, self.workspace, at, call, turn, tool, title)

    def save(self, entry: Entry, contents: Iterable[bytes] = ()) -> None:
        """Save an entry as it is by now; one that is done without a change is dropped."""
        with self.store.write(SCHEMA) as db:
            if entry.state is EntryState.DONE and not entry.changes:
                db.execute("DELETE FROM entries WHERE id = ?", (entry.id,))
            else:
                self._keep(db, contents)
                db.execute(
                    "UPDATE entries SET state = ?, note = ?, changes = ? WHERE id = ?",
                    (entry.state, entry.note, _dumped(entry.changes), entry.id),
                )
        if self._stored > _PRUNED_EVERY:
            self.prune()

    def note_known(
        self, root: str, found: Mapping[bytes, tuple[Signature, bytes]]
    ) -> dict[bytes, tuple[Signature, str]]:
        """Keep what files hold, so that what a command does to them can be undone; return signature and digest."""
        known = {path: (signature, digest_of(content)) for path, (signature, content) in found.items()}
        rows = [(os.fsencode(root), path, _joined(signature), digest) for path, (signature, digest) in known.items()]
        with self.store.write(SCHEMA) as db:
            self._keep(db, [content for _, content in found.values()])
            db.executemany("INSERT OR REPLACE INTO known VALUES(?, ?, ?, ?)", rows)
        return known

    def known(self, root: str) -> dict[bytes, tuple[Signature, str]]:
        """Return signature and digest of the files whose content is kept, by path below the root."""
        with self.store.read(SCHEMA) as db:
            rows = db.execute("SELECT path, signature, digest FROM known WHERE root = ?", (os.fsencode(root),))
            return {path: (_split(signature), digest) for path, signature, digest in rows}

    def _keep(self, db: sqlite3.Connection, contents: Iterable[bytes]) -> None:
        for content in contents:
            digest = digest_of(content)
            if db.execute("SELECT 1 FROM contents WHERE digest = ?", (digest,)).fetchone():
                continue
            packed = zlib.compress(content, 1) if len(content) in _PACKED else content
            shorter = len(packed) < len(content)
            data = packed if shorter else content
            self._stored += len(data)
            db.execute("INSERT INTO contents VALUES(?, ?, ?)", (digest, shorter, data))

    # -- reading

    def content(self, digest: str) -> bytes | None:
        """Return a content by its digest; None where it is not kept."""
        with self.store.read(SCHEMA) as db:
            row = db.execute("SELECT packed, data FROM contents WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            return None
        return zlib.decompress(row[1]) if row[0] else bytes(row[1])

    def keeps(self, digests: Iterable[str]) -> frozenset[str]:
        """Return those contents that are kept."""
        with self.store.read(SCHEMA) as db:
            ask = "SELECT 1 FROM contents WHERE digest = ?"
            return frozenset(digest for digest in set(digests) if db.execute(ask, (digest,)).fetchone())

    def entries(self, state: EntryState | None = None) -> list[Entry]:
        """Return the entries of this workspace, the oldest first."""
        wanted = "" if state is None else " AND state = ?"
        with self.store.read(SCHEMA) as db:
            rows = db.execute(
                "SELECT id, at, call, turn, tool, title, state, note, changes FROM entries "
                f"WHERE workspace = ?{wanted} ORDER BY id",
                (self._key, *([] if state is None else [state])),
            ).fetchall()
        return [
            Entry(number, self.workspace, at, call, turn, tool, title, EntryState(state), note, _loaded(changes))
            for number, at, call, turn, tool, title, state, note, changes in rows
        ]

    # -- bounds

    def prune(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        """Forget entries older than KEPT_DAYS, and the oldest until the rest fits."""
        self._stored = 0
        oldest = iso_time(self._clock.now() - timedelta(days=KEPT_DAYS))
        with self.store.write(SCHEMA) as db:
            dropped = db.execute("DELETE FROM entries WHERE at < ? AND state <> 'undoing'", (oldest,)).rowcount
            if dropped or _used(db) > most_bytes:
                _drop_unused(db, with_known=False)
            if _used(db) > most_bytes:
                db.execute("DELETE FROM known")
                _drop_unused(db, with_known=True)
            while _used(db) > most_bytes:
                few = "SELECT id FROM entries WHERE state <> 'undoing' ORDER BY id LIMIT 50"
                if not db.execute(f"DELETE FROM entries WHERE id IN ({few})").rowcount:
                    break
                _drop_unused(db, with_known=True)


def _used(db: sqlite3.Connection) -> int:
    pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in _PAGES)
    return (pages - free) * size


_PAGES = ("page_count", "freelist_count", "page_size")


def _drop_unused(db: sqlite3.Connection, *, with_known: bool) -> None:
    used: set[str] = set()
    if not with_known:
        used.update(row[0] for row in db.execute("SELECT digest FROM known"))
    for (changes,) in db.execute("SELECT changes FROM entries"):
        for change in _loaded(changes):
            used |= {change.before.digest, change.after.digest}
    kept = [row[0] for row in db.execute("SELECT digest FROM contents")]
    db.executemany("DELETE FROM contents WHERE digest = ?", [(each,) for each in kept if each not in used])


def _dumped(changes: Sequence[Change]) -> str:
    # ASCII: names that are no Unicode pass as the halves of surrogate pairs that Python makes of them.
    # `asdict` copies deeply and takes ten times as long.
    return json.dumps(changes, default=vars, separators=(",", ":"))


def _loaded(text: str) -> tuple[Change, ...]:
    return tuple(
        Change(
            Place(*row["place"]),
            _state(row["before"]),
            _state(row["after"]),
            Place(*row["origin"]) if row["origin"] else None,
            row["trash"],
            row["reason"],
            tuple(row["undoes"]) if row["undoes"] else None,
        )
        for row in json.loads(text)
    )


def _state(row: dict[str, str | int]) -> FileState:
    return FileState(FileKind(row["kind"]), int(row["mode"]), str(row["digest"]), int(row["size"]))


def _joined(signature: Signature) -> str:
    return " ".join(map(str, signature))


def _split(text: str) -> Signature:
    time, size, inode, changed = map(int, text.split())
    return time, size, inode, changed


def change_between(place: Place, before: Sighting, after: Sighting, reason: str = "") -> Change | None:
    """Return the change of a path, None where there is none."""
    if before.state == after.state:
        return None
    if not reason and before.state.kind is FileKind.FILE and before.content is None:
        reason = "it was too large to keep" if before.state.size else "no earlier content is known"
    if not reason and FileKind.OTHER in (before.state.kind, after.state.kind):
        reason = "it is no file, link or directory"
    return Change(place, before.state, after.state, reason=reason)


def undone(entries: Sequence[Entry]) -> frozenset[tuple[int, int]]:
    """Return entry and number of each change that is taken back as things stand; undoing an undo counts."""
    taken: set[tuple[int, int]] = set()
    for entry in sorted(entries, key=lambda each: each.id, reverse=True):
        for number, change in enumerate(entry.changes):
            if change.undoes is not None and (entry.id, number) not in taken:
                taken.add(change.undoes)
    return frozenset(taken)


def with_state(entry: Entry, state: EntryState, changes: Sequence[Change], note: str = "") -> Entry:
    """Return the entry in another state."""
    return replace(entry, state=state, changes=tuple(changes), note=note or entry.note)
