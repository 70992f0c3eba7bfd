"""`[mcp.servers.NAME]`: what is read, and that a faulty entry drops alone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from ollm_tui.agent.mcp.settings import McpSettings, read_mcp, with_workspace
from ollm_tui.agent.prompt_files import untrusted_files
from ollm_tui.config import load_settings
from ollm_tui.core import Workspace
from ollm_tui.core.policy.repository_trust import TrustStore
from ollm_tui.options import Options


def read(text: str) -> McpSettings:
    return read_mcp(tomllib.loads(text), text, "config.toml")


def test_a_server_is_read_with_its_defaults_and_its_line() -> None:
    settings = read('# mine\n[mcp.servers.Git_Hub]\ncommand = "npx"\nargs = ["-y", "server"]\n')
    server = settings.servers["git-hub"]
    assert not settings.findings
    assert server.source == "config.toml:2" and server.address == "npx -y server"
    assert (server.entry.timeout, server.entry.connect_timeout, server.entry.required) == (60, 30, False)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ('comand = "x"', "unknown key comand"),
        ("", "give either command or url"),
        ('command = "x"\nurl = "https://a"', "give either command or url"),
        ('url = "ftp://a"', "url: String should match"),
        ('command = "x"\ntimeout = 0', "timeout: Input should be greater than or equal to 1"),
        ('command = ["x"]', "command: Input should be a valid string"),
        ('command = "x"\nprotocol = "newest"', "protocol: String should match"),
    ],
)
def test_a_faulty_entry_is_a_finding_and_the_others_stay(table: str, fault: str) -> None:
    settings = read(f'[mcp.servers.bad]\n{table}\n[mcp.servers.good]\ncommand = "x"\n')
    assert list(settings.servers) == ["good"]
    [finding] = settings.findings
    assert finding.startswith("config.toml:1: the MCP server bad is left out: ") and fault in finding


def test_names_that_would_clash_or_cannot_be_written_are_left_out() -> None:
    settings = read('[mcp.servers.a_b]\ncommand="x"\n[mcp.servers.a-b]\ncommand="y"\n[mcp.servers."é"]\ncommand="z"\n')
    assert list(settings.servers) == ["a-b"] and settings.servers["a-b"].entry.command == "x"
    assert ["name of another" in one or "letters" in one for one in settings.findings] == [True, True]
    assert read("mcp = 3").findings == ("config.toml:1: write a table [mcp.servers.NAME] for each server.",)


def test_variables_are_filled_in_without_a_shell_and_never_become_part_of_the_identity(tmp_path: Path) -> None:
    text = """[mcp.servers.a]
command = "run"
args = ["${TOKEN}", "$(touch x)", "${NOT_SET:-fallback}"]
env = { KEY = "${TOKEN}" }
cwd = "sub"
"""
    server = read(text).servers["a"]
    spec = server.spec(tmp_path, {"TOKEN": "secret"})
    assert spec.args == ("secret", "$(touch x)", "fallback") and spec.env == {"KEY": "secret"}
    assert spec.cwd == str(tmp_path / "sub") and spec.root == str(tmp_path)
    assert server.identity == read(text.replace('KEY = "${TOKEN}"', 'KEY = "other"')).servers["a"].identity
    assert server.identity != read(text.replace('"run"', '"/tmp/run"')).servers["a"].identity
    with pytest.raises(ValueError, match="the variable TOKEN is not set"):
        server.spec(tmp_path, {})


def test_the_servers_of_a_config_file_are_no_unknown_key_of_it(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[mcp.servers.bad]\nnothing = 1\n[ui]\nmouse = false\n")
    loaded = load_settings(Options(config_file=path), None)
    assert not loaded.errors and loaded.settings.ui.mouse is False


def shared_by(tmp_path: Path, content: object, *, trusted: bool = True) -> McpSettings:
    path, store = tmp_path / ".mcp.json", TrustStore(tmp_path / "trusted.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    if trusted:
        store.trust_content(path, path.read_bytes())
    return with_workspace(read('[mcp.servers.mine]\ncommand = "x"\n'), Workspace(tmp_path), store)


def test_a_workspaces_servers_count_once_trusted_as_they_are(tmp_path: Path) -> None:
    entry = {"type": "stdio", "command": "y", "autoApprove": ["*"], "required": True}
    content = {"mcpServers": {"mine": {"command": "evil"}, "theirs": entry, "bad": {}}}
    waiting = shared_by(tmp_path, content, trusted=False)
    assert list(waiting.servers) == ["mine"] and "untrusted: its servers do not count" in waiting.untrusted
    settings = shared_by(tmp_path, content)
    assert settings.servers["mine"].entry.command == "x" and settings.servers["theirs"].entry.command == "y"
    assert not settings.servers["theirs"].entry.required, "a folder cannot make the first message wait"
    assert ["yours counts" in one or "bad is left out" in one for one in settings.findings] == [True, True]
    (tmp_path / ".mcp.json").write_text("{}")
    changed = with_workspace(McpSettings(), Workspace(tmp_path), TrustStore(tmp_path / "trusted.json"))
    assert not changed.servers and "changed since it was trusted" in changed.untrusted


@pytest.mark.parametrize("content", ["{", "[]", '{"servers": {"a": {"command": "x"}}}', '{"mcpServers": {"a": 1}}'])
def test_a_workspaces_file_of_another_shape_is_a_finding(tmp_path: Path, content: str) -> None:
    settings = shared_by(tmp_path, content)
    assert list(settings.servers) == ["mine"] and len(settings.findings) == 1


def test_trusting_a_folder_shows_its_servers(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{}")
    store = TrustStore(tmp_path / "trusted.json")
    workspace = Workspace(tmp_path)
    assert [file.name for file in untrusted_files(workspace, store.check(tmp_path), store)] == [".mcp.json"]
