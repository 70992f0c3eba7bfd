"""What programs read: JSON on stdout, one object a line, flushed as soon as it is known."""

from __future__ import annotations

import json
import sys

from pydantic import JsonValue

from ollm_tui.cli.exits import ExitCode, UsageError
from ollm_tui.core.base.results import JsonObject, ToolResult

DENIALS = frozenset({"POLICY_DENIED", "USER_DENIED"})


def print_json(value: JsonValue) -> None:
    """One line of JSON; text that is no valid Unicode is escaped, so that any reader takes it."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Words for people go to stderr."""
    print(text, file=sys.stderr, flush=True)


def parse_json(text: str, what: str) -> JsonValue:
    """Raises UsageError where it is no JSON."""
    try:
        value: JsonValue = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}. Quote it for the shell, or give - to read it.") from None
    return value


def given_or_stdin(text: str) -> str:
    """The argument itself, or all of stdin for `-`."""
    if text != "-":
        return text
    return sys.stdin.buffer.read().decode("utf-8-sig", "surrogateescape")


def exit_code_of(result: ToolResult) -> ExitCode:
    if result.error is None:
        return ExitCode.DONE
    return ExitCode.DENIED if result.error.code in DENIALS else ExitCode.FAILED


def result_line(result: ToolResult, row_id: JsonValue = None) -> JsonObject:
    """A result for stdout, with the row's own id in front where it had one."""
    shown = result.on_stdout()
    return shown if row_id is None else {"id": row_id, **shown}
