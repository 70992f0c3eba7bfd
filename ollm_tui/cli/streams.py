"""What commands read and write: JSON on stdout, words on stderr, batch rows, a valid configuration."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ollm_tui.cli.command_line import ExitCode, UsageError
from ollm_tui.core.base.results import JsonObject, ToolResult

if TYPE_CHECKING:
    from ollm_tui.core.storage.store import Store
    from ollm_tui.options import Options
    from ollm_tui.runtime import Attendance, Configuration, Core

DENIALS = frozenset({"POLICY_DENIED", "USER_DENIED"})


def print_json(value: JsonValue) -> None:
    """Print one line of JSON, escaped to ASCII so that any reader takes it."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print words for people on stderr."""
    print(text, file=sys.stderr, flush=True)


def say_notice(store: Store) -> None:
    """Open a store, and say what a person should know about it. Raises StorageFailed."""
    notice = store.open()
    if notice is not None:
        say(notice.message)


def parse_json(text: str, what: str) -> JsonValue:
    """Return the value, or raise UsageError saying that `what` is not JSON."""
    try:
        value: JsonValue = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}. Quote it for the shell, or give - to read it.") from None
    return value


def given_or_stdin(text: str) -> str:
    """Return the argument itself, or all of stdin for `-`."""
    if text != "-":
        return text
    return sys.stdin.buffer.read().decode("utf-8-sig", "surrogateescape")


def exit_code_of(result: ToolResult) -> ExitCode:
    """Return the exit code that tells how a call ended."""
    if result.error is None:
        return ExitCode.DONE
    return ExitCode.DENIED if result.error.code in DENIALS else ExitCode.FAILED


def result_line(result: ToolResult, row_id: JsonValue = None) -> JsonObject:
    """Return a result for stdout, led by the row's id where it had one."""
    shown = result.on_stdout()
    return shown if row_id is None else {"id": row_id, **shown}


def valid_configuration(options: Options) -> Configuration:
    """Return the configuration, or raise UsageError naming every error in it."""
    from ollm_tui.runtime import ConfigurationError, configure

    try:
        configuration = configure(options)
        configuration.require_valid()
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    return configuration


@asynccontextmanager
async def core_for_command(
    options: Options, attendance: Attendance, *, hint: str = "", judging_only: bool = False
) -> AsyncGenerator[Core]:
    """Open the core for one command; notices go to stderr."""
    from ollm_tui.runtime import open_core

    configuration = valid_configuration(options)
    async with open_core(configuration, attendance, hint=hint, report=say, judging_only=judging_only) as core:
        for notice in core.notices:
            say(notice)
        yield core


@dataclass(frozen=True)
class BatchRow:
    """One row of a batch file; with an `error` it cannot be called."""

    name: str = ""
    arguments: JsonValue = None
    id: JsonValue = None
    error: str | None = None


def read_row(line: str) -> BatchRow:
    """Read `name` and `arguments`, or `tool` and `params`, and an `id` that is handed back."""
    try:
        value: JsonValue = json.loads(line, strict=False)
    except (ValueError, RecursionError) as error:
        return BatchRow(error=f"the row is not JSON: {error}")
    if not isinstance(value, dict):
        return BatchRow(error="the row is not a JSON object")
    name = value.get("name", value.get("tool"))
    if not isinstance(name, str) or not name:
        return BatchRow(id=value.get("id"), error='the row has no "name"')
    return BatchRow(name, value.get("arguments", value.get("params", {})), value.get("id"))


@contextmanager
def open_rows(path: str) -> Generator[int]:
    """Open the file, or stdin for `-`, as a descriptor; raise UsageError where it cannot be read."""
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
    """Yield the lines that are not blank, as UTF-8 whatever the locale says.

    Waiting for the next one can be cancelled: a read in a thread would hold the process until the writer sends more.
    """
    rest = b""
    first = True
    while True:
        await _readable(descriptor)
        chunk = os.read(descriptor, 65_536)
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole if chunk else [*whole, rest]:
            text = line.decode("utf-8-sig" if first else "utf-8", "surrogateescape")
            first = False
            if text.strip():
                yield text
        if not chunk:
            return


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    except PermissionError:
        return  # a regular file, which is always readable
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def agreed(question: str) -> bool:
    """Return whether the person answers yes; without a terminal nobody does. Blocking."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
