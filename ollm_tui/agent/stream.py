"""The event stream: turns the bus's notices into events and hands events to readers."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ollm_tui.agent.events import (
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    Event,
    TodosChangedEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
)
from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import (
    ConfirmationHeld,
    ConfirmationRequested,
    ConfirmationSettled,
    Notice,
    OutputProduced,
    TodosChanged,
)

log = logging.getLogger(__name__)

Reader = Callable[[Event], None]


class EventStream:
    """Numbers and stamps events and hands them to all readers, in order, on one event loop."""

    def __init__(self, bus: MessageBus, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._last_id = 0
        self._todos: TodosChanged | None = None
        self._readers: dict[object, Reader] = {}
        self._tasks: dict[str, str] = {}
        """The open calls of sub-agents, each with the call that began its sub-agent."""
        self._unsubscribe = bus.subscribe(self._on_notice)

    def close(self) -> None:
        """Stop listening to the bus."""
        self._unsubscribe()

    def subscribe(self, reader: Reader) -> Callable[[], None]:
        """Call `reader`, which must be quick, with every event; return how to stop.

        What a reader raises is logged and does not reach the others.
        """
        key = object()
        self._readers[key] = reader

        def unsubscribe() -> None:
            self._readers.pop(key, None)

        return unsubscribe

    def go_on_after(self, event_id: int) -> None:
        """Go on numbering there, for another session; its first list of todos is whole again."""
        self._last_id, self._todos = event_id, None

    def publish(self, event: Event) -> Event:
        """Stamp an event, hand it to all readers, and return it."""
        self._last_id += 1
        changes: dict[str, object] = {"id": self._last_id, "time": iso_time(self._clock.now())}
        if self._tasks and isinstance(event, ConfirmationRequestedEvent | ConfirmationSettledEvent | ToolOutputEvent):
            changes["task"] = self._tasks.get(event.call_id)
        stamped = event.model_copy(update=changes)
        if event.task is not None and isinstance(event, ToolCallEvent):
            self._tasks[event.call_id] = event.task
        elif isinstance(event, ToolResultEvent):
            self._tasks.pop(event.call_id, None)
        for reader in list(self._readers.values()):
            try:
                reader(stamped)
            except Exception:  # one failing reader must not silence the others
                log.exception("a reader of the stream failed on %s", stamped.type)
        return stamped

    def _on_notice(self, notice: Notice) -> None:
        match notice:
            case ConfirmationRequested(confirmation) | ConfirmationSettled(confirmation) if (
                confirmation.of_other_session
            ):
                pass  # that one records it
            case ConfirmationRequested(confirmation):
                request = confirmation.request
                self.publish(ConfirmationRequestedEvent(call_id=request.call_id, request=request))
            case ConfirmationSettled(confirmation, response):
                self.publish(
                    ConfirmationSettledEvent(
                        call_id=confirmation.call_id,
                        request_id=confirmation.id,
                        outcome=confirmation.state,
                        by=confirmation.settled_by,
                        reason=response.reason if response else None,
                        modified_args=response.modified_args if response else None,
                    )
                )
            case OutputProduced(call_id, text):
                self.publish(ToolOutputEvent(call_id=call_id, text=text))
            case TodosChanged():
                # changes are made in any thread; one that comes behind a later one is part of that
                if self._todos is None or notice.revision > self._todos.revision:
                    before, self._todos = self._todos, notice
                    self.publish(TodosChangedEvent.between(before, notice))
            case ConfirmationHeld():
                pass  # live state that the screen reads from the bus
