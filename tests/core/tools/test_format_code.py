"""`format_code`: the project's formatters, run as filters; the diff is shown before anything is written (003)."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from ollm_tui.core import formatters
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import FileNotFound, ShellExecutionFailed, ShellTimeout
from ollm_tui.core.bus.confirmation import DiffPreview, Preview, TextPreview
from ollm_tui.core.sandbox.engines import look_works
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.format_code import FORMAT_CODE, FormatCodeData
from tests.core.tools.file_calls import Room

pytestmark = pytest.mark.skipif(not look_works(), reason="needs the cage of what only looks")

UGLY, PRETTY = 'x = {  "a":1 }\n', 'x = {"a": 1}\n'


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    found = shutil.which("ruff", path=f"{Path(sys.executable).parent}:/usr/bin:/usr/local/bin") or shutil.which("ruff")
    if found is None:
        pytest.skip("needs ruff")
    monkeypatch.setenv("PATH", f"{Path(found).parent}:/usr/bin:/bin")
    return Room(tmp_path)


def own_formatter(room: Room, script: str) -> None:
    room.write(".venv/bin/ruff", f"#!/bin/sh\n{script}\n").chmod(0o755)


def preview_of(room: Room, *paths: str) -> Preview | None:
    call = room.invocation(FORMAT_CODE, paths=list(paths))

    async def shown() -> Preview | None:
        return await (await call.question()).preview()

    return asyncio.run(shown())


def test_a_file_is_shown_then_written_with_its_mode_and_the_second_time_there_is_nothing_to_do(room: Room) -> None:
    path = room.write("a.py", UGLY)
    path.chmod(0o755)
    preview = preview_of(room, "a.py")
    assert isinstance(preview, DiffPreview) and (preview.diff.added, preview.diff.removed) == (1, 1)
    assert path.read_text() == UGLY
    result = room.call(FORMAT_CODE, paths=["a.py"])
    assert result.llm_content == "Formatted a.py with ruff (+1 -1)"
    assert path.read_text() == PRETTY and path.stat().st_mode & 0o777 == 0o755
    written = path.stat().st_mtime_ns
    assert room.call(FORMAT_CODE, paths=["a.py"]).llm_content == "a.py: formatted already"
    assert path.stat().st_mtime_ns == written


def test_check_reads_only_and_tells_the_diff(room: Room) -> None:
    room.write("a.py", UGLY)
    assert room.invocation(FORMAT_CODE, paths=["a.py"], check=True).facts().effect is Effect.READS
    assert room.invocation(FORMAT_CODE, paths=["a.py"]).facts().effect is Effect.WRITES
    result = room.call(FORMAT_CODE, paths=["a.py"], check=True)
    assert result.llm_content.startswith("Would change a.py with ruff (+1 -1)\n\n@@ -1,1 +1,1 @@")
    assert room.read("a.py") == UGLY.encode()


def test_what_cannot_be_formatted_stays_and_the_rest_is_done(room: Room) -> None:
    room.write("a.py", UGLY)
    room.write("bad.py", "x = (\n")
    room.write("a.xyz", "x")
    assert isinstance(preview_of(room, "a.py", "bad.py"), TextPreview)
    result = room.call(FORMAT_CODE, paths=["bad.py", "a.py", "a.xyz"])
    assert result.ok and isinstance(result.data, FormatCodeData)
    assert [file.changed for file in result.data.files] == [False, True, False]
    assert "Error: bad.py: ruff: error: Failed to parse bad.py:2:1" in result.llm_content
    assert "No formatter is known for files with .xyz" in result.llm_content
    assert room.read("a.py") == PRETTY.encode() and room.read("bad.py") == b"x = (\n"
    with pytest.raises(ShellExecutionFailed, match="Failed to parse"):
        room.call(FORMAT_CODE, paths=["bad.py"])
    with pytest.raises(FileNotFound):
        room.call(FORMAT_CODE, paths=["gone.py"])


def test_a_formatter_of_the_workspace_asks_and_does_not_run_before(room: Room) -> None:
    room.write("a.py", UGLY)
    own_formatter(room, "echo pretty")
    call = room.invocation(FORMAT_CODE, paths=["a.py"], check=True)
    assert call.facts().question == (
        ".venv/bin/ruff runs code of this workspace; it would run caged and could read all of it"
    )
    own_formatter(room, "echo secret >&2; exit 1")
    assert asyncio.run(room.invocation(FORMAT_CODE, paths=["a.py"], check=True).check(AbortController().signal)) is None


def test_a_formatter_can_neither_write_nor_connect(room: Room) -> None:
    room.write("a.py", UGLY)
    own_formatter(room, f"echo x > made; echo x > {room.outside}/made; cat")
    assert room.call(FORMAT_CODE, paths=["a.py"]).llm_content == "a.py: formatted already"
    assert not (room.folder / "made").exists() and not (room.outside / "made").exists()


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("sleep 600", ShellTimeout, "did not end within 1 s"),
        ("sh -c 'sleep 600' & sleep 600", ShellTimeout, "did not end within 1 s"),
        ("yes", ShellExecutionFailed, "ruff: "),
        ("exit 0", ShellExecutionFailed, "printed nothing"),
        ("kill -9 $$", ShellExecutionFailed, "exited with code -9"),
    ],
)
def test_a_formatter_that_fails_leaves_the_file(
    room: Room, monkeypatch: pytest.MonkeyPatch, script: str, error: type[Exception], words: str
) -> None:
    monkeypatch.setattr(formatters, "SECONDS", 1.0 if "sleep" in script else 30.0)
    room.limited(file_bytes=100_000)
    room.write("a.py", UGLY)
    own_formatter(room, script)
    with pytest.raises(error, match=words):
        room.call(FORMAT_CODE, paths=["a.py"])
    assert room.read("a.py") == UGLY.encode()


def test_the_project_says_which_formatter_it_uses(room: Room) -> None:
    for name in ("ruff", "black", "prettier"):
        room.write(f"node_modules/.bin/{name}", "#!/bin/sh\ncat\n").chmod(0o755)
    room.write("one/pyproject.toml", "[tool.black]\n")
    room.write("two/ruff.toml", "")
    root = room.folder
    found = {name: formatters.find_formatter(root / name, root).formatter.name for name in ("one/a.py", "two/a.py")}
    assert found == {"one/a.py": "black", "two/a.py": "ruff"}
    assert formatters.find_formatter(root / "a.ts", root).own
    with pytest.raises(ShellExecutionFailed, match="biome is not installed"):
        room.write("biome.json", "{}")
        formatters.find_formatter(root / "a.ts", root)


@pytest.mark.parametrize("name", ["rust-toolchain.toml", "rust-toolchain"])
def test_a_program_that_the_project_chooses_asks(room: Room, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """rustup's rustfmt runs the program of the toolchain that such a file names, by a path for instance."""
    tools = room.outside / "bin"
    tools.mkdir(parents=True)
    (tools / "rustfmt").write_text("#!/bin/sh\necho ran > ran; cat\n")
    (tools / "rustfmt").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    room.write("src/a.rs", "fn main() {}\n")
    assert room.invocation(FORMAT_CODE, paths=["src/a.rs"], check=True).facts().question is None
    room.write(name, '[toolchain]\npath = "evil"\n')
    assert "code of this workspace" in (
        room.invocation(FORMAT_CODE, paths=["src/a.rs"], check=True).facts().question or ""
    )


