"""`ollm-tui plugin`: bundles are shown before they count, count while they stay as they are, and only tighten."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from ollm_tui.agent.bundles import MOST_BYTES, bundles_folder
from ollm_tui.cli import main
from ollm_tui.tui.themes import load_themes

FAKE = Path(__file__).parents[1] / "data" / "mcp_server.py"
MANIFEST = f"""
name = "lint"
version = "1.2"
description = "Looks after style"

[mcp.servers.words]
command = {json.dumps(sys.executable)}
args = ["-I", "${{CLAUDE_PLUGIN_ROOT}}/server.py", "good"]

[[hooks]]
event = "PreToolUse"
matcher = "shell"
command = '"${{CLAUDE_PLUGIN_ROOT}}"/guard.sh'

[[policy.rules]]
tool = "write_file"
action = "deny"
message = "lint says no"
"""
THEME = """name = "lint-dark"
dark = true
[colors]
primary = "#88c0d0"
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "my bundle"
    (folder / "commands").mkdir(parents=True)
    (folder / "skills" / "tidy").mkdir(parents=True)
    (folder / "themes").mkdir()
    (folder / "plugin.toml").write_text(MANIFEST)
    (folder / "guard.sh").write_text(
        '#!/bin/sh\ngrep -q forbidden && { echo "not here: $OLLM_PLUGIN_ROOT" >&2; exit 2; }\n exit 0\n'
    )
    (folder / "guard.sh").chmod(0o755)
    shutil.copy(FAKE, folder / "server.py")
    (folder / "commands" / "check.md").write_text("---\ndescription: Check it\n---\nCheck $ARGUMENTS\n")
    (folder / "skills" / "tidy" / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies\n---\nTidy up.\n")
    (folder / "themes" / "lint-dark.toml").write_text(THEME)
    return folder


@pytest.fixture
def here(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "ws").mkdir()
    return ("-C", str(tmp_path / "ws"))


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_bundle_counts_once_it_was_shown_and_added(
    bundle: Path, here: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "add", str(bundle)]) == 1, "without a terminal nobody can have agreed"
    shown = capsys.readouterr().err
    for words in (
        "server.py good",
        "hook PreToolUse of shell",
        "deny write_file",
        "/lint:check",
        "/lint:tidy",
        "guard.sh",
    ):
        assert words in shown
    assert not bundles_folder().exists() or not list(bundles_folder().iterdir())
    assert main(["plugin", "add", "--yes", str(bundle)]) == 0
    capsys.readouterr()
    assert main(["plugin", "list"]) == 0
    listed = printed(capsys)
    assert [(one["name"], one["kind"], one["version"]) for one in listed] == [("lint", "bundle", "1.2")]
    shutil.rmtree(bundle)

    assert main(["mcp", "approve", "--yes", "words", *here]) == 0
    capsys.readouterr()
    denied = ["tool", "call", "write_file", '{"path": "a", "content": "x"}', *here]
    assert main(denied) == 3 and "lint says no" in capsys.readouterr().out
    assert main(["tool", "call", "shell", '{"command": "echo forbidden"}', *here]) == 3
    said = printed(capsys)[0]["error"]["message"]  # type: ignore[index]
    assert f"guard.sh: not here: {bundles_folder() / 'lint'}" in said
    assert main(["commands", "list", *here]) == 0
    assert [one["name"] for one in printed(capsys)] == ["lint:check"]
    assert main(["skills", "list", *here]) == 0
    assert [one["name"] for one in printed(capsys)] == ["lint:tidy"]
    assert "lint-dark" in load_themes().valid

    assert main(["plugin", "remove", "lint"]) == 0
    assert main(["plugin", "remove", "lint"]) == 2
    assert list(bundles_folder().iterdir()) == []
    capsys.readouterr()
    assert main(denied) == 0


def test_a_changed_bundle_is_off_and_what_it_guarded_asks(
    bundle: Path, here: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "add", "--yes", str(bundle)]) == 0
    look = ["tool", "call", "ls", '{"path": "."}', *here]
    assert main(look) == 0
    (bundles_folder() / "lint" / "guard.sh").write_text("#!/bin/sh\nexit 0\n")
    capsys.readouterr()
    assert main(look) == 3
    assert "it has changed since it was added" in capsys.readouterr().err
    assert main(["plugin", "list"]) == 1
    said = capsys.readouterr()
    assert not said.out and "plugin add" in said.err
    assert main(["doctor", *here]) == 0 and "has changed since it was added" in capsys.readouterr().out
    assert main(["plugin", "add", "--yes", str(bundles_folder() / "lint")]) == 0, "as it is now, where it is now"
    assert main(look) == 0


def test_a_folder_that_nobody_added_does_not_count(
    bundle: Path, here: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(bundle, bundles_folder() / "lint")
    assert main(["mcp", "list", *here]) == 0 and not printed(capsys)
    assert main(["tool", "call", "ls", '{"path": "."}', *here]) == 0
    assert main(["plugin", "list"]) == 1 and "nobody has added it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "plugin.toml").unlink(), "has no plugin.toml"),
        (lambda f: (f / "plugin.toml").write_text("name = 3"), "name: Input should be a valid string"),
        (lambda f: (f / "plugin.toml").write_text('name = "../up"'), "name: String should match pattern"),
        (lambda f: (f / "plugin.toml").write_text('name = "a"\nrun = "x"'), "run: Extra inputs"),
        (lambda f: (f / "plugin.toml").write_text("name = ["), "plugin.toml: "),
        (lambda f: (f / "plugin.toml").write_text(MANIFEST.replace('"deny"', '"allow"')), "never allow"),
        (lambda f: (f / "plugin.toml").write_text(f'{MANIFEST}\n[policy.exec]\nmode = "full"'), "rules alone"),
        (lambda f: (f / "plugin.toml").write_text(MANIFEST.replace("PreToolUse", "Nothing")), "unknown event"),
        (lambda f: (f / "plugin.toml").write_text(MANIFEST.replace("args =", "words =")), "unknown key words"),
        (lambda f: (f / "themes" / "lint-dark.toml").write_text("[colors]\nprimary = 3"), "lint-dark.toml"),
        (lambda f: (f / "skills" / "tidy" / "SKILL.md").write_text("no front matter"), "front matter needs name"),
        (lambda f: (f / "out").symlink_to("/etc"), "out is no plain file"),
        (lambda f: os.mkfifo(f / "pipe"), "pipe is no plain file"),
        (lambda f: (f / "large").write_bytes(b"x" * (MOST_BYTES + 1)), "more than 500 files"),
    ],
)
def test_a_bundle_with_a_fault_is_not_added(
    bundle: Path, change: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(bundle)  # type: ignore[operator]
    assert main(["plugin", "add", "--yes", str(bundle)]) != 0
    assert said in capsys.readouterr().err
    assert not (bundles_folder() / "lint").exists()
