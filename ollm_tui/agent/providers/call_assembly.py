"""Assemble tool calls from the fragments that servers send.

Servers number fragments by index, by id, by both, by neither, or number every call 0; some repeat the name in each
fragment, or the whole call in the last one. The rules are in `CallAssembler.add`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ollm_tui.agent.providers.json_values import as_count, as_object, as_text, is_whole_object, read_arguments
from ollm_tui.agent.providers.provider import AssistantMessage, Message, ToolCall
from ollm_tui.core.base.results import JsonObject

MAX_CALLS = 1_000
"""Most calls of one reply that are answered; the rest is dropped (a model that repeats itself without end)."""


@dataclass(frozen=True)
class CallFragment:
    """One fragment of a call; None is what it did not say."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | JsonObject | None = None


def read_fragment(piece: JsonObject) -> CallFragment:
    """Read one member of `tool_calls`, in either wire format."""
    function = as_object(piece.get("function"))
    arguments = function.get("arguments")
    return CallFragment(
        index=as_count(piece.get("index")),
        id=as_text(piece.get("id")),
        name=as_text(function.get("name")),
        arguments=arguments if isinstance(arguments, str | dict) else None,
    )


@dataclass
class _Slot:
    index: int | None
    id: str | None
    name: str = ""
    text: list[str] = field(default_factory=list[str])
    characters: int = 0
    whole: JsonObject | None = None
    text_before: int = 0

    def raw(self) -> str:
        return "".join(self.text)

    def is_complete(self) -> bool:
        return self.whole is not None or is_whole_object(self.raw())


class CallIds:
    """Gives every call a unique id: the server's where it is new here, else `call_<n>`."""

    def __init__(self, history: Iterable[Message] = ()) -> None:
        self._used = {
            call.id for message in history if isinstance(message, AssistantMessage) for call in message.tool_calls
        }

    def take(self, offered: str | None = None) -> str:
        """Return `offered` where it is new, else a new id."""
        chosen = offered if offered and offered not in self._used else None
        number = len(self._used) + 1
        while chosen is None:
            chosen = f"call_{number}" if f"call_{number}" not in self._used else None
            number += 1
        self._used.add(chosen)
        return chosen


class CallAssembler:
    """Collects the fragments of one reply's calls, in the order in which calls began."""

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._slots: list[_Slot] = []
        self.text_before = 0
        """Characters of the answer so far: those before a call that begins now."""
        self.overfull = False
        """Whether there were calls beyond `MAX_CALLS`."""

    @property
    def empty(self) -> bool:
        """Whether no call has begun."""
        return not self._slots

    def add(self, fragment: CallFragment) -> tuple[str, int] | None:
        """Add a fragment; return name and argument characters so far of its call.

        It belongs to the last call with its index, else the one with its id, else the last one. A different id opens
        a new call even where the index repeats, and so does a new name, or the same name without an id, once the
        arguments before it are whole. Return None for fragments beyond `MAX_CALLS`.
        """
        return self._fill(self._slot_for(fragment), fragment)

    def add_whole(self, fragment: CallFragment) -> tuple[str, int] | None:
        """Add a fragment that is a whole call."""
        return self._fill(None, fragment)

    def _fill(self, slot: _Slot | None, fragment: CallFragment) -> tuple[str, int] | None:
        if slot is None:
            if len(self._slots) >= MAX_CALLS:
                self.overfull = True
                return None
            slot = _Slot(fragment.index, fragment.id or None, text_before=self.text_before)
            self._slots.append(slot)
        slot.id = slot.id or fragment.id or None
        _take_name(slot, fragment.name)
        _take_arguments(slot, fragment.arguments)
        return slot.name, slot.characters

    def finish(self, *, cut: bool = False) -> tuple[ToolCall, ...]:
        """Return the calls; `cut` marks a reply that ended at a limit, so no half call runs."""
        return tuple(self._call(slot, cut=cut) for slot in self._slots)

    def _slot_for(self, fragment: CallFragment) -> _Slot | None:
        slot = self._candidate(fragment)
        if slot is None:
            return None
        if fragment.id and slot.id:
            return slot if fragment.id == slot.id else None
        if fragment.name and slot.name and slot.is_complete():
            return None
        return slot

    def _candidate(self, fragment: CallFragment) -> _Slot | None:
        if fragment.index is not None:
            return next((slot for slot in reversed(self._slots) if slot.index == fragment.index), None)
        if fragment.id:
            return next((slot for slot in self._slots if slot.id == fragment.id), None) or self._last_nameless()
        return self._slots[-1] if self._slots else None

    def _last_nameless(self) -> _Slot | None:
        return self._slots[-1] if self._slots and self._slots[-1].id is None else None

    def _call(self, slot: _Slot, *, cut: bool) -> ToolCall:
        read = read_arguments(slot.raw() if slot.whole is None else slot.whole, cut=cut)
        error = read.error if slot.name else "the call has no tool name; send it again with one"
        return ToolCall(
            id=self._ids.take(slot.id),
            name=slot.name,
            arguments=read.value,
            error=error,
            repaired=read.repaired,
            text_before=slot.text_before,
        )


def _take_name(slot: _Slot, name: str | None) -> None:
    """Set the name; grown or repeated names replace it, a further part is appended."""
    name = (name or "").strip()
    if not name or slot.name == name:
        return
    if not slot.name or name.startswith(slot.name):
        slot.name = name
    elif not slot.characters:
        slot.name += name


def _take_arguments(slot: _Slot, arguments: str | JsonObject | None) -> None:
    if isinstance(arguments, dict):
        slot.whole = arguments
        slot.characters = len(str(arguments))
    elif arguments and not _repeats_all(slot, arguments):
        slot.text.append(arguments)
        slot.characters += len(arguments)


def _repeats_all(slot: _Slot, arguments: str) -> bool:
    """Return whether this is the whole call once more, as some servers end one."""
    return len(arguments) == slot.characters and arguments == slot.raw() and slot.is_complete()
