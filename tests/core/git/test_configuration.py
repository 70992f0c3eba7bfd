"""Passwords in the configuration of a repository: a model reads none of them, whichever tool finds them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ollm_tui.core import MessageBus, PolicyConfig, PolicyEngine, ToolExecutor, ToolRegistry, Workspace
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.git.configuration import ConfiguredSecrets
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.builtin import BUILTIN_TOOLS
from ollm_tui.core.tools.context import ToolContext

CONFIGURATION = """[remote "origin"]
\turl = https://bob:hunter2secret@example.com/x.git
[remote "short"]
\turl = https://bob:abc@example.com/y.git
[remote "token"]
\turl = https://0123456789abcdef0123@example.com/z.git
\tpushurl = ssh://git@example.com/z.git
[http "https://example.com"]
\textraheader = Authorization: Basic Ym9iOmh1bnRlcjI=
[github]
\toauthtoken = "fedcba9876543210"
"""
SECRETS = ("hunter2secret", ":abc@", "0123456789abcdef0123", "Ym9iOmh1bnRlcjI=", "fedcba9876543210")


def repository(root: Path) -> Path:
    root.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    (root / ".git" / "config").write_text(CONFIGURATION)
    return root


def test_each_secret_is_masked_and_nothing_else(tmp_path: Path) -> None:
    root = repository(tmp_path / "w")
    (root / "sub").mkdir()
    for folder in (root, root / "sub"):
        masked = ConfiguredSecrets(lambda folder=folder: [folder]).mask(CONFIGURATION)
        assert not any(secret in masked for secret in SECRETS)
        assert "https://bob:***@example.com/y.git" in masked and "ssh://git@example.com/z.git" in masked
    assert ConfiguredSecrets(lambda: [root]).mask("abc and bob") == "abc and bob"


def test_a_changed_configuration_is_read_again(tmp_path: Path) -> None:
    secrets = ConfiguredSecrets(lambda: [tmp_path / "w"])
    assert secrets.mask("hunter2secret") == "hunter2secret", "there is no repository yet"
    root = repository(tmp_path / "w")
    assert secrets.mask("hunter2secret") == "***"
    (root / ".git" / "config").write_text("[remote]\n\turl = https://bob:another-one@example.com\n")
    assert secrets.mask("hunter2secret another-one") == "hunter2secret ***"


def test_a_working_tree_of_its_own_has_the_secrets_of_its_repository(tmp_path: Path) -> None:
    root = repository(tmp_path / "w")
    identity = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=root, check=True)
    subprocess.run(["git", "worktree", "add", "-q", "../tree"], cwd=root, check=True)
    assert ConfiguredSecrets(lambda: [tmp_path / "tree"]).mask("hunter2secret") == "***"


@pytest.mark.parametrize("content", [b"gitdir: nowhere", b"no pointer", b"\xff\xfe"])
def test_what_is_no_repository_hides_nothing_and_fails_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert ConfiguredSecrets(lambda: [tmp_path]).mask("hunter2secret") == "hunter2secret"


@pytest.mark.parametrize(("tool", "arguments"), [
    ("shell", {"command": "git remote -v; cat .git/config; grep -r url .git"}),
    ("read_file", {"path": ".git/config"}),
    ("read_many_files", {"paths": [".git/config"]}),
    ("grep", {"pattern": "url|token|header", "path": ".git/config"}),
])  # fmt: skip
async def test_no_tool_tells_the_model(tmp_path: Path, tool: str, arguments: dict[str, object]) -> None:
    root = repository(tmp_path / "w")
    registry = ToolRegistry()
    for each in BUILTIN_TOOLS:
        registry.register(each)
    bus = MessageBus()
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ALLOW, rules=[]))
    options = ExecutorOptions(context=ToolContext(bus=bus), auto_answer=AutoAnswer.YES)
    async with ToolExecutor(registry, policy, bus, Workspace(root), options=options) as executor:
        result = await executor.execute(tool, arguments)  # type: ignore[arg-type]  # JSON
    assert result.error is None and "example.com" in result.for_model(), result.for_model()
    assert not any(secret in result.for_model() for secret in SECRETS)
