"""Hooks: what they may do to a call, and that an outage lets nothing pass (contract section 11)."""

from __future__ import annotations

import asyncio
import json
import time
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import JsonValue

from ollm_tui.agent.hooks.entries import Hook, HookEvent, HookSettings, read_hooks, with_scripts_checked
from ollm_tui.agent.hooks.hooks import Hooks
from ollm_tui.agent.hooks.process import run_hook
from ollm_tui.core import PolicyConfig, PolicyRule, ToolResult
from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.policy.repository_trust import TrustStore
from ollm_tui.core.policy.rules import Decision, Mode
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.core.tools.write_file import WRITE_FILE
from ollm_tui.testing import Answer, ToolHarness

VALIDATOR = """
import json, re, sys
RULES = [(r"^grep\\b(?!.*\\|)", "Use 'rg' (ripgrep) instead of 'grep' for better performance and features")]
input_data = json.load(sys.stdin)
tool_name = input_data.get("tool_name", "")
if tool_name != "Bash":
    sys.exit(0)
command = input_data.get("tool_input", {}).get("command", "")
issues = [message for pattern, message in RULES if re.search(pattern, command)]
if issues:
    for message in issues:
        print(f"* {message}", file=sys.stderr)
    # Exit code 2 blocks tool call and shows stderr to Claude
    sys.exit(2)
"""
"""The shape of the validator in Claude Code's documentation: it knows that program's names alone."""

EVERYTHING = PolicyConfig(rules=[PolicyRule(tool="*", action=Decision.ALLOW)])


def pre(command: str, **more: object) -> Hook:
    return Hook(HookEvent.PRE_TOOL_USE, command, **{"on_error": "ask", **more})  # type: ignore[arg-type]


def told(answer: dict[str, JsonValue]) -> str:
    """Return a command that answers with this JSON."""
    return f"cat <<'END'\n{json.dumps(answer)}\nEND"


def before(**answer: JsonValue) -> str:
    return told({"hookSpecificOutput": {"hookEventName": "PreToolUse", **answer}})


class Room:
    """A tool behind hooks."""

    def __init__(self, harness: ToolHarness, *hooks: Hook) -> None:
        self.harness = harness
        self.said: list[str] = []
        own = Hooks(HookSettings(hooks), harness.workspace)
        own.tell = self.said.append
        harness.executor.hooks = own


async def written(*hooks: Hook, answers: tuple[Answer, ...] = ()) -> tuple[ToolResult, list[str], str]:
    """Write a file behind these hooks; return the result, the reasons of questions, and what the file holds."""
    async with ToolHarness(WRITE_FILE, policy=EVERYTHING, answers=answers, plugin=False) as harness:
        Room(harness, *hooks)
        run = await harness.call(path="a.txt", content="one")
        file = harness.workspace / "a.txt"
        return run.result, [each.reason for each in run.confirmations], file.read_text() if file.exists() else ""


async def test_a_script_written_for_claude_code_denies(tmp_path: Path) -> None:
    script = tmp_path / "validator.py"
    script.write_text(VALIDATOR)
    async with ToolHarness(SHELL, policy=EVERYTHING, answers=[Answer()], plugin=False) as harness:
        Room(harness, pre(f"python3 {script}", matcher="Bash"))
        denied = (await harness.call(command="grep a b")).result
        assert denied.error is not None
        assert denied.error.message.startswith("Denied by hook validator.py: * Use 'rg' (ripgrep)")
        assert (await harness.call(command="true")).result.ok


