"""What a second look at the files of an index finds, and that nothing of it is taken for granted."""

from __future__ import annotations

import mmap
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.search import code_index
from ollm_tui.core.search.code_index import CodeIndex, IndexSource
from ollm_tui.core.search.listing import Listing, ListingOptions
from ollm_tui.core.search.workspace_scan import FileStates


def listing(root: Path) -> Listing:
    handle = DirHandle(os.fsencode(root) + b"/", os.open(root, os.O_RDONLY | os.O_DIRECTORY))
    return Listing(handle, os.fsencode(root), ListingOptions())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for name in ("few/a.py", *(f"many/{number}.py" for number in range(20))):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("hay = 1\n")
    return root


def rewrite(path: Path, text: str) -> None:
    """Write in place: same name, same inode."""
    with path.open("r+") as file:
        file.truncate(0)
        file.write(text)


def keep_times(path: Path) -> None:
    before = path.stat()
    rewrite(path, "hay = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "changed", "gone"),
    [
        (lambda root: rewrite(root / "few/a.py", "straw = 1\n"), {b"few/a.py"}, set[bytes]()),
        (lambda root: rewrite(root / "many/7.py", "straw = 1\n"), {b"many/7.py"}, set[bytes]()),
        (lambda root: keep_times(root / "many/7.py"), {b"many/7.py"}, set[bytes]()),
        (lambda root: (root / "many/7.py").unlink(), set[bytes](), {b"many/7.py"}),
        (lambda root: (root / "few/a.py").rename(root / "few/b.py"), {b"few/b.py"}, {b"few/a.py"}),
        (lambda root: (root / "many/7.py").replace(root / "many/8.py"), {b"many/8.py"}, {b"many/7.py"}),
        (lambda root: (root / "new.py").write_text(""), {b"new.py"}, set[bytes]()),
        (lambda root: (root / "few").rename(root / "fewer"), {b"fewer/a.py"}, {b"few/a.py"}),
        (lambda root: (root / ".gitignore").write_text("few\n"), set[bytes](), {b"few/a.py"}),
        (lambda root: (root / "few/a.py").replace(root / "a.py"), {b"a.py"}, {b"few/a.py"}),
    ],
)
def test_a_second_look_finds_what_changed_and_only_that(
    root: Path, change: Callable[[Path], object], changed: set[bytes], gone: set[bytes]
) -> None:
    states = FileStates()
    assert states.look(listing(root)) == states.by_path and len(states.by_path) == 21
    assert states.look(listing(root)) == {}
    states.wait_until_settled()
    change(root)
    found = states.look(listing(root))
    assert {path for path, state in found.items() if state is not None} == changed
    assert {path for path, state in found.items() if state is None} == gone
    assert states.look(listing(root)) == {}


def write_mapped(path: Path) -> None:
    """Write as programs do that map a file: no call of theirs names it once it is open."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:5] = b"straw"
        mapped.flush()


def write_elsewhere(path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'r+').write('straw')"
    subprocess.run([sys.executable, "-c", code, path], check=True)


def found(index: CodeIndex, root: Path, word: str) -> list[str]:
    return [os.fsdecode(match.path) for match in index.search(IndexSource(listing(root)), word, 30).places]


def test_each_change_right_after_a_search_is_found_by_the_next(root: Path, tmp_path: Path) -> None:
    index = CodeIndex(tmp_path / "index", root)
    path = root / "few/a.py"
    words = ["straw", "clover"]
    for number in range(30):
        rewrite(path, f"{words[number % 2]:<6} = 1\n")  # of one size, and often within one tick of the clock
        assert found(index, root, words[number % 2]) == ["few/a.py"]
        assert found(index, root, words[(number + 1) % 2]) == []


@pytest.mark.parametrize("change", [lambda path: rewrite(path, "straw\n"), write_mapped, write_elsewhere])
def test_an_edit_in_place_is_found_though_its_directory_stays_as_it_was(
    root: Path, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    index = CodeIndex(tmp_path / "index", root)
    assert len(found(index, root, "hay")) == 21
    before = os.stat(root / "many")
    change(root / "many/7.py")
    assert found(index, root, "straw") == ["many/7.py"]
    after = os.stat(root / "many")
    assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)


def test_a_file_of_which_a_part_could_not_be_written_is_indexed_by_the_next_search(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = CodeIndex(tmp_path / "index", root)
    assert len(found(index, root, "hay")) == 21
    rewrite(root / "few/a.py", "straw = 1\n")

    def half(db: sqlite3.Connection, path: bytes, state: str, data: bytes) -> None:
        db.execute("INSERT INTO files(path, state, test) VALUES(?, ?, 0)", (path, state))
        db.execute("INSERT INTO nowhere VALUES(1)")  # fails as a full disk does

    with monkeypatch.context() as patch, pytest.raises(OSError, match="nowhere"):
        patch.setattr(code_index, "add_file", half)
        found(index, root, "straw")
    assert found(index, root, "straw") == ["few/a.py"] and len(found(index, root, "hay")) == 20


def test_an_index_that_is_gone_or_that_another_process_changed_is_not_taken_for_the_one_it_was(
    root: Path, tmp_path: Path
) -> None:
    index = CodeIndex(tmp_path / "index", root)
    assert len(found(index, root, "hay")) == 21
    for file in (tmp_path / "index").iterdir():
        file.unlink()
    assert len(found(index, root, "hay")) == 21
    other = CodeIndex(tmp_path / "index", root)
    rewrite(root / "few/a.py", "straw = 1\n")
    assert found(other, root, "straw") == found(index, root, "straw") == ["few/a.py"]
    # Two directories in turn: what was seen of one says nothing of the other.
    assert found(CodeIndex(tmp_path / "index", root / "few"), root / "few", "straw") == ["a.py"]
    assert len(found(index, root, "hay")) == 20
