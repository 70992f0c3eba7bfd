"""Commands and skills kept as files (contract section 11)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollm_tui.agent.prompt_files import RESERVED, PromptFileKind, catalogue, read_prompt_files
from ollm_tui.cli import main
from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.repository_trust import TrustStore
from ollm_tui.tui.slash_commands import SlashCommand, SlashCommands

REVIEW = """---
description: Review what was changed
argument-hint: "[file]"
allowed-tools: Bash(git diff:*)
---
Review $ARGUMENTS. Here is the change:
!`echo one two`
"""

SKILL = """---
name: pdf-forms
description: Fill in PDF forms. Use when the person asks for a form.
allowed-tools: Bash
---
# PDF forms
1. Look at scripts/fill.py.
"""


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def trusted(folder: Path, *paths: Path) -> TrustStore:
    store = TrustStore(folder / "trusted.json")
    for path in paths:
        store.trust_content(path, path.read_bytes())
    return store


def test_both_forms_of_commands_and_skills_are_read_once_trusted(tmp_path: Path) -> None:
    root = tmp_path / "w"
    files = [
        put(root / ".claude/commands/git/review.md", REVIEW),
        put(root / ".ollm/commands/plan.toml", 'description = "Plan it"\nprompt = "Plan {{args}} with @{README.md}"'),
        put(root / ".agents/skills/pdf-forms/SKILL.md", SKILL),
    ]
    put(config_dir() / "commands/mine.md", "Say hello.")
    store = TrustStore(tmp_path / "trusted.json")
    found = read_prompt_files(Workspace(root), store)
    assert [file.name for file in found.files] == ["mine"]
    assert len(found.untrusted) == 3

    found = read_prompt_files(Workspace(root), trusted(tmp_path, *files))
    assert [(file.name, file.kind) for file in found.files] == [
        ("git:review", PromptFileKind.COMMAND),
        ("mine", PromptFileKind.COMMAND),
        ("pdf-forms", PromptFileKind.SKILL),
        ("plan", PromptFileKind.COMMAND),
    ]
    review = found.find("git:review")
    assert review is not None
    assert (review.description, review.argument_hint) == ("Review what was changed", "[file]")
    assert found.find("mine") is not None and not found.findings
    assert "pdf-forms: Fill in PDF forms" in catalogue(found.skills(), 4_000, 5)

    files[0].write_text(f"{REVIEW}\nrm -rf ~")
    assert read_prompt_files(Workspace(root), TrustStore(tmp_path / "trusted.json")).find("git:review") is None


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("skills/other/SKILL.md", SKILL, "needs name = other"),
        ("skills/none/SKILL.md", "no front matter", "needs name = none"),
        ("skills/broken/SKILL.md", "---\nname: [\n---\nx", "no YAML"),
        ("skills/list/SKILL.md", "---\n- a\n---\nx", "holds no fields"),
        ("skills/Big/SKILL.md", SKILL, "no name for a skill"),
        ("commands/empty.toml", "description = 'x'", "no prompt"),
        ("commands/bad.toml", "prompt = ", "Invalid value"),
        ("commands/help.md", "x", "/help is a command of the program already"),
        ("commands/large.md", "x" * 300_000, "more than 200,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_and_voids_no_other(
    tmp_path: Path, name: str, text: str, finding: str
) -> None:
    put(config_dir() / name, text)
    put(config_dir() / "commands/good.md", "good")
    found = read_prompt_files(Workspace(tmp_path), TrustStore(tmp_path / "trusted.json"))
    assert [file.name for file in found.files] == ["good"]
    [line] = found.findings
    assert finding in line


def test_a_link_out_of_the_workspace_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "w"
    outside = put(tmp_path / "secret", "secret")
    (root / ".ollm/commands").mkdir(parents=True)
    (root / ".ollm/commands/x.md").symlink_to(outside)
    found = read_prompt_files(Workspace(root), trusted(tmp_path, outside))
    assert not found.files and "x.md is left out" in found.findings[0]


def test_a_small_window_lists_few_skills(tmp_path: Path) -> None:
    for number in range(8):
        name = f"skill-{number}"
        put(config_dir() / f"skills/{name}/SKILL.md", SKILL.replace("pdf-forms", name))
    skills = read_prompt_files(Workspace(tmp_path), TrustStore(tmp_path / "trusted.json")).skills()
    assert catalogue(skills, 10_000, 5).endswith("(3 more are not listed here)")
    assert catalogue(skills, 10, 5) == ""


async def test_no_file_takes_a_name_of_the_program() -> None:
    ran: list[str] = []
    table = SlashCommands(SlashCommand("undo", "own", ran.append))
    table.offer_messages([SlashCommand("undo", "theirs", ran.append, is_message=True)])
    assert await table.take("/undo all", ran.append) and ran == ["all"]
    assert "undo" in RESERVED


# -- in a conversation -------------------------------------------------------------------------------------------------


def run(folder: Path, capsys: pytest.CaptureFixture[str], prompt: str, *replies: JsonObject, code: int = 0) -> str:
    script = put(folder / "script.json", json.dumps(replies))
    words = ["run", prompt, "--provider", "scripted", "--script", str(script), "--output", "jsonl", "-C", str(folder)]
    assert main(words) == code
    return capsys.readouterr().out


def test_a_command_runs_what_it_names_as_every_call_and_goes_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(config_dir() / "commands/review.md", REVIEW)
    reply: JsonObject = {"expect": {"lastUserMessageContains": "Review a.py. Here is the change:"}, "text": "Fine."}
    out = run(tmp_path, capsys, "/review a.py", reply)
    events = [json.loads(line) for line in out.splitlines()]
    [attached] = [event for event in events if event["type"] == "attached"]
    assert attached["name"] == "/review" and "one two" in attached["text"]

    put(config_dir() / "commands/wipe.toml", 'prompt = "!{rm -rf {{args}}}"')
    (tmp_path / "keep").touch()
    out = run(tmp_path, capsys, "/wipe keep", code=1)
    assert "/wipe was not sent" in out and (tmp_path / "keep").exists()
    out = run(tmp_path, capsys, "/nothing here", {"text": "Sent as it is."})
    assert "Sent as it is." in out


def test_what_follows_the_name_is_quoted_in_a_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(config_dir() / "commands/say.toml", 'prompt = "Said: !{echo {{args}}}"')
    out = run(tmp_path, capsys, "/say $(touch bad); touch worse", {"text": "Fine."})
    assert "$(touch bad); touch worse" in out
    assert not (tmp_path / "bad").exists() and not (tmp_path / "worse").exists()


def test_skills_are_listed_to_the_model_and_sent_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(config_dir() / "skills/pdf-forms/SKILL.md", SKILL)
    call: JsonObject = {
        "toolCalls": [{"name": "read_file", "arguments": {"path": str(config_dir() / "skills/pdf-forms/SKILL.md")}}]
    }
    reply: JsonObject = {"expect": {"lastToolResultContains": "scripts/fill.py"}, "text": "Read."}
    out = run(tmp_path, capsys, "fill the form", call, reply)
    assert "pdf-forms: Fill in PDF forms" in out
    out = run(tmp_path, capsys, "/pdf-forms now", {"expect": {"lastUserMessageContains": "# PDF forms"}, "text": "."})
    assert main(["skills", "list", "-C", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "pdf-forms"
