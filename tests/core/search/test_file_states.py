"""What a second look at the files of an index finds, and that nothing of it is taken for granted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.search.code_index import CodeIndex, IndexSource
from ollm_tui.core.search.file_states import FileStates
from ollm_tui.core.search.listing import Listing, ListingOptions


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
