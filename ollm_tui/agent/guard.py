"""Bounds of a turn: its rounds, tokens and time, and the same call with the same result again and again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pydantic import JsonValue

from ollm_tui.agent.providers import provider as wire
from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.execution.calls import digest_of, raw_digest

REMARK_AT = 3
"""So many equal calls with equal results: the model is told."""

ASK_AT = 5
"""Before so many: the person is asked, and where nobody is there the turn ends."""

REMEMBERED_CALLS = 20
"""Calls of a turn among which equal ones are counted."""


class TurnLimitError(Exception):
    """A turn reached a bound; the message says which, and how to go on."""


@dataclass(frozen=True)
class TurnLimits:
    """Bounds of a turn; None is for no bound."""

    rounds: int = 50
    """Requests to the model."""
    tokens: int | None = None
    """Tokens of all requests and replies, as the server counts them."""
    seconds: float | None = None
    """Time, without that of waiting for a person."""


class TurnMeter:
    """What one turn has used of its limits."""

    def __init__(self, limits: TurnLimits, clock: Clock | None = None) -> None:
        self._limits = limits
        self._clock = clock or SystemClock()
        self._began = self._clock.monotonic()
        self._rounds = self._tokens = 0
        self._waited = 0.0

    def begin_round(self) -> None:
        """Count a request that is to be sent. Raises TurnLimitError."""
        limits = self._limits
        if self._rounds >= limits.rounds:
            raise TurnLimitError(
                f"The model asked for tools {limits.rounds} times in a row without coming to an end. Say how to go on."
            )
        if limits.tokens is not None and self._tokens >= limits.tokens:
            raise TurnLimitError(f"The turn took {self._tokens:,} of {limits.tokens:,} tokens. Say whether to go on.")
        spent = self._clock.monotonic() - self._began - self._waited
        if limits.seconds is not None and spent >= limits.seconds:
            raise TurnLimitError(f"The turn took {spent:.0f} of {limits.seconds:.0f} seconds. Say whether to go on.")
        self._rounds += 1

    def used(self, usage: wire.UsageReported | None) -> None:
        """Count the tokens of a reply."""
        if usage is not None:
            self._tokens += (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)

    def waited(self, results: list[ToolResult]) -> None:
        """Leave out the time in which the calls of a reply waited for a person together."""
        self._waited += max((result.waited_ms for result in results), default=0) / 1000


class RepetitionGuard:
    """Counts equal calls with equal results among the last calls of a turn."""

    def __init__(self) -> None:
        self._seen: deque[tuple[str, str]] = deque(maxlen=REMEMBERED_CALLS)

    def question(self, name: str, arguments: JsonValue) -> str:
        """Return why the person is to be asked before this call; empty where there is no reason."""
        call = _digest(name, arguments)
        results = [result for seen, result in self._seen if seen == call]
        same = results[-(ASK_AT - 1) :]
        if len(same) < ASK_AT - 1 or len(set(same)) > 1:
            return ""
        return (
            f"the same call came to the same result {len(same)} times in this turn: the model may be going in circles"
        )

    def noted(self, name: str, arguments: JsonValue, result: ToolResult) -> ToolResult:
        """Count a call and return its result, with a remark to the model where it repeats itself."""
        call, outcome = _digest(name, arguments), digest_of(result.llm_content)
        self._seen.append((call, outcome))
        times = self._seen.count((call, outcome))
        if times < REMARK_AT:
            return result
        remark = f"the same call had this same result {times} times: do something else, or say what keeps you from it"
        return result.model_copy(update={"notes": (*result.notes, remark)})

    def forget(self, name: str, arguments: JsonValue) -> None:
        """Begin to count a call anew, as the person let it go on."""
        call = _digest(name, arguments)
        kept = [each for each in self._seen if each[0] != call]
        self._seen = deque(kept, maxlen=REMEMBERED_CALLS)


def _digest(name: str, arguments: JsonValue) -> str:
    return digest_of(name, raw_digest(arguments))