@pytest.mark.parametrize(
    "command",
    [
        before(permissionDecision="deny", permissionDecisionReason="no"),
        told({"decision": "block", "reason": "no"}),
        told({"continue": False, "stopReason": "no"}),
        "echo no >&2; exit 2",
        'echo "{}"; echo no >&2; exit 2',
        'cat >/dev/null; echo \'{"reason": "no"}\'; exit 2',
    ],
)
async def test_every_way_to_say_no_denies(tmp_path: Path, command: str) -> None:
    yes = before(permissionDecision="allow", permissionDecisionReason="fine")
    result, asked, content = await written(pre(yes), pre(command), pre(yes))
    assert result.error is not None
    assert (result.error.code, asked, content) == ("POLICY_DENIED", [], "")
    assert ": no" in result.error.message


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 1", "exit code 1"),
        ("kill -9 $$", "signal 9"),
        ("/does/not/exist", "exit code 127"),
        ("echo '{broken'", "no JSON object"),
        ("sleep 60", "did not answer within 0.2 s"),
        ("(setsid sleep 60 &) ; sleep 60", "did not answer within 0.2 s"),
    ],
)
async def test_a_hook_that_fails_makes_the_call_ask(tmp_path: Path, command: str, said: str) -> None:
    timeout = 0.2 if "sleep" in command else 60.0
    result, [reason], content = await written(pre(command, timeout=timeout), answers=(Answer(),))
    assert said in reason
    assert (result.ok, content) == (True, "one")


async def test_an_outage_can_deny_or_be_ignored(tmp_path: Path) -> None:
    result, asked, _ = await written(pre("exit 1", on_error="deny"))
    assert (result.ok, asked) == (False, [])
    result, asked, _ = await written(pre("exit 1", on_error="ignore"))
    assert (result.ok, asked) == (True, [])
    assert "failed" in result.notes[0]


async def test_a_yes_answers_nothing_and_an_ask_holds_in_yolo(tmp_path: Path) -> None:
    async with ToolHarness(WRITE_FILE, answers=[Answer(approved=False)] * 2, plugin=False) as harness:
        Room(harness, pre(before(permissionDecision="allow")))
        assert len((await harness.call(path="a.txt", content="x")).confirmations) == 1
        harness.executor.mode = Mode.YOLO
        Room(harness, pre(before(permissionDecision="ask", permissionDecisionReason="look first")))
        [asked] = (await harness.call(path="a.txt", content="x")).confirmations
        assert "look first" in asked.reason


async def test_changed_arguments_are_validated_and_judged_anew(tmp_path: Path) -> None:
    changed = pre(before(updatedInput={"content": "two"}))
    result, _, content = await written(changed)
    assert (result.ok, content) == (True, "two")
    assert any("changed the arguments" in note for note in result.notes)
    for outside in ({"path": "../b.txt"}, {"file_path": "/etc/ollm"}):
        result, _, _ = await written(pre(before(updatedInput=outside)))
        assert result.error is not None
        assert result.error.type == "InvalidPathError"
    result, _, _ = await written(pre(before(updatedInput={"content": 5})))
    assert result.error is not None
    assert result.error.type == "ValidationError"


async def test_after_a_tool_its_words_reach_the_model(tmp_path: Path) -> None:
    after = Hook(HookEvent.POST_TOOL_USE, "cat > post.json; echo 'unused import os' >&2; exit 2", "Write|Edit")
    never = Hook(HookEvent.POST_TOOL_USE_FAILURE, "touch failed")
    async with ToolHarness(WRITE_FILE, policy=EVERYTHING, plugin=False) as harness:
        Room(harness, after, never)
        result = (await harness.call(path="a.py", content="import os")).result
        assert result.ok
        assert any("unused import os" in note for note in result.notes)
        facts = json.loads((harness.workspace / "post.json").read_text())
        assert facts["hook_event_name"] == "PostToolUse"
        assert facts["tool_input"]["file_path"] == "a.py"
        assert facts["tool_response"]["success"] is True
        assert not (harness.workspace / "failed").exists()


async def test_a_permission_hook_settles_a_question_before_it_is_put(tmp_path: Path) -> None:
    no = {
        "hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": "n"}}
    }
    async with ToolHarness(WRITE_FILE, plugin=False) as harness:
        Room(harness, Hook(HookEvent.PERMISSION_REQUEST, told(no), on_error="ask"))
        run = await harness.call(path="a.txt", content="x")
        assert (run.confirmations, run.result.error is None) == ((), False)


async def test_a_hook_has_no_secrets_no_terminal_and_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "k3y-value")
    facts: dict[str, JsonValue] = {"session_id": "s1"}
    script = (
        'echo "${MY_API_KEY:-none} $CLAUDE_PROJECT_DIR $OLLM_SESSION_ID"; tty < /dev/tty || true; '
        "head -c 10000000 /dev/zero | tr '\\0' x"
    )
    outcome = await run_hook(pre(script), facts, tmp_path, AbortSignal())
    assert outcome.text.startswith(f"none {tmp_path} s1")
    assert len(outcome.text) <= 1_000_000
    gone = tmp_path / "gone"
    assert not (await run_hook(pre("true"), facts, gone, AbortSignal())).failure


