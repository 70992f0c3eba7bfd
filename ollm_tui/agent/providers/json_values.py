"""Reads JSON that somebody else wrote: typed, tolerant of missing members, never of wrong ones."""

from __future__ import annotations

import json
from typing import cast

from pydantic import JsonValue

from ollm_tui.agent.providers.provider import JsonObject


def parse_json(text: str | bytes) -> JsonValue:
    """Raises ValueError for what is not JSON or nested beyond reason."""
    try:
        # json.loads is typed to return Any; what it returns is JsonValue by its own definition
        return cast(JsonValue, json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def member(value: JsonValue, key: str) -> JsonValue:
    """The member of an object, None where there is no object or no such member."""
    return value.get(key) if isinstance(value, dict) else None


def as_object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str | None:
    """A string that says something, else None."""
    return value if isinstance(value, str) and value else None


def as_count(value: JsonValue) -> int | None:
    """A whole number that is not negative, else None; true and false are no numbers."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
