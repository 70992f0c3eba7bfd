"""Batch files: one JSON object a line, answered in order, a faulty row in its own place (contract section 0)."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from pydantic import JsonValue

from ollm_tui.cli.exits import UsageError


@dataclass(frozen=True)
class Row:
    """One row. `fault` says why it cannot be called; then the rest means nothing."""

    name: str = ""
    arguments: JsonValue = None
    id: JsonValue = None
    fault: str | None = None


def read_row(line: str) -> Row:
    """A row from a line: `name` and `arguments`, or `tool` and `params`; an `id` is handed back."""
    try:
        value: JsonValue = json.loads(line, strict=False)
    except (ValueError, RecursionError) as error:
        return Row(fault=f"the row is not JSON: {error}")
    if not isinstance(value, dict):
        return Row(fault="the row is not a JSON object")
    name = value.get("name", value.get("tool"))
    if not isinstance(name, str) or not name:
        return Row(id=value.get("id"), fault='the row has no "name"')
    return Row(name, value.get("arguments", value.get("params", {})), value.get("id"))


@contextmanager
def open_rows(path: str) -> Generator[TextIO]:
    """The file, or stdin for `-`. Raises UsageError where it cannot be read."""
    if path == "-":
        yield sys.stdin
        return
    try:
        file = open(path, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115  # closed below
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    with file:
        yield file