async def ended(pid: int) -> None:
    """Wait until a process runs no longer; where nobody collects it, it is still in the list."""
    state = Path(f"/proc/{pid}/stat")
    with suppress(FileNotFoundError, ProcessLookupError):  # gone, before or while it was read
        while state.read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
            await asyncio.sleep(0.01)


async def test_a_hook_that_leaves_a_child_is_not_waited_for(tmp_path: Path) -> None:
    outcome = await asyncio.wait_for(run_hook(pre("sleep 60 & echo $!"), {}, tmp_path, AbortSignal()), 20)
    await ended(int(outcome.text))


async def test_a_cancelled_call_ends_its_hook(tmp_path: Path) -> None:
    controller = AbortController()
    running = asyncio.ensure_future(run_hook(pre("echo $$ > pid; sleep 60"), {}, tmp_path, controller.signal))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    controller.abort()
    with pytest.raises(OperationCancelled):
        await running
    await ended(int((tmp_path / "pid").read_text()))


async def test_a_call_cancelled_while_its_hook_starts_ends_it_too(tmp_path: Path) -> None:
    controller, pid = AbortController(), tmp_path / "pid"
    running = asyncio.ensure_future(run_hook(pre("echo $$ > pid; sleep 60"), {}, tmp_path, controller.signal))
    for _ in range(5):
        await asyncio.sleep(0)
    while not pid.exists() or not pid.read_text().strip():
        time.sleep(0.01)  # noqa: ASYNC251  # the loop stands still: it does not know yet that the hook was started
    controller.abort()
    with pytest.raises(OperationCancelled):
        await running
    await ended(int(pid.read_text()))


def test_a_faulty_entry_voids_nothing_else_and_guards_all_the_same() -> None:
    text = """
[[hooks]]
event = "Nonsense"
command = "x"
[[hooks]]
event = "PreToolUse"
matcher = "Bash"
[[hooks]]
event = "Stop"
command = "done.sh"
timeout = "long"
[[hooks]]
event = "Stop"
command = "done.sh"
"""
    found = read_hooks(tomllib.loads(text), text, "c.toml")
    assert [line.split(":")[1] for line in found.findings] == ["2", "5", "8"]
    assert [(hook.event, bool(hook.fault)) for hook in found.hooks] == [("PreToolUse", True), ("Stop", False)]
    assert found.of(HookEvent.PRE_TOOL_USE, "write_file", "Write")


@pytest.mark.parametrize(
    ("matcher", "names", "heard"),
    [
        ("", ("shell", "Bash"), True),
        ("Bash", ("shell", "Bash"), True),
        ("shell", ("shell", "Bash"), True),
        ("Edit|Write", ("write_file", "Write"), True),
        ("Edit, Write", ("write_file", "Write"), True),
        ("Write", ("x", "TodoWrite"), False),
        ("mcp__.*", ("mcp__git__log", "mcp__git__log"), True),
    ],
)
def test_a_matcher_names_a_tool_as_a_whole(matcher: str, names: tuple[str, ...], heard: bool) -> None:
    assert pre("x", matcher=matcher).concerns(*names) is heard


def test_a_script_of_the_workspace_counts_as_it_was_trusted(tmp_path: Path) -> None:
    script = tmp_path / "guard.sh"
    script.write_text("exit 0")
    settings = HookSettings((pre("bash $CLAUDE_PROJECT_DIR/guard.sh"),))
    store = TrustStore(tmp_path / "trusted.json")
    [hook] = with_scripts_checked(settings, tmp_path, store).hooks
    assert "guard.sh is not as it was" in hook.fault
    store.trust_content(script, script.read_bytes())
    assert with_scripts_checked(settings, tmp_path, store) == settings
    script.write_text("exit 1")
    assert with_scripts_checked(settings, tmp_path, store).hooks[0].fault