@pytest.mark.parametrize("name", ["pyproject.toml", "ruff.toml", "sub/.ruff.toml"])
def test_a_configuration_that_is_a_link_to_credentials_asks_before_anything_runs(room: Room, name: str) -> None:
    room.write("sub/a.py", UGLY)
    room.write(".env", "SECRET\n")
    assert room.invocation(FORMAT_CODE, paths=["sub/a.py"], check=True).facts().question is None
    (room.folder / name).symlink_to(room.folder / ".env")
    found = room.invocation(FORMAT_CODE, paths=["sub/a.py"], check=True)
    assert found.facts().question == "ruff would be configured by .env: it holds credentials"
    (room.folder / name).unlink()
    (room.folder / name).symlink_to("/etc/hostname")
    assert "leads out of the workspace" in str(room.invocation(FORMAT_CODE, paths=["sub/a.py"]).facts().question)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ruff.toml", 'extend = ".env"'),
        ("pyproject.toml", '[tool.ruff]\nextend = "./.env"'),
        ("ruff.toml", 'extend = "more.toml"'),
        ("ruff.toml", 'extend = "$PWD/.env"'),
        ("ruff.toml", 'extend = "~/x.toml"'),
        ("ruff.toml", 'extend = "/etc/hostname"'),
    ],
)
def test_what_a_configuration_takes_over_is_judged_as_well(room: Room, name: str, text: str) -> None:
    room.write("a.py", UGLY)
    room.write(".env", "SECRET\n")
    room.write("more.toml", 'extend = ".env"')
    room.write(name, text)
    question = room.invocation(FORMAT_CODE, paths=["a.py"], check=True).facts().question
    assert question is not None and ("configured by .env" in question or "leads out of the workspace" in question)
    room.write(name, 'extend = "other.toml"' if name == "ruff.toml" else '[tool.ruff]\nextend = "other.toml"')
    room.write("other.toml", "line-length = 100\n")
    assert room.invocation(FORMAT_CODE, paths=["a.py"], check=True).facts().question is None


def test_biomes_configurations_are_followed(tmp_path: Path) -> None:
    biome = next(each for each in formatters.FORMATTERS if each.name == "biome")
    (tmp_path / "biome.json").write_text('{ // x\n "extends": ["./a.json", "package"], "b": {"extends": "../c.json"} }')
    (tmp_path / "a.json").write_text("{}")
    found = formatters.configurations(biome, tmp_path / "x.js", tmp_path)
    assert found == [tmp_path / "biome.json", tmp_path / "a.json"]
