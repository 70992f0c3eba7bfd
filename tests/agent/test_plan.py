"""An approved plan binds: what it names runs, what it does not asks, and no deny or floor is loosened."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.agent.events import ConfirmationRequestedEvent, ToolResultEvent, TurnStatus
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationResponse, TextPreview
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.policy.rules import Decision, Mode
from ollm_tui.core.tools.context import PlanGrant
from ollm_tui.runtime import Runtime
from ollm_tui.testing import Answer, answer_confirmations
from tests.agent.test_loop import call, conversation

PLAN = call(
    "propose_plan",
    steps=[
        {"task": "Write the parser", "paths": ["src/"], "commands": ["pytest *"]},
        {"task": "Note it", "tools": ["edit_file"], "paths": ["./NEWS.md"]},
    ],
)


@asynccontextmanager
async def planned(tmp_path: Path, *grants: PlanGrant) -> AsyncGenerator[Runtime]:
    async with conversation(tmp_path, []) as (runtime, _):
        (tmp_path / "ws" / "src").mkdir()
        for name in ("src/a.py", "other.py", "NEWS.md", ".env"):
            (tmp_path / "ws" / name).write_text("old")
        runtime.core.executor.adopt_plan(grants)
        yield runtime


async def test_approving_a_plan_writes_the_todos_ends_plan_mode_and_binds(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {"toolCalls": [PLAN]},
        {"toolCalls": [call("write_file", path="src/a.py", content="new", overwrite=True)]},
        {"toolCalls": [call("write_file", path="new.py", content="new")]},
        {"text": "Done."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        executor = runtime.core.executor
        (tmp_path / "ws" / "src").mkdir()
        (tmp_path / "ws" / "src" / "a.py").write_text("old")
        assert "propose_plan" not in {schema["name"] for schema in executor.offered_schemas()}
        executor.mode = Mode.PLAN
        assert "propose_plan" in {schema["name"] for schema in executor.offered_schemas()}
        answer_confirmations(runtime.core.bus, Answer(approved=True))
        assert await runtime.agent.run_turn("plan it") is TurnStatus.COMPLETED
        assert executor.mode is Mode.ASK
        assert [todo.task for todo in runtime.core.todos.list()] == ["Write the parser", "Note it"]
    asked = [event.request for event in events if isinstance(event, ConfirmationRequestedEvent)]
    assert [request.details.tool_name for request in asked] == ["propose_plan", "write_file"]
    preview = asked[0].details.preview
    assert isinstance(preview, TextPreview)
    for line in (
        "1. Write the parser",
        "allows: edit_file src/",
        "allows: shell pytest *",
        "allows: edit_file NEWS.md",
    ):
        assert line in preview.text
    assert "not in the plan" in asked[1].reason and "new.py" in str(asked[1].details.args)


async def test_what_the_person_strikes_is_not_allowed(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"toolCalls": [PLAN]}, {"text": "Done."}]
    async with conversation(tmp_path, script) as (runtime, events):

        def strike(notice: Notice) -> None:
            if isinstance(notice, ConfirmationRequested):
                request = notice.confirmation.request
                less: JsonObject = {"steps": [{"task": "Write the parser", "commands": ["pytest *"]}]}
                answer = ConfirmationResponse(id=request.id, approved=True, modified_args=less)
                if request.replaces is not None:
                    answer = ConfirmationResponse(id=request.id, approved=True)
                runtime.core.bus.respond_to_confirmation(answer)

        runtime.core.bus.subscribe(strike)
        assert await runtime.agent.run_turn("plan it") is TurnStatus.COMPLETED
        plan = runtime.core.executor.plan
        assert plan is not None and plan.grants == (PlanGrant("shell", command="pytest *"),)
    [result] = [event.result for event in events if isinstance(event, ToolResultEvent)]
    assert "shell pytest *" in result.llm_content and "src/" not in result.llm_content


@pytest.mark.parametrize(
    ("name", "arguments", "decision"),
    [
        ("edit_file", {"path": "src/a.py", "edits": [{"target": "old", "replacement": "new"}]}, Decision.ALLOW),
        ("edit_file", {"path": "src/../other.py", "edits": [{"target": "old", "replacement": "x"}]}, Decision.ASK),
        ("edit_file", {"path": "other.py", "edits": [{"target": "old", "replacement": "x"}]}, Decision.ASK),
        ("write_file", {"path": "src/new.py", "content": "x"}, Decision.ASK),
        ("edit_file", {"path": ".env", "edits": [{"target": "old", "replacement": "x"}]}, Decision.ASK),
        ("delete_file", {"path": "src/a.py"}, Decision.ASK),
        ("shell", {"command": "pytest -q"}, Decision.ALLOW),
        ("shell", {"command": "pytest -q; rm -rf src"}, Decision.ASK),
        ("shell", {"command": "make"}, Decision.ASK),
        ("read_file", {"path": "other.py"}, Decision.ALLOW),
    ],
)
async def test_a_plan_allows_exactly_what_it_names_and_floors_stay(
    tmp_path: Path, name: str, arguments: JsonObject, decision: Decision
) -> None:
    grants = (
        PlanGrant("edit_file", "src/"),
        PlanGrant("edit_file", ".env"),
        PlanGrant("delete_file", "src/"),
        PlanGrant("shell", command="pytest *"),
    )
    async with planned(tmp_path, *grants) as runtime:
        explained = await runtime.core.executor.explain(name, arguments, origin=Origin.MODEL)
    assert explained.decision is decision, explained.reason


async def test_a_deny_stays_a_deny(tmp_path: Path) -> None:
    async with planned(tmp_path, PlanGrant("edit_file", "src/")) as runtime:
        runtime.core.executor.mode = Mode.PLAN
        edit: JsonObject = {"path": "src/a.py", "edits": [{"target": "old", "replacement": "new"}]}
        explained = await runtime.core.executor.explain("edit_file", edit, origin=Origin.MODEL)
    assert explained.decision is Decision.DENY


@pytest.mark.parametrize("step", [{"paths": ["."]}, {"paths": ["../x"]}, {"commands": ["*"]}])
async def test_a_plan_for_everything_is_none(tmp_path: Path, step: JsonObject) -> None:
    async with conversation(tmp_path, []) as (runtime, _):
        result = await runtime.core.executor.execute("propose_plan", {"steps": [{"task": "t", **step}]})
    assert result.error is not None and result.error.type == "ValidationError"
