"""Hooks of the conversation, through `ollm-tui run` with a scripted model (contract section 11)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.base.results import JsonObject


def hook(event: str, command: str) -> str:
    return f"[[hooks]]\nevent = {event!r}\ncommand = {json.dumps(command)}\n"


class Conversation:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        config_dir().mkdir(parents=True, exist_ok=True)

    def with_hooks(self, *hooks: str) -> None:
        (config_dir() / "config.toml").write_text("".join(hooks))

    def run(self, prompt: str, *replies: JsonObject, code: int = 0) -> list[JsonObject]:
        script = self.folder / "script.json"
        script.write_text(json.dumps(replies))
        words = ["run", prompt, "--provider", "scripted", "--script", str(script), "--output", "jsonl"]
        assert main([*words, "-C", str(self.folder)]) == code
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def told(self) -> list[JsonObject]:
        return [json.loads(line) for line in (self.folder / "told").read_text().splitlines()]


@pytest.fixture
def conversation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Conversation:
    return Conversation(tmp_path, capsys)


def of_type(events: list[JsonObject], kind: str) -> list[JsonObject]:
    return [event for event in events if event["type"] == kind]


def test_a_message_is_kept_back_or_gets_company(conversation: Conversation) -> None:
    guard = 'grep -q password && { echo "no secrets" >&2; exit 2; }; echo "the branch is main"'
    conversation.with_hooks(hook("UserPromptSubmit", guard), hook("SessionStart", "echo begun"))
    events = conversation.run("the password is x", {"text": "never"}, code=1)
    assert of_type(events, "user_message") == of_type(events, "assistant_message") == []
    [error] = of_type(events, "error")
    assert "Your message was not sent: hook" in str(error["error"]) and "no secrets" in str(error["error"])

    reply: JsonObject = {"expect": {"lastUserMessageContains": "the branch is main"}, "text": "Fine."}
    events = conversation.run("hello", reply)
    assert [event["text"] for event in of_type(events, "attached")] == ["the branch is main", "begun"]


def test_a_hook_lets_the_model_go_on_but_not_for_ever(conversation: Conversation) -> None:
    once = "grep -q '\"stop_hook_active\": true' && exit 0; echo 'run the tests' >&2; exit 2"
    conversation.with_hooks(hook("Stop", once))
    reply: JsonObject = {"expect": {"lastUserMessageContains": "run the tests"}, "text": "Run."}
    events = conversation.run("change it", {"text": "Changed."}, reply)
    assert [event["text"] for event in of_type(events, "assistant_message")] == ["Changed.", "Run."]

    conversation.with_hooks(hook("Stop", "echo more >&2; exit 2"))
    events = conversation.run("change it", *({"text": f"{number}"} for number in range(12)))
    assert len(of_type(events, "assistant_message")) == 9
    assert any("go on 8 times" in str(event["text"]) for event in of_type(events, "notice"))


def test_a_session_tells_its_hooks_where_it_is(conversation: Conversation) -> None:
    note = "tr -d '\\n' >> told; echo >> told"
    conversation.with_hooks(*(hook(event, note) for event in ("SessionStart", "SessionEnd", "PostToolUse", "Stop")))
    call: JsonObject = {"toolCalls": [{"name": "ls", "arguments": {}}]}
    events = conversation.run("look", call, {"text": "Done."})
    [started] = of_type(events, "session_started")
    told = conversation.told()
    assert [each["hook_event_name"] for each in told] == ["SessionStart", "PostToolUse", "Stop", "SessionEnd"]
    assert {each["session_id"] for each in told} == {started["sessionId"]}
    assert Path(str(told[0]["transcript_path"])).exists()
    assert told[1]["tool_name"] == "LS"


def test_a_denial_in_the_middle_is_told_to_the_model(conversation: Conversation) -> None:
    conversation.with_hooks(hook("PreToolUse", "echo 'not here' >&2; exit 2"))
    call: JsonObject = {"toolCalls": [{"name": "ls", "arguments": {}}]}
    reply: JsonObject = {"expect": {"lastToolResultContains": "Denied by hook"}, "text": "I see."}
    events = conversation.run("look", call, reply)
    assert [event["text"] for event in of_type(events, "assistant_message")] == ["", "I see."]
