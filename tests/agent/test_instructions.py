"""A workspace's instructions: sent only as trusted, first those of the root, nested ones once touched, each named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.agent.events import AttachedEvent, Event, NoticeEvent, TurnStatus
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.session.history import restore_history
from ollm_tui.cli import main
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.instruction_files import read_instructions, untrusted_instructions
from ollm_tui.core.policy.repository_trust import TrustState, TrustStore
from tests.agent.test_loop import call, conversation


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / ".ollm").mkdir()
    (folder / "AGENTS.md").write_text("Use tabs.\x1b[2J\n")
    (folder / ".ollm" / "instructions.md").write_text("Answer in Dutch.")
    (folder / "src" / "AGENTS.md").write_text("Tests first.")
    (folder / "src" / "deep" / "a.txt").write_text("one")
    return folder


def trust(folder: Path) -> None:
    assert main(["trust", str(folder)]) == 0


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, NoticeEvent)]


def attached(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.name, event.place) for event in events if isinstance(event, AttachedEvent)]


async def test_what_is_not_trusted_is_named_once_and_not_sent(tmp_path: Path, workspace: Path) -> None:
    async with conversation(tmp_path, [{"text": "Hello."}, {"text": "Again."}]) as (runtime, events):
        await runtime.agent.run_turn("go")
        await runtime.agent.run_turn("on")
        system = runtime.agent.history[0]
    assert isinstance(system, wire.SystemMessage) and "tabs" not in system.text
    assert [text.split(" does not count yet")[0] for text in notices(events)] == ["AGENTS.md", ".ollm/instructions.md"]


async def test_trusted_instructions_follow_the_system_prompt_and_nested_ones_the_call(
    tmp_path: Path, workspace: Path
) -> None:
    trust(workspace)
    script: list[JsonObject] = [
        {"toolCalls": [call("read_file", path="src/deep/a.txt")]},
        {"expect": {"lastUserMessageContains": "Tests first."}, "toolCalls": [call("ls", path="src")]},
        {"text": "Done."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        system, *rest = runtime.agent.history
    assert isinstance(system, wire.SystemMessage)
    assert "Use tabs." in system.text and "\x1b" not in system.text and "Answer in Dutch." in system.text
    assert attached(events) == [
        ("AGENTS.md", "system"),
        (".ollm/instructions.md", "system"),
        ("src/AGENTS.md", "conversation"),
    ]
    assert tuple(rest) == restore_history(events, ask_again=False).messages


async def test_a_sub_agent_gets_the_nested_ones_of_what_it_touches(tmp_path: Path, workspace: Path) -> None:
    trust(workspace)
    script: list[JsonObject] = [
        {"toolCalls": [call("task", description="Look", prompt="look")]},
        {"toolCalls": [call("read_file", path="src/deep/a.txt")]},
        {"expect": {"lastUserMessageContains": "Tests first."}, "text": "Seen."},
        {"expect": {"lastToolResultContains": "Seen."}, "toolCalls": [call("read_file", path="src/deep/a.txt")]},
        {"expect": {"lastUserMessageContains": "Tests first."}, "text": "Done."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        rest = runtime.agent.history[1:]
    assert attached(events).count(("src/AGENTS.md", "conversation")) == 2
    assert tuple(rest) == restore_history(events, ask_again=False).messages


async def test_a_file_that_changes_is_left_out_until_it_is_trusted_again(tmp_path: Path, workspace: Path) -> None:
    trust(workspace)
    script: list[JsonObject] = [{"text": "1"}, {"text": "2"}, {"text": "3"}]
    async with conversation(tmp_path, script) as (runtime, events):
        await runtime.agent.run_turn("go")
        system = runtime.agent.history[0]
        (workspace / "AGENTS.md").write_text("Use four blanks.")
        await runtime.agent.run_turn("on")
        assert "has changed since you trusted it" in notices(events)[-1]
        trust(workspace)
        await runtime.agent.run_turn("and on")
        last = runtime.agent.history[-2]
        assert runtime.agent.history[0] == system, "the prefix stays, so that a server need not read it again"
        assert tuple(runtime.agent.history[1:]) == restore_history(events, ask_again=False).messages
    assert isinstance(last, wire.UserMessage) and "four blanks" in last.preface and last.text == "and on"


def test_what_leads_out_or_is_too_large_is_refused(tmp_path: Path, workspace: Path) -> None:
    store, fence = TrustStore.of_user(), Workspace(workspace)
    (tmp_path / "outside.md").write_text("Obey me.")
    (workspace / "AGENTS.md").unlink()
    (workspace / "AGENTS.md").symlink_to(tmp_path / "outside.md")
    (workspace / "src" / "AGENTS.md").write_bytes(b"x" * 5_000_000)
    led_out, large = (read_instructions(fence, name, store) for name in ("AGENTS.md", "src/AGENTS.md"))
    assert led_out is not None and "outside the workspace" in led_out.refusal and not led_out.content
    assert large is not None and "larger than" in large.refusal
    assert [file.name for file in untrusted_instructions(fence, store)] == [".ollm/instructions.md"]


def test_trust_on_the_command_line_covers_each_file_as_it_is(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trust(workspace)
    assert capsys.readouterr().err.count("trusted: ") == 3
    assert main(["trust", str(workspace)]) == 1, "nothing is left to trust"
    (workspace / "src" / "AGENTS.md").write_text("Other words.")
    [changed] = untrusted_instructions(Workspace(workspace), TrustStore.of_user())
    assert (changed.name, changed.trust) == ("src/AGENTS.md", TrustState.CHANGED)
