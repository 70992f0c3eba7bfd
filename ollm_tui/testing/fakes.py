"""A clock, an id source and a model that do what a test tells them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from pydantic import JsonValue

from ollm_tui.agent.providers.scripted import ScriptedProvider, parse_script

START = datetime(2026, 1, 31, 10, 41, tzinfo=UTC)
"""What a new `FakeClock` shows."""

Reply: TypeAlias = "str | dict[str, JsonValue]"
"""One reply of a scripted model: its text, or an object as in a script file (`text`, `toolCalls`, `expect`)."""


class FakeClock:
    """A `Clock` that stands still until it is moved."""

    def __init__(self, start: datetime = START, *, step: float = 0.0) -> None:
        """Start at `start`; each look at `now` moves it by `step` seconds."""
        self.seconds = 1_000.0
        """What `monotonic` returns; `now` moves along."""
        self._step = step
        self._origin = start - timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Return the seconds on the clock."""
        return self.seconds

    def now(self) -> datetime:
        """Return the moment in UTC, after moving by one step."""
        self.seconds += self._step
        return self._origin + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


class SequentialIds:
    """An `IdSource` that counts: `call-1`, `call-2`, `confirm-1`."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def new_id(self, kind: str) -> str:
        """Return the next id of this kind."""
        self._counts[kind] += 1
        return f"{kind}-{self._counts[kind]}"


def tool_call(name: str, **arguments: JsonValue) -> dict[str, JsonValue]:
    """Return a reply that makes one call and says nothing."""
    return {"text": "", "toolCalls": [{"name": name, "arguments": arguments}]}


def scripted_provider(*replies: Reply, model: str = "script") -> ScriptedProvider:
    """Return a provider that gives one reply a request, then empty ones.

    Raises:
        ScriptError: A reply has unknown keys or values; the message names its index and the key.
    """
    return ScriptedProvider(parse_script(script_values(replies)), model=model)


def script_values(replies: Sequence[Reply]) -> list[JsonValue]:
    """Return the replies as a script file has them."""
    return [{"text": reply} if isinstance(reply, str) else reply for reply in replies]
