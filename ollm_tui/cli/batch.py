"""Batch files: one JSON object a line, answered in order, a faulty row in its own place (contract section 0)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import JsonValue

from ollm_tui.cli.exits import UsageError


@dataclass(frozen=True)
class BatchRow:
    """One row. `fault` says why it cannot be called; then the rest means nothing."""

    name: str = ""
    arguments: JsonValue = None
    id: JsonValue = None
    fault: str | None = None


def read_row(line: str) -> BatchRow:
    """A row from a line: `name` and `arguments`, or `tool` and `params`; an `id` is handed back."""
    try:
        value: JsonValue = json.loads(line, strict=False)
    except (ValueError, RecursionError) as error:
        return BatchRow(fault=f"the row is not JSON: {error}")
    if not isinstance(value, dict):
        return BatchRow(fault="the row is not a JSON object")
    name = value.get("name", value.get("tool"))
    if not isinstance(name, str) or not name:
        return BatchRow(id=value.get("id"), fault='the row has no "name"')
    return BatchRow(name, value.get("arguments", value.get("params", {})), value.get("id"))


@contextmanager
def open_rows(path: str) -> Generator[int]:
    """A descriptor of the file, or of stdin for `-`. Raises UsageError where it cannot be read."""
    if path == "-":
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def lines_of(descriptor: int) -> AsyncGenerator[str]:
    """The lines with something on them as they come, as UTF-8 whatever the locale says.

    Waiting for the next one can be cancelled: a read in a thread would hold the process until the writer sends more.
    """
    rest = b""
    first = True
    while True:
        await _readable(descriptor)
        piece = os.read(descriptor, 65_536)
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole if piece else [*whole, rest]:
            text = line.decode("utf-8-sig" if first else "utf-8", "surrogateescape")
            first = False
            if text.strip():
                yield text
        if not piece:
            return


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    except PermissionError:
        return  # a regular file, which never keeps anybody waiting
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
