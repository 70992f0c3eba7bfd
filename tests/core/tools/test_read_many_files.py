"""`read_many_files`: sections in request order, one bad file spoils nothing (001 R2.8, 000 Property 9)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import InvalidArguments, OperationCancelled
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.tools.context import Limits, ToolContext
from ollm_tui.core.tools.read_many_files import READ_MANY_FILES, ReadManyFilesData
from tests.core.tools.file_reads import call, called, write

NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=8)
CONTENTS = st.text(st.characters(codec="utf-8", blacklist_characters="\0\r\ufeff"), min_size=1, max_size=40)


@given(st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=6), st.data())
@settings(max_examples=100, deadline=None)
def test_property_9_each_path_heads_its_content_in_request_order(files: dict[str, str], data: st.DataObject) -> None:
    """Property 9."""
    order = data.draw(st.permutations(sorted(files)))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), {f"{name}.txt": content for name, content in files.items()})
        result = called(READ_MANY_FILES, folder, {"paths": [f"{name}.txt" for name in order]})
    sections = [f"=== {name}.txt ===\n{files[name]}" for name in order]
    text = "".join(part + ("\n" if part.endswith("\n") else "\n\n") for part in sections[:-1]) + sections[-1]
    assert result.llm_content == text
    assert isinstance(result.data, ReadManyFilesData)
    assert [(each.path, each.file.content if each.file else None) for each in result.data.files] == [
        (f"{name}.txt", files[name]) for name in order
    ]


async def test_a_failed_file_says_why_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"a": "one\n", "b.bin": b"\0\1", "d/": ""})
    result = await call(READ_MANY_FILES, tmp_path, {"paths": ["a", "gone", "../out", "b.bin", "d", "a"]})
    sections = result.llm_content.split("\n\n")
    assert sections[0] == "=== a ===\none"
    assert sections[1].startswith("=== gone ===\nError: gone: no such file or directory")
    assert sections[2].startswith("=== ../out ===\nError: ../out is outside the workspace")
    assert sections[3].startswith("=== b.bin ===\nError: b.bin looks like")
    assert sections[4].startswith("=== d ===\nError: d is a directory")
    assert len(sections) == 5, "a file named twice is read once"
    assert result.ok
    assert result.return_display == "Read 1 file, 4 failed"


async def test_fails_only_when_nothing_could_be_read(tmp_path: Path) -> None:
    result = await call(READ_MANY_FILES, tmp_path, {"paths": ["x", "y"]})
    assert result.error is not None
    assert result.error.type == "FileNotFoundError"
    assert "=== x ===\nError: " in result.llm_content
    assert "\n\n=== y ===\nError: " in result.llm_content


@pytest.mark.parametrize("paths", [[], [""], None])
async def test_no_paths_at_all_is_an_error(tmp_path: Path, paths: list[str] | None) -> None:
    with pytest.raises(InvalidArguments):
        await call(READ_MANY_FILES, tmp_path, {"paths": paths})


async def test_expands_globs_and_prefers_a_file_of_that_name(tmp_path: Path) -> None:
    write(tmp_path, {"s/a.py": "A", "s/b.py": "B", "s/c.txt": "C", "x[1].py": "literal", "x1.py": "other"})
    write(tmp_path, {".env": "SECRET=1", ".gitignore": "s/b.py\n", "s/.hidden.py": "H"})
    result = await call(READ_MANY_FILES, tmp_path, {"paths": ["s/*.py", "x[1].py", "*.none", "s/a.py"]})
    assert result.llm_content.startswith(
        "=== s/a.py ===\nA\n\n=== x[1].py ===\nliteral\n\n=== *.none ===\nError: No file"
    )
    hidden = await call(READ_MANY_FILES, tmp_path, {"paths": [".*"]})
    assert "SECRET" not in hidden.llm_content
    assert hidden.notes == ("1 entry that holds credentials or settings left out; read_file asks a person",)


async def test_stops_reading_when_the_answer_would_grow_too_large(tmp_path: Path) -> None:
    write(tmp_path, {"a": "x" * 600, "b": "y" * 600, "c": "z"})
    result = await call(READ_MANY_FILES, tmp_path, {"paths": ["a", "b", "c"]}, limits=Limits(file_bytes=1000))
    assert "=== b ===\nError: b (600 bytes) was not read" in result.llm_content
    assert result.llm_content.endswith("=== c ===\nz")


async def test_a_cancelled_call_keeps_what_it_had_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a": "first", "b": "second"})
    controller = AbortController()
    opened = Workspace.open_for_reading

    def open_and_abort(self: Workspace, location: object) -> int:
        if str(getattr(location, "shown", "")) == "b":
            controller.abort("stop")
        return opened(self, location)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(Workspace, "open_for_reading", open_and_abort)
    with pytest.raises(OperationCancelled) as caught:
        await call(READ_MANY_FILES, tmp_path, {"paths": ["a", "b"]}, signal=controller.signal)
    assert caught.value.partial == "=== a ===\nfirst"


def test_names_what_it_touches(tmp_path: Path) -> None:
    write(tmp_path, {"a": "", ".env": ""})
    context = ToolContext(bus=MessageBus(), workspace=Workspace(tmp_path))
    invocation = READ_MANY_FILES.create_invocation({"paths": ["a", ".env", "../out", "*.py"]}, context)
    assert invocation.tool_locations() == ["a", ".env", "../out", "*.py"]
    assert [touched.path for touched in invocation.touched_paths()] == ["a", ".env"]
    assert invocation.get_description() == "Read a, .env, ../out and 1 more"
