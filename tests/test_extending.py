"""Every example of the pages on extending is whole: written out as the page says, it runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ollm_tui.docs import list_topics, read_topic

PAGES = [topic.name for topic in list_topics() if topic.name.startswith("extending/")]

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_files(page: str, folder: Path) -> Path:
    """Write the files of a page as it names them."""
    for name, text in _FILE.findall(read_topic(page)):
        (folder / name).write_text(text)
    return folder


def run(folder: Path, *command: str, **environment: str) -> str:
    """Run Python in `folder` with what lies there importable; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_is_a_page_for_each_thing_to_add() -> None:
    assert PAGES == [
        "extending/bundle",
        "extending/hook",
        "extending/mcp",
        "extending/pane",
        "extending/provider",
        "extending/theme",
        "extending/tool",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_example_has_a_file_name_and_is_tested(page: str) -> None:
    text = read_topic(page)
    examples = [body for language, body in _FENCED.findall(text) if language != "console"]
    files = dict(_FILE.findall(text))
    assert examples and sorted(files.values()) == sorted(examples)
    assert [name for name in files if name.startswith("test_")]


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    said = run(tmp_path, "-m", "pytest", "-q", ".", PYTHONPATH=".", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    tests = sum(text.count("def test_") for text in dict(_FILE.findall(read_topic(page))).values())
    assert f"{tests} passed" in said


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the page on tools, built and installed into a folder of its own."""
    folder = write_files("extending/tool", tmp_path_factory.mktemp("plugin"))
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", "site", "."]
    run(folder, *install)
    return folder


def test_the_installed_plug_in_is_listed_asked_about_and_run(plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one two\n")
    call = ("count_words", '{"path": "notes.txt"}')

    def program(*arguments: str) -> str:
        return run(tmp_path, "-m", "ollm_tui", *arguments, PYTHONPATH=str(plugin / "site"))

    assert "count_words" in program("tool", "list").split()
    assert json.loads(program("policy", "check", *call))["decision"] == "ask"
    allowed = program("--policy", str(plugin / "policy.toml"), "policy", "check", *call)
    assert json.loads(allowed)["decision"] == "allow"
    assert json.loads(program("tool", "call", *call, "--yes"))["llmContent"] == "notes.txt has 2 words"


def test_the_theme_is_found_where_the_page_says(own_folders: Path) -> None:
    folder = own_folders / ".config" / "ollm-tui" / "themes"
    folder.mkdir(parents=True)
    write_files("extending/theme", folder)
    code = "from ollm_tui.tui.themes import load_themes; print('evening' in load_themes().valid)"
    assert run(folder, "-c", code) == "True\n"
