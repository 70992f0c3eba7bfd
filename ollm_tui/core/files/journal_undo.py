"""Take back what the journal recorded: only its paths, and only where they still are as the call left them.

Nothing is lost by it: what a call created goes to the trash, what it replaced is in the journal. An undo is written
down before it begins and is an entry itself: one that is cut short is finished later, and each can be undone.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from threading import Thread

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import InvalidArguments
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.openat import O_PATH, make_directories
from ollm_tui.core.files.atomic import rename_without_replacing, replace_file, sync_directory
from ollm_tui.core.files.journal import UNDO, Change, Entry, EntryState, Journal, undone, with_state
from ollm_tui.core.files.journal_foresight import Foresight
from ollm_tui.core.files.journal_states import (
    ABSENT,
    FileKind,
    FileState,
    Place,
    look_at,
    look_in,
    opened_parent,
)
from ollm_tui.core.files.trash import Trash
from ollm_tui.core.storage.store import Store

_MOST_HELD = 200
"""Replaced files that are held open at once."""
_BUSY_SECONDS = 1.0
"""How long a call waits for another process's undo; longer, and it runs unrecorded."""


class Outcome(StrEnum):
    """What an undo makes of one change."""

    UNDO = "undo"
    DONE = "as before"
    """It is as it was before the call already."""
    CHANGED = "changed since"
    """What lies there is neither what the call left nor what was before it."""
    IMPOSSIBLE = "cannot be undone"


@dataclass(frozen=True)
class Step:
    """One change in an undo; `why` says why it is left alone."""

    entry: Entry
    number: int
    outcome: Outcome
    why: str = ""

    @property
    def change(self) -> Change:
        """What would be taken back."""
        return self.entry.changes[self.number]


class _LeftAloneError(Exception):
    """A step that is not taken; its text says why."""


