"""An agent of its own behind our conversation, terminal and queue."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ErrorEvent,
    Event,
    NoticeEvent,
    ReasoningDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnStatus,
)
from ollm_tui.agent.foreign import agent as agent_module
from ollm_tui.agent.foreign import process as process_module
from ollm_tui.agent.session.history import restore_history
from ollm_tui.core.bus.confirmation import CommandPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, ConfigurationError, Runtime, open_runtime
from ollm_tui.testing import Answer, answer_confirmations
from tests.processes import children_that

pytest.importorskip("acp")
FAKE = Path(__file__).parents[2] / "data" / "acp_agent.py"


@asynccontextmanager
async def with_agent(
    tmp_path: Path, mode: str, attendance: Attendance = Attendance.PERSON, **options: str
) -> AsyncGenerator[tuple[Runtime, list[Event]]]:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    command = shlex.join([sys.executable, "-I", str(FAKE), mode])
    async with open_runtime(Options(workspace=workspace, agent=command, **options), attendance) as runtime:  # type: ignore[arg-type]
        events: list[Event] = []
        runtime.stream.subscribe(events.append)
        runtime.begin()
        yield runtime, events


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, AssistantMessageEvent))


def notices(events: list[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, NoticeEvent))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_whole_turn_with_a_permission_a_plan_and_a_thought(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "good") as (runtime, events):
        asked = answer_confirmations(runtime.core.bus, Answer())
        status = await runtime.agent.run_turn("build it")
        assert status is TurnStatus.COMPLETED, events
        assert [(todo.task, todo.status.value) for todo in runtime.core.todos.list()] == [
            ("Look", "in_progress"),
            ("Act", "pending"),
        ]
    [request] = asked
    assert request.details.description == "Run make" and request.details.risk is Risk.HIGH
    preview = request.details.preview
    assert isinstance(preview, CommandPreview) and preview.command == "make all"
    assert "outside every cage" in preview.warnings[0]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDeltaEvent)) == "Let me see."
    shown = [event for event in events if isinstance(event, AssistantMessageEvent | ToolCallEvent | ToolResultEvent)]
    assert [event.type for event in shown] == ["assistant_message", "tool_call", "tool_result", "assistant_message"]
    result = shown[2]
    assert isinstance(result, ToolResultEvent) and result.result.ok and result.result.llm_content == "make said yes"
    restored = restore_history(events, ask_again=False)
    assert [type(one).__name__ for one in restored.messages][-1] == "AssistantMessage" and not restored.waiting


async def test_a_no_is_told_and_its_reason_is_the_next_prompt(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "good") as (runtime, events):
        asked = answer_confirmations(
            runtime.core.bus, Answer(approved=False, reason="use ninja"), Answer(approved=False)
        )
        assert await runtime.agent.run_turn("build it") is TurnStatus.COMPLETED
    results = [event.result for event in events if isinstance(event, ToolResultEvent)]
    assert len(asked) == 2 and [one.ok for one in results] == [False, False]
    assert len({event.call_id for event in events if isinstance(event, ToolCallEvent)}) == 2, "its own id repeats"
    assert [event.type for event in events].count("user_message") == 2
    assert any(event.type == "user_message" and event.text == "use ninja" for event in events)


async def test_its_files_go_through_our_tools_and_rules(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "files") as (runtime, events):
        (tmp_path / "ws" / "a.txt").write_text("one\ntwo\nthree\n")
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert "'content': 'two\\n'" in said(events) and (tmp_path / "ws" / "b.txt").read_text() == "from the agent\n"
    assert "outside" in said(events) and "--add-dir" in said(events)


async def test_its_commands_run_in_our_terminal_and_are_asked_about(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "terminal") as (runtime, events):
        asked = answer_confirmations(runtime.core.bus, Answer())
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert [one.details.tool_name for one in asked] == ["shell"]
    ended, output = json.loads(said(events))
    assert ended["exitCode"] == 3 and output["output"].strip() == "from a b" and output["exitStatus"]["exitCode"] == 3


@pytest.mark.parametrize(
    ("mode", "answers", "answer"),
    [
        ("untold", (True,), "yes"),
        ("twice", (True, False), "yes no"),
        ("noreject", (False,), "cancelled"),
        ("noreject", (True,), "yes"),
    ],
)
async def test_strange_questions_get_the_persons_answer_each(
    tmp_path: Path, mode: str, answers: tuple[bool, ...], answer: str
) -> None:
    async with with_agent(tmp_path, mode) as (runtime, events):
        asked = answer_confirmations(runtime.core.bus, *(Answer(approved=one) for one in answers))
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert said(events) == answer and len(asked) == len(answers)
    assert sum(isinstance(event, ToolResultEvent) for event in events) == (1 if mode == "twice" else 0)


async def test_what_the_policy_denies_is_refused_without_a_question(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'default_action = "ask"\n[[rules]]\ntool = "write_file"\naction = "deny"\nmessage = "hands off"\n'
    )
    async with with_agent(tmp_path, "denied", policy_file=policy) as (runtime, events):  # type: ignore[arg-type]
        asked = answer_confirmations(runtime.core.bus, Answer())
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert said(events) == "no" and not asked and "hands off" in notices(events)


async def test_without_a_person_every_question_is_refused(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "good", Attendance.NOBODY) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert "make said no" in "".join(event.result.llm_content for event in events if isinstance(event, ToolResultEvent))
    assert "nobody is there to answer" in notices(events)


async def test_an_interrupted_turn_withdraws_its_question(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "stuck") as (runtime, events):
        turn = asyncio.ensure_future(runtime.agent.run_turn("go"))
        await until(runtime.core.bus.pending)
        assert runtime.core.bus.confirmations()[0].source == "python, an agent of its own".replace(
            "python", Path(sys.executable).name
        )
        runtime.agent.interrupt()
        assert await turn is TurnStatus.INTERRUPTED
        assert not runtime.core.bus.pending()
        assert said(events) == "I am busy. cancelled True"


async def test_an_agent_that_does_not_stop_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "CANCEL_SECONDS", 0.2)
    async with with_agent(tmp_path, "deaf") as (runtime, events):
        turn = asyncio.ensure_future(runtime.agent.run_turn("go"))
        await until(lambda: any(event.type == "text_delta" for event in events))
        runtime.agent.interrupt()
        assert await turn is TurnStatus.INTERRUPTED
        assert said(events) == "I hear nothing. "


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("exit", "not logged in"),
        ("crash", "no licence"),
        ("login", "Authentication required"),
        ("newer", "speaks version 9"),
        ("mute", "within 0.5 s"),
    ],
)
async def test_an_agent_that_fails_is_a_turn_that_failed_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    if mode == "mute":
        monkeypatch.setattr(process_module, "START_SECONDS", 0.5)
    async with with_agent(tmp_path, mode) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.FAILED
        error = next(event.error.message for event in events if isinstance(event, ErrorEvent))
        assert words in error and "/retry" in error and "\x1b" not in error
        assert await runtime.agent.retry() is TurnStatus.FAILED


async def test_hostile_words_stay_words_and_junk_is_passed_over(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "hostile") as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    [call] = [event for event in events if isinstance(event, ToolCallEvent)]
    assert "\x1b" not in call.name + call.call_id and "\u202e" not in call.name


async def test_a_refusal_is_told_and_references_go_along(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "refuses") as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        assert "refuses to go on" in notices(events)
        assert not await runtime.agent.compact()
    async with with_agent(tmp_path, "echo") as (runtime, events):
        (tmp_path / "ws" / "n.txt").write_text("what n says")
        await runtime.agent.run_turn("look at @n.txt")
        assert "what n says" in said(events) and "look at @n.txt" in said(events)
        events.clear()
        await runtime.agent.run_turn("again")
        assert said(events) == "heard: again", "what was sent before is not sent twice"


async def test_an_agent_deaf_to_the_end_goes_when_this_program_is_killed(tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-I", str(FAKE), "deaf"])
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ollm_tui", "run", "go", "--agent", command),
        cwd=tmp_path,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert run.stdout is not None
    async with asyncio.timeout(60):
        assert b"I hear nothing" in await run.stdout.readuntil(b"nothing")
    [agent] = children_that(lambda line: str(FAKE) in line, run.pid)
    run.kill()
    await run.wait()
    await until(lambda: not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE)


async def test_another_session_is_another_one_for_the_agent_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLM_API_KEY", "k3y")
    async with with_agent(tmp_path, "count") as (runtime, events):
        for _ in range(2):
            await runtime.agent.run_turn("go")
        runtime.agent.restore([])
        await runtime.agent.run_turn("go")
    assert said(events) == "1 []2 []1 []"


@pytest.mark.parametrize(("command", "words"), [("", "needs a command"), ("'open", "no command line")])
async def test_a_command_that_is_none(tmp_path: Path, command: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        async with open_runtime(Options(workspace=tmp_path, agent=command), Attendance.PERSON):
            pass


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async with open_runtime(Options(workspace=tmp_path, agent="/nowhere/agent"), Attendance.PERSON) as runtime:
        events: list[Event] = []
        runtime.stream.subscribe(events.append)
        assert await runtime.agent.run_turn("go") is TurnStatus.FAILED
    assert "cannot be started" in next(event.error.message for event in events if isinstance(event, ErrorEvent))
