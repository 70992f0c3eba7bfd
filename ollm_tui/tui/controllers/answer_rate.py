"""How fast the model answers: the tokens of a reply over the time from its first piece to its end."""

from __future__ import annotations

from collections.abc import Callable

from ollm_tui.agent.events import AssistantMessageEvent, Event, ReasoningDeltaEvent, TextDeltaEvent, UsageEvent

LEAST_SECONDS = 0.2
"""A reply that came at once says nothing about the model: it was sent whole."""


class AnswerRate:
    """Measures the session's own replies, not those of sub-agents."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began: float | None = None
        self._seconds = 0.0

    def follow(self, event: Event) -> None:
        """Take the time of an event of the stream."""
        match event:
            case TextDeltaEvent(task=None) | ReasoningDeltaEvent(task=None):
                if self._began is None:
                    self._began = self._now()
            case AssistantMessageEvent(task=None):
                self._seconds = 0.0 if self._began is None else self._now() - self._began
                self._began = None
            case _:
                pass

    def of(self, usage: UsageEvent) -> float | None:
        """Return the tokens per second of the reply that `usage` is about; None where they cannot be told."""
        tokens, seconds, self._seconds = usage.completion_tokens, self._seconds, 0.0
        return tokens / seconds if tokens and seconds >= LEAST_SECONDS else None
