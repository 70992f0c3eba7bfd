"""Decision tables: what can be written in them, and what differs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.decision_tables import (
    DecisionTableError,
    ExpectedCall,
    JudgedCase,
    compare,
    read_table,
    run_table,
)
from ollm_tui.core.policy.rules import Mode

TOML = """
[[case]]
tool = "shell"
arguments = { command = "git status" }
expect = "allow"
risk = "low"

[[case]]
name = "edit_file"
params = { path = "a" }
expect = "ask"
mode = "plan"
reason = "changes a file"
note = "why this row is here"
"""


def test_rows_are_read_from_toml_and_from_json_lines() -> None:
    from_toml = read_table(TOML, "t.toml")
    rows = [
        {"tool": "shell", "arguments": {"command": "git status"}, "expect": "allow", "risk": "low"},
        {"name": "edit_file", "params": {"path": "a"}, "expect": "ask", "mode": "plan", "reason": "changes a file"},
    ]
    from_json = read_table("\n\n".join(json.dumps(row) for row in rows) + "\n", "t.jsonl")
    assert [(row.tool, row.arguments, row.expect, row.mode, row.risk) for row in from_toml] == [
        ("shell", {"command": "git status"}, "allow", None, Risk.LOW),
        ("edit_file", {"path": "a"}, "ask", Mode.PLAN, None),
    ]
    assert [row.model_copy(update={"note": None}) for row in from_toml] == list(from_json)


@pytest.mark.parametrize(("text", "said"), [
    ("", "holds no rows"),
    ("[[cases]]\ntool = 'ls'\n", "unknown key cases"),
    ("[[case]]\ntool = 'ls'\n", "case 1: expect"),
    ("[[case]]\ntool = 'ls'\nexpect = 'maybe'\n", "case 1: expect"),
    ("[[case]]\ntool = 'ls'\nexpect = 'ask'\nexpct = 1\n", "case 1: expct: unknown key"),
    ("[[case]\n", "not TOML"),
    ('{"tool": "ls", "expect": "ask"}\n{"tool"', "line 2: not JSON"),
    ('{"tool": "ls", "expect": "ask"}\n[1]', "line 2"),
    ("case = 1\n", "no list"),
])  # fmt: skip
def test_a_faulty_table_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(DecisionTableError, match=r"t\.toml") as caught:
        read_table(text, "t.toml")
    assert said in str(caught.value)


@given(st.sampled_from(["allow", "ask", "deny"]), st.sampled_from(["allow", "ask", "deny"]), st.text(), st.text())
def test_a_row_differs_exactly_where_it_says_something_else(expect: str, found: str, wanted: str, reason: str) -> None:
    row = ExpectedCall.model_validate({"tool": "ls", "expect": expect, "reason": wanted, "id": 7})
    difference = compare(3, row, JudgedCase(found, Risk.LOW, reason))
    agrees = expect == found and wanted.casefold() in reason.casefold()
    assert (difference is None) is agrees
    if difference is not None:
        assert (difference.row, difference.id, difference.found["decision"]) == (3, 7, found)


def test_a_risk_is_compared_where_it_is_given() -> None:
    row = ExpectedCall.model_validate({"tool": "ls", "expect": "allow", "risk": "high"})
    difference = compare(1, row, JudgedCase("allow", Risk.LOW, ""))
    assert difference is not None and difference.expected == {"decision": "allow", "risk": "high"}


async def test_every_row_is_judged_in_order() -> None:
    rows = read_table('{"tool":"a","expect":"allow"}\n{"tool":"b","expect":"deny"}\n{"tool":"c","expect":"ask"}', "t")
    judged: list[str] = []

    async def judge(row: ExpectedCall) -> JudgedCase:
        judged.append(row.tool)
        return JudgedCase("allow", Risk.LOW, "because")

    differences = await run_table(rows, judge)
    assert judged == ["a", "b", "c"] and [each.row for each in differences] == [2, 3]