class Undo:
    """Plans and takes back changes of one workspace's journal. Every call blocks; raises StorageFailed."""

    def __init__(self, journal: Journal, trash: Trash) -> None:
        self.journal = journal
        self._trash = trash
        self._replaced: list[int] = []
        """Files that were replaced, held open: freeing one takes ext4 a millisecond, for which nobody has to wait."""

    def find(self, wanted: str) -> list[Step]:
        """Plan for an entry, a call, a turn, or a path. Raises InvalidArguments where nothing has that name."""
        entries = self.journal.entries()
        taken = undone(entries)
        by_id = {entry.name: entry for entry in entries}
        chosen = [by_id[wanted]] if wanted in by_id else [one for one in entries if wanted in (one.call, one.turn)]
        if wanted and chosen:
            return self.plan([(entry, number) for entry in chosen for number in range(len(entry.changes))], taken)
        path = os.path.normpath(os.path.join(self.journal.workspace, wanted))
        for entry in reversed(entries):
            numbers = [n for n, change in enumerate(entry.changes) if path == change.place.path]
            if wanted and numbers and not entry.is_undo and (entry.id, numbers[0]) not in taken:
                return self.plan([(entry, numbers[0])], taken)
        known = ", ".join(entry.name for entry in entries[-5:]) or "none yet"
        raise InvalidArguments(
            f"Nothing recorded under {visible(wanted)}: no entry, call, turn or changed path has that name. "
            f"The newest entries: {known}; `ollm-tui undo list` names all."
        )

    def plan(self, chosen: Sequence[tuple[Entry, int]], taken: frozenset[tuple[int, int]] | None = None) -> list[Step]:
        """Say what undoing these changes, the newest first, would make of each. Changes nothing."""
        taken = undone(self.journal.entries()) if taken is None else taken
        ordered = sorted(chosen, key=lambda one: (one[0].id, one[1]), reverse=True)
        kept = self.journal.keeps(entry.changes[number].before.digest for entry, number in ordered)
        view = Foresight(self._trash)
        steps: list[Step] = []
        for entry, number in ordered:
            change = entry.changes[number]
            if (entry.id, number) in taken:
                steps.append(Step(entry, number, Outcome.DONE, "undone already"))
                continue
            outcome, why = self._judge(change, view, kept)
            if outcome is Outcome.UNDO:
                view.take_back(change)
            steps.append(Step(entry, number, outcome, why))
        return steps

    def apply(self, steps: Sequence[Step], title: str) -> tuple[Entry, list[Step]]:
        """Take back what the plan says; return the new entry, and the steps as they went."""
        with self._alone():
            self._finish_interrupted()
            going = [step for step in steps if step.outcome is Outcome.UNDO]
            entry = self.journal.begin("", UNDO, title, self._contents_to_keep(going))
            changes = [_inverse(step.change, (step.entry.id, step.number)) for step in going]
            entry = with_state(entry, EntryState.UNDOING, changes)
            self.journal.save(entry)
            return self._carry_out(entry, steps)

    def finish_interrupted(self) -> int:
        """Finish undos that a killed program began; return how many."""
        if not self.journal.entries(EntryState.UNDOING):
            return 0
        with self._alone():
            return self._finish_interrupted()

    def _finish_interrupted(self) -> int:
        waiting = self.journal.entries(EntryState.UNDOING)
        by_id = {entry.id: entry for entry in self.journal.entries()} if waiting else {}
        for entry in waiting:
            asked = [change.undoes for change in entry.changes if change.undoes is not None]
            steps = [Step(by_id[one], number, Outcome.UNDO) for one, number in asked if one in by_id]
            self._carry_out(entry, steps)
        return len(waiting)

    def _carry_out(self, entry: Entry, steps: Sequence[Step]) -> tuple[Entry, list[Step]]:
        done: list[Change] = []
        went: list[Step] = []
        for step in steps:
            result = step
            if step.outcome is Outcome.UNDO:
                try:
                    done += self._take_back(step)
                except _LeftAloneError as left:
                    result = replace(step, outcome=Outcome.CHANGED, why=str(left))
                except OSError as error:
                    result = replace(step, outcome=Outcome.IMPOSSIBLE, why=error.strerror or str(error))
            went.append(result)
            if len(self._replaced) >= _MOST_HELD:
                self._let_go()
        _bring_to_disk(done)
        entry = with_state(entry, EntryState.DONE, done)
        self.journal.save(entry)
        return entry, went

    def _judge(self, change: Change, view: Foresight, kept: frozenset[str]) -> tuple[Outcome, str]:
        if change.reason:
            return Outcome.IMPOSSIBLE, change.reason
        now = view.state(change.place, change.after)
        if change.origin is not None:
            origin = view.state(change.origin, change.after)
            if origin.same(change.after) and now.same(change.before):
                return Outcome.DONE, ""
            if origin.kind is not FileKind.ABSENT:
                return Outcome.CHANGED, f"{visible(change.origin.relative)} is taken by now"
        elif now == change.before:
            return Outcome.DONE, ""
        if not now.same(change.after):
            return Outcome.CHANGED, "removed since" if now.kind is FileKind.ABSENT else "changed since"
        return self._can_be_made(change, kept)

    def _can_be_made(self, change: Change, kept: frozenset[str]) -> tuple[Outcome, str]:
        before = change.before
        if change.trash and self._trash.holds(change.trash):
            return Outcome.UNDO, ""
        if before.kind is FileKind.FILE and before.digest not in kept and not before.same(change.after):
            return Outcome.IMPOSSIBLE, "its content is kept no longer"
        if before.kind is FileKind.DIRECTORY and change.trash:
            return Outcome.IMPOSSIBLE, "it is no longer in the trash"
        return Outcome.UNDO, ""

    def _contents_to_keep(self, steps: Sequence[Step]) -> list[bytes]:
        """Return what would be replaced and is not kept yet, so that the undo can be undone."""
        kept = self.journal.keeps(step.change.after.digest for step in steps)
        changes = (step.change for step in steps)
        missing = [one.place for one in changes if one.after.kind is FileKind.FILE and one.after.digest not in kept]
        return [content for place in missing if (content := look_at(place).content) is not None]

    # -- effects

    def _take_back(self, step: Step) -> list[Change]:
        """Take one change back; return the changes that this makes. Raises _LeftAloneError and OSError."""
        change, reference = step.change, (step.entry.id, step.number)
        outcome, why = self._judge(change, Foresight(self._trash), self.journal.keeps([change.before.digest]))
        if outcome is Outcome.DONE:  # by an undo that was cut short
            return [_as_it_is(change, _inverse(change, reference))]
        if outcome is not Outcome.UNDO:
            raise _LeftAloneError(why)
        made = [] if change.before.kind is FileKind.ABSENT else _made_parents(change.place)
        if change.origin is None:
            return [*made, self._put(change, reference)]
        made += _made_parents(change.origin)
        with opened_parent(change.place) as (directory, name), opened_parent(change.origin) as (above, origin):
            _require(directory, name, change.after)
            rename_without_replacing(directory, name, above, origin)
        moved = Change(change.origin, ABSENT, change.after, origin=change.place, undoes=reference)
        if change.before.kind is FileKind.ABSENT:
            return [*made, moved]
        return [*made, moved, self._put(replace(change, origin=None, after=ABSENT), reference)]

    def _put(self, change: Change, reference: tuple[int, int]) -> Change:
        """Put the state before in the place of the state after."""
        inverse = _inverse(change, reference)
        with opened_parent(change.place) as (directory, name):
            _require(directory, name, change.after)
            before, after = change.before, change.after
            if before.same(after):
                _change_mode(directory, name, before.mode)
            elif after.kind is FileKind.DIRECTORY and before.kind is FileKind.ABSENT and not after.digest:
                _require_empty(directory, name)
                item = self._trash.put(directory, name, Path(change.place.path), 0, AbortSignal())
                inverse = replace(inverse, trash=item.entry.id)
            elif before.kind is FileKind.ABSENT or not self._is_kept(after):
                item = self._trash.put(directory, name, Path(change.place.path), after.size, AbortSignal())
                inverse = replace(inverse, trash=item.entry.id)
                if before.kind is not FileKind.ABSENT:
                    self._make(directory, name, replace(change, after=ABSENT))
            else:
                self._make(directory, name, change)
        return _as_it_is(change, inverse)

    def _is_kept(self, state: FileState) -> bool:
        return state.kind is not FileKind.FILE or bool(self.journal.keeps([state.digest]))

    def _make(self, directory: int, name: str, change: Change) -> None:
        before, is_free = change.before, change.after.kind is FileKind.ABSENT
        if is_free and change.trash and self._trash.holds(change.trash):
            self._trash.put_back(change.trash, directory, name)
        elif before.kind is FileKind.FILE:
            content = self.journal.content(before.digest)
            if content is None:
                raise _LeftAloneError("its content is kept no longer")
            like = None if is_free else os.stat(name, dir_fd=directory, follow_symlinks=False)
            if like is not None and not stat.S_ISREG(like.st_mode):
                os.unlink(name, dir_fd=directory)  # a link, which the journal holds
                like = None
            if like is not None:
                with suppress(OSError):
                    self._replaced.append(os.open(name, O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory))
            replace_file(
                directory,
                name,
                [content],
                like=like,
                mode=before.mode & 0o1777,
                before_commit=None if like is None else lambda: _require(directory, name, change.after),
                sync=False,
            )
        elif before.kind is FileKind.LINK:
            temporary = f".ollm-undo-{secrets.token_hex(8)}.tmp"
            os.symlink(before.digest, temporary, dir_fd=directory)
            try:
                os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:
                os.unlink(temporary, dir_fd=directory)
                raise
        elif before.kind is FileKind.DIRECTORY and is_free:
            os.mkdir(name, before.mode & 0o777, dir_fd=directory)
        else:
            raise _LeftAloneError("another kind of file is there")

    def _let_go(self) -> None:
        held, self._replaced = self._replaced, []
        if held:
            Thread(target=lambda: [os.close(each) for each in held], name="ollm-undo-freeing", daemon=True).start()

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Let one undo at a time run, of all processes: whoever comes next may take it for interrupted."""
        path = self.journal.store.path.with_name("undoing.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
            self._let_go()


def _inverse(change: Change, reference: tuple[int, int]) -> Change:
    if change.origin is not None:
        return Change(change.origin, ABSENT, change.after, origin=change.place, undoes=reference)
    return Change(change.place, change.after, change.before, undoes=reference)


def _as_it_is(change: Change, inverse: Change) -> Change:
    """Return the inverse, in which a directory out of the trash is told from others: it may go there again, whole."""
    if not change.trash or change.before.kind is not FileKind.DIRECTORY:
        return inverse
    holds_something = bool(os.listdir(change.place.path))
    return replace(inverse, after=look_at(change.place, by_inode=holds_something).state)


def _require(directory: int, name: str, expected: FileState) -> None:
    """Raise _LeftAloneError where something else lies there by now."""
    by_inode = expected.kind is FileKind.DIRECTORY and bool(expected.digest)
    try:
        now = look_in(directory, name, by_inode=by_inode).state
    except FileNotFoundError:
        now = ABSENT
    if not now.same(expected):
        raise _LeftAloneError("changed at this moment")


def _made_parents(place: Place) -> list[Change]:
    """Make the directories above a path that are missing."""
    made = make_directories(place.root, place.relative.rpartition("/")[0])
    return [Change(at, ABSENT, look_at(at).state) for at in (Place(place.root, relative) for relative in made)]


def _bring_to_disk(changes: Sequence[Change]) -> None:
    """Sync files and directories together: one by one, as each is written, takes ten times as long."""
    directories: dict[str, Place] = {}
    for change in changes:
        for place in filter(None, (change.place, change.origin)):
            directories[os.path.dirname(place.path)] = place
        with suppress(OSError), opened_parent(change.place) as (directory, name):
            if change.after.kind is FileKind.FILE:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)
    for place in directories.values():
        with suppress(OSError), opened_parent(place) as (directory, _):
            sync_directory(directory)


def _change_mode(directory: int, name: str, mode: int) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _require_empty(directory: int, name: str) -> None:
    inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if os.listdir(inside):
            raise _LeftAloneError("other things lie in it by now")
    finally:
        os.close(inside)


def open_undo(state: Path, workspace: Path, clock: Clock | None = None) -> Undo:
    """Return the undo of a workspace, kept below the state directory; nothing is opened yet."""
    store = Store(state / "undo" / "undo.db", clock=clock, busy_seconds=_BUSY_SECONDS)
    return Undo(Journal(store, workspace, clock=clock), Trash(state, clock))


def whole_entries(entries: Iterable[Entry]) -> list[tuple[Entry, int]]:
    """Return all changes of entries, as `Undo.plan` takes them."""
    return [(entry, number) for entry in entries for number in range(len(entry.changes))]
