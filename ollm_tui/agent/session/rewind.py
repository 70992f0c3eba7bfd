"""Find what calls have changed since a message of a session, to take files back to the state they had then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from ollm_tui.agent.events import UserMessageEvent
from ollm_tui.agent.session.log import EVENTS
from ollm_tui.agent.session.reading import event_in, lineage
from ollm_tui.core.files.journal import Entry
from ollm_tui.core.files.journal_undo import Step, Undo, whole_entries


def turn_name(session_id: str, event_id: int) -> str:
    """Return the journal's name for what follows a message, until the next one."""
    return "t" + blake2b(f"{session_id} {event_id}".encode(), digest_size=4).hexdigest()[:7]


def plan_since(undo: Undo, folder: Path, before: int) -> list[Step]:
    """Plan to take back what was changed since a message of the session in `folder`. Raises OSError, StorageFailed.

    What the sessions changed that it was forked from counts too, also after the fork: it lies in the same files. What
    an undo took back since then that was there before comes back. Blocks.
    """
    messages = {one.name: list(_messages(one / EVENTS)) for one in lineage(folder)}
    own = messages[folder.name]
    moment = next((message.time for message in own if message.id == before), "")
    earlier = {turn_name(one, message.id) for one in messages for message in own if message.id < before}
    numbers = {message.id for found in messages.values() for message in found}
    turns = {turn_name(one, number) for one in messages for number in numbers}
    entries = undo.journal.entries()
    by_id = {entry.id: entry for entry in entries}

    def was_there(entry: Entry, number: int) -> bool:
        undoes = entry.changes[number].undoes
        taken = None if undoes is None else by_id.get(undoes[0])
        return taken is not None and taken.turn in turns and (taken.turn in earlier or taken.at < moment)

    since = [entry for entry in entries if entry.at >= moment and entry.turn not in earlier]
    changes = whole_entries(entry for entry in since if entry.turn in turns)
    undos = whole_entries(entry for entry in since if entry.is_undo)
    return undo.plan([*changes, *(one for one in undos if was_there(*one))])


def _messages(path: Path) -> Iterator[UserMessageEvent]:
    with suppress(OSError), path.open("rb") as lines:
        for line in lines:
            # Reading whole events of a long log takes seconds; few lines are messages.
            event = event_in(line) if b'"user_message"' in line else False
            if isinstance(event, UserMessageEvent):
                yield event
