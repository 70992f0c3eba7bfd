"""Decision tables: calls with expected decisions, run like tests of a policy."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import AliasChoices, ConfigDict, Field, JsonValue, ValidationError

from ollm_tui.core.base.results import JsonObject, Wire
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.engine import Explanation
from ollm_tui.core.policy.rules import Mode


class DecisionTableError(ValueError):
    """A table that cannot be run; names the row and what is wrong."""


class ExpectedCall(Wire):
    """One row: a call and the expected decision; fields left out are not compared."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    tool: str = Field(min_length=1, validation_alias=AliasChoices("tool", "name"))
    arguments: JsonValue = Field(default_factory=dict, validation_alias=AliasChoices("arguments", "params"))
    expect: Literal["allow", "ask", "deny"]
    risk: Risk | None = None
    reason: str | None = None
    """Words that the reason has to contain."""
    mode: Mode | None = None
    id: JsonValue = None
    note: str | None = None
    """For whoever reads the table."""


class Difference(Wire):
    """A row whose decision differs."""

    row: int
    """From 1."""
    tool: str
    arguments: JsonValue
    expected: JsonObject
    found: JsonObject
    id: JsonValue = None


@dataclass(frozen=True)
class JudgedCase:
    """The decision found for a row; a call that cannot be judged is a deny."""

    decision: str
    risk: Risk
    reason: str

    @classmethod
    def of(cls, explanation: Explanation) -> JudgedCase:
        """Return the case for a policy's explanation."""
        return cls(explanation.decision.value, explanation.risk, explanation.reason)


def read_table(text: str, file: str) -> tuple[ExpectedCall, ...]:
    """Read rows from TOML (`[[case]]` tables) or JSON lines; raises DecisionTableError."""
    stripped = text.lstrip("\ufeff \t\r\n")
    rows = _json_rows(text, file) if stripped.startswith("{") else _toml_rows(text, file)
    if not rows:
        raise DecisionTableError(
            f"{file} holds no rows. Write [[case]] tables with tool, arguments and expect, or JSON lines."
        )
    found: list[ExpectedCall] = []
    for where, row in rows:
        try:
            found.append(ExpectedCall.model_validate(row))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "row"
            message = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
            raise DecisionTableError(f"{file}, {where}: {key}: {message}") from None
    return tuple(found)


async def run_table(
    rows: Sequence[ExpectedCall], judge: Callable[[ExpectedCall], Awaitable[JudgedCase]]
) -> list[Difference]:
    """Judge the rows in order; return those that differ."""
    found: list[Difference] = []
    for number, row in enumerate(rows, 1):
        difference = compare(number, row, await judge(row))
        if difference is not None:
            found.append(difference)
    return found


def compare(number: int, row: ExpectedCall, judged: JudgedCase) -> Difference | None:
    """Return how a row differs; None where it is as expected."""
    expected: JsonObject = {"decision": row.expect}
    differs = judged.decision != row.expect
    if row.risk is not None:
        expected["risk"] = row.risk.value
        differs = differs or judged.risk is not row.risk
    if row.reason is not None:
        expected["reason"] = row.reason
        differs = differs or row.reason.casefold() not in judged.reason.casefold()
    if not differs:
        return None
    found: JsonObject = {"decision": judged.decision, "risk": judged.risk.value, "reason": judged.reason}
    return Difference(row=number, tool=row.tool, arguments=row.arguments, expected=expected, found=found, id=row.id)


def _json_rows(text: str, file: str) -> list[tuple[str, JsonValue]]:
    rows: list[tuple[str, JsonValue]] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append((f"line {number}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise DecisionTableError(f"{file}, line {number}: not JSON: {error}") from None
    return rows


def _toml_rows(text: str, file: str) -> list[tuple[str, JsonValue]]:
    try:
        table: JsonObject = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise DecisionTableError(f"{file}: not TOML: {error}") from None
    cases = table.pop("case", [])
    if table:
        raise DecisionTableError(f"{file}: unknown key {next(iter(table))}. Rows stand in [[case]] tables.")
    if not isinstance(cases, list):
        raise DecisionTableError(f"{file}: case is no list. Write each row as a [[case]] table.")
    return [(f"case {number}", case) for number, case in enumerate(cases, 1)]
