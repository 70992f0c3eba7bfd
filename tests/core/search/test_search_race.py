"""What is swapped for a link while it is listed, searched or read shows nothing of what lies outside (001 R3.8)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.search.ripgrep import find_ripgrep
from ollm_tui.core.tools import grep
from ollm_tui.core.tools.base import AnyTool
from ollm_tui.core.tools.glob import GLOB
from ollm_tui.core.tools.grep import GREP
from ollm_tui.core.tools.ls import LS
from ollm_tui.core.tools.read_file import READ_FILE
from ollm_tui.core.tools.read_many_files import READ_MANY_FILES
from tests.core.tools.file_calls import RACE_SECONDS, Room, swapped_all_the_time, swapping

pytestmark = swapping

LONG = "their " * 500


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """Its folder `a` and file `f` have counterparts outside that nobody may see."""
    room = Room(tmp_path)
    for path, content in (("a/b/secret", f"theirs\n{LONG}\n"), ("a/b/short", "theirs\n"), ("f", "theirs\n")):
        room.write(path, "mine\n")
        theirs = room.outside / path
        theirs.parent.mkdir(parents=True, exist_ok=True)
        theirs.write_text(content)
    (room.outside / "a/b/theirs").write_text("theirs")
    (room.outside / "a/b/wide").write_bytes("theirs".encode("utf-16"))
    (room.outside / "a/b/old").write_bytes("théirs\n".encode("latin-1"))
    room.write("z", "mine\n")
    return room


CALLS: dict[str, tuple[AnyTool, dict[str, object]]] = {
    "grep": (GREP, {"pattern": "their|mine"}),
    "grep in order": (GREP, {"pattern": "their|mine", "maxResults": 50}),
    "grep with context": (GREP, {"pattern": "their|mine", "context": 1}),
    "grep in other encodings": (GREP, {"pattern": "théirs|their|mine"}),
    "grep in the folder": (GREP, {"pattern": "their|mine", "directory": "a"}),
    "grep in the file": (GREP, {"pattern": "their|mine", "directory": "a/b/secret"}),
    "grep in a file at the top": (GREP, {"pattern": "their|mine", "directory": "f"}),
    "glob": (GLOB, {"pattern": "**"}),
    "ls": (LS, {"maxDepth": 5}),
    "read_file": (READ_FILE, {"path": "a/b/secret"}),
    "read_many_files": (READ_MANY_FILES, {"paths": ["a/**", "f"]}),
}


@pytest.mark.parametrize(
    ("call", "engine"),
    [
        (call, engine)
        for engine in ("ripgrep", "here")
        for call in CALLS
        if engine == "ripgrep" or call.startswith("grep")
    ],
)
@pytest.mark.parametrize("swapped", ["a", "f"])
def test_a_race_of_swapped_links_shows_nothing_of_what_lies_outside(
    room: Room, call: str, swapped: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "here":
        monkeypatch.setattr(grep, "ripgrep_for", lambda workspace: None)
    elif find_ripgrep(()) is None:
        pytest.skip("ripgrep is not installed")
    tool, arguments = CALLS[call]
    seen = 0
    with swapped_all_the_time(room, swapped, RACE_SECONDS / 2) as race:
        while race.goes_on(seen=seen):
            try:
                result = room.call(tool, **arguments)
            except ToolFailure:
                continue
            shown = result.model_dump_json()
            assert "their" not in shown
            assert "théirs" not in shown
            if tool is LS:
                assert str(os.stat(room.outside / "a/b/secret").st_size) not in shown
            seen += 1
