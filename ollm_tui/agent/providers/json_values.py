"""Read JSON of other programs: typed, and tolerant of missing members."""

from __future__ import annotations

import json
from typing import cast

from pydantic import JsonValue

from ollm_tui.agent.providers.provider import JsonObject


def parse_json(text: str | bytes) -> JsonValue:
    """Return the value; raise ValueError for what is not JSON or nested too deeply."""
    try:
        # json.loads is typed to return Any; what it returns is JsonValue by its own definition
        return cast(JsonValue, json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def member(value: JsonValue, key: str) -> JsonValue:
    """Return a member; None where there is no object or no such member."""
    return value.get(key) if isinstance(value, dict) else None


def as_object(value: JsonValue) -> JsonObject:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str | None:
    """Return a string that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def as_count(value: JsonValue) -> int | None:
    """Return a whole number that is not negative, else None; booleans do not count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
