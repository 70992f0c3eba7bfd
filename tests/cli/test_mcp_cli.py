"""`ollm-tui mcp list | test | approve`, and calls of a server's tool from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core.base.app_dirs import config_dir

FAKE = str(Path(__file__).parents[1] / "data" / "mcp_server.py")


@pytest.fixture
def config() -> Path:
    """The person's config file with two servers, one of which ends at once, and a rule for the other."""
    path = config_dir() / "config.toml"
    path.parent.mkdir(parents=True)
    command = f'command = "{sys.executable}"\nargs = ["-I", "{FAKE}", '
    path.write_text(
        f'[mcp.servers.fake]\n{command}"good"]\nenv = {{ API_TOKEN = "sk-123" }}\n[mcp.servers.gone]\n{command}"exit"]\n'
        '[[policy.rules]]\ntool = "mcp__fake"\naction = "allow"\n'
    )
    return path


def test_a_server_is_listed_tried_approved_and_called(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here = ("-C", str(tmp_path))
    assert main(["mcp", "list", *here]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["name"] for one in listed] == ["fake", "gone"] and listed[0]["env"] == ["API_TOKEN"]
    assert "sk-123" not in json.dumps(listed)
    assert main(["mcp", "test", "fake", *here]) == 0
    tried = capsys.readouterr()
    assert json.loads(tried.out)["tool"] == "mcp__fake__echo" and not json.loads(tried.out)["approved"]
    assert "fake: fake good 1, protocol 2025-" in tried.err
    call = ["tool", "call", "mcp__fake__echo", '{"text": "hello"}', *here]
    assert main(call) == 3
    assert "nobody is there to answer" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert main(["mcp", "approve", "fake", *here]) == 1, "without a terminal nobody can have read it"
    assert "Says it again" in capsys.readouterr().err
    assert main(["mcp", "approve", "--yes", "fake", *here]) == 0
    assert main(call) == 0
    assert json.loads(capsys.readouterr().out)["llmContent"] == "hello"
    assert main(["tool", "call", "mcp__fake__echo", "{}", *here]) == 1
    assert "text: it is required" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_what_cannot_be_tried_is_said(config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["mcp", "test", "gone", "-C", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "gone is not there: it ended with exit code 1" in said and "no licence" in said
    assert main(["mcp", "test", "other", "-C", str(tmp_path)]) == 2
    assert "There are: fake, gone." in capsys.readouterr().err
    config.write_text("[mcp.servers.bad]\n")
    assert main(["mcp", "list", "-C", str(tmp_path)]) == 1
    assert "bad is left out: give either command or url" in capsys.readouterr().err
