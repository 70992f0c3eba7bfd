"""Files of the user's plug-ins folder: each brings its tools, or is left out with a reason, and nothing else happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.runtime import plugins
from ollm_tui.runtime.plugins import load_registry

TOOL = """
from ollm_tui.core import AbortSignal, Effect, Parameters, Risk, Tool, ToolGroup, ToolInvocation, ToolResult

class Words(Parameters):
    text: str

class Count(ToolInvocation[Words]):
    def get_description(self) -> str:
        return "Count words"

    async def execute(self, signal: AbortSignal, update_output: object = None) -> ToolResult:
        return ToolResult.of_text(str(len(self.params.text.split())))

def tool(name):
    return Tool(name, name, "Counts words.", ToolGroup.SYSTEM, Effect.READS, Words, Count, Risk.LOW)
"""


def put(name: str, text: str) -> Path:
    file = config_dir() / "plugins" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TOOL + text)
    file.chmod(0o644)
    return file


def test_a_file_registers_tools_which_ask_and_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    put("words.py", 'def register(registry):\n    registry.register(tool("one"))\n    registry.register(tool("two"))\n')
    registry, errors = load_registry()
    assert errors == []
    assert [registry.resolve(name, {"text": ""}).tool.plugin for name in ("one", "two")] == [True, True]
    call = ["-C", str(tmp_path), "tool", "call", "one", '{"text": "a b c"}']
    assert main(call) == 3, "it asks until a rule names it"
    capsys.readouterr()
    assert main([*call, "--yes"]) == 0
    assert json.loads(capsys.readouterr().out)["llmContent"] == "3"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def register(registry:\n", "SyntaxError"),
        ("", "TypeError: it has no register(registry)"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("def register(registry):\n    registry.register(7)\n", "TypeError: it is a int, not a Tool"),
        ('def register(registry):\n    registry.register(tool("read_file"))\n', "already stands for read_file"),
        ('def register(registry):\n    registry.register(tool("a b"))\n', "is not a name that a model can call"),
        ('def register(registry):\n    registry.register(tool("one"))\n    1 / 0\n', "ZeroDivisionError"),
        ("import threading\nthreading.Event().wait()\n", "TimeoutError: it did not load within 0.3 s"),
    ],
)
def test_a_faulty_file_is_left_out_and_said_and_others_work(
    text: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugins, "LOAD_SECONDS", 0.3)
    file = put("faulty.py", text)
    put("sound.py", 'def register(registry):\n    registry.register(tool("sound"))\n')
    registry, [error] = load_registry()
    assert error.startswith(f"The plug-in faulty ({file}) is left out: ") and reason in error
    assert registry.get("sound") is not None and registry.get("one") is None
    main(["doctor"])
    assert reason in capsys.readouterr().out


def test_what_it_prints_does_not_reach_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    put("loud.py", 'print("hello")\ndef register(registry):\n    print("again")\n    registry.register(tool("loud"))\n')
    registry, errors = load_registry()
    assert errors == [] and registry.get("loud") is not None
    assert capsys.readouterr().out == ""


def test_a_file_that_others_can_write_is_not_loaded() -> None:
    put("open.py", 'def register(registry):\n    registry.register(tool("open"))\n').chmod(0o666)
    registry, [error] = load_registry()
    assert "others can write the file" in error and registry.get("open") is None
