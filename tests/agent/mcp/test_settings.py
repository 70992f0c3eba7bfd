"""`[mcp.servers.NAME]`: what is read, and that a faulty entry drops alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ollm_tui.agent.mcp.settings import McpSettings, read_mcp
from ollm_tui.config import load_settings
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
