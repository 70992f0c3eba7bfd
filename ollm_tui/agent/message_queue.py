"""Messages that the person typed while a turn runs; they go with its next request, or begin the next turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Watcher = Callable[[], None]


@dataclass(frozen=True)
class QueuedMessage:
    """A message that waits to be sent."""

    id: int
    text: str
    """As it is sent."""
    typed: str
    """As the person wrote it, without what its references stand for."""


class MessageQueue:
    """The waiting messages, in the order of sending; `held` ones wait until the person sends again."""

    def __init__(self) -> None:
        self.messages: tuple[QueuedMessage, ...] = ()
        self.held = False
        self._last_id = 0
        self._watcher: Watcher = _nobody

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` after each change."""
        self._watcher = watcher

    def add(self, text: str, typed: str | None = None) -> None:
        """Add a message at the end."""
        self._last_id += 1
        self._change((*self.messages, QueuedMessage(self._last_id, text, text if typed is None else typed)))

    def hold(self) -> None:
        """Keep the messages until `release`: the person stopped the turn that they were meant for."""
        self.held = bool(self.messages)
        self._watcher()

    def release(self) -> None:
        """Let the messages go."""
        self.held = False
        self._watcher()

    def take(self, message_id: int) -> QueuedMessage | None:
        """Remove and return a message; None where it has gone already."""
        found = next((message for message in self.messages if message.id == message_id), None)
        if found is not None:
            self._change(tuple(message for message in self.messages if message is not found))
        return found

    def move(self, message_id: int, step: int) -> None:
        """Move a message by `step` positions, within the queue."""
        at = next((at for at, message in enumerate(self.messages) if message.id == message_id), None)
        if at is None:
            return
        rest = [*self.messages[:at], *self.messages[at + 1 :]]
        rest.insert(max(0, at + step), self.messages[at])
        self._change(tuple(rest))

    def take_first(self) -> QueuedMessage | None:
        """Remove and return the first message; None where none may go."""
        return self.take(self.messages[0].id) if self.messages and not self.held else None

    def take_all(self) -> tuple[QueuedMessage, ...]:
        """Remove and return all messages that may go."""
        if self.held or not self.messages:
            return ()
        messages = self.messages
        self._change(())
        return messages

    def _change(self, messages: tuple[QueuedMessage, ...]) -> None:
        self.messages = messages
        self.held = self.held and bool(messages)
        self._watcher()


def _nobody() -> None:
    pass
