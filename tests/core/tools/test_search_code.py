"""`search_code`: what is found, kept up to date and left out; and that it beats grep on ordinary questions."""

from __future__ import annotations

import asyncio
import os
import tomllib
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.search import code_index, code_tables
from ollm_tui.core.search.code_chunks import is_test
from ollm_tui.core.search.code_index import CodeIndex
from ollm_tui.core.search.code_ranking import terms_of
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.search_code import SEARCH_CODE, SearchCodeData
from tests.bench.bench_code_search import QUESTIONS, SOURCES, by_grep, by_index, mean_reciprocal_rank, ranks, source_of
from tests.core.tools.git_repositories import write


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def search(root: Path, query: str, **arguments: object) -> ToolResult:
    context = ToolContext(bus=MessageBus(), workspace=Workspace(root))
    call = SEARCH_CODE.create_invocation({"query": query, **arguments}, context)
    return asyncio.run(call.execute(AbortController().signal))


def places(result: ToolResult) -> list[str]:
    assert isinstance(result.data, SearchCodeData)
    return [f"{place.path}:{place.start_line} {place.symbol}".strip() for place in result.data.matches]


def test_names_of_code_are_found_by_their_parts(root: Path) -> None:
    write(
        root, {"a.py": "class HttpServer:\n    def openSocket(self):\n        return 1\n", "b.md": "# About\nnothing\n"}
    )
    assert places(search(root, "open a socket"))[0] == "a.py:2 HttpServer.openSocket"
    assert places(search(root, "http server"))[0].startswith("a.py")
    assert search(root, "openSocket").llm_content.startswith(
        "a.py:2-3 HttpServer.openSocket\n      def openSocket(self):\n          return 1"
    )
    assert search(root, "elephant").llm_content == "No matches found"
    assert "keyword only" in search(root, "elephant").notes


def test_the_index_follows_the_files(root: Path) -> None:
    write(root, {"a.py": "def apple(): pass\n", "b.py": "def banana(): pass\n"})
    assert places(search(root, "apple")) == ["a.py:1 apple"]
    write(root, {"a.py": "def cherry(): pass\n", "sub/c.py": "def apple(): pass\n"})
    (root / "b.py").unlink()
    assert places(search(root, "apple")) == ["sub/c.py:1 apple"]
    assert places(search(root, "cherry")) == ["a.py:1 cherry"]
    assert search(root, "banana").llm_content == "No matches found"


def test_ignored_and_secret_files_data_and_links_are_left_out(root: Path) -> None:
    write(
        root,
        {
            ".gitignore": "build/\n",
            "build/x.py": "apple",
            ".env": "apple=1",
            "long.js": "apple " * 2_000,
            "big.txt": "apple\n" * 200_000,
            "a.txt": "apple\n",
        },
    )
    (root / "binary").write_bytes(b"apple\0")
    os.symlink(root / "a.txt", root / "link.txt")
    assert places(search(root, "apple")) == ["a.txt:1"]


def test_a_file_is_found_by_its_name_before_those_in_a_directory_of_that_name(root: Path) -> None:
    others = {
        f"ripe/apple/{name}.py": f"def {name}():\n    return 1\n\n\n{name}()\n" for name in ("fig", "pear", "plum")
    }
    write(root, {"fruit/ripeApple.py": "def take():\n    return 2\n", **others})
    assert places(search(root, "ripe apple"))[0].startswith("fruit/ripeApple.py:1")
    assert set(places(search(root, "ripe"))) == {
        "fruit/ripeApple.py:1 take",
        *(f"{path}:1 {path[11:-3]}" for path in others),
    }


def test_paths_narrow_the_search(root: Path) -> None:
    write(
        root, {"one/a.py": "apple = 1\n", "two/a.py": "apple = 1\n", "two/b.py": "apple = 1\n", "twofold.py": "apple\n"}
    )
    assert set(places(search(root, "apple", paths=["two"]))) == {"two/a.py:1", "two/b.py:1"}
    assert places(search(root, "apple", paths=["two/b.py"])) == ["two/b.py:1"]
    assert len(places(search(root, "apple", limit=2))) == 2


def test_one_file_does_not_fill_the_results(root: Path) -> None:
    write(root, {"a.py": "".join(f"def apple{n}():\n    apple\n" for n in range(9)), "b.py": "an_apple = 1\n"})
    assert "b.py:1" in places(search(root, "apple", limit=4))


def test_names_of_any_bytes_are_shown_as_everywhere(root: Path) -> None:
    write(root, {"we\nird.py": "apple = 1\n"})
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.py")).write_text("apple = 2\n")
    assert sorted(places(search(root, "apple"))) == ['"\\377.py":1', '"we\\nird.py":1']


def test_a_damaged_index_is_built_anew(root: Path, state: Path) -> None:
    write(root, {"a.py": "def apple(): pass\n"})
    search(root, "apple")
    (index,) = (state / "ollm-tui" / "index").glob("*.db")
    assert index.stat().st_mode & 0o077 == 0
    for damage in (b"", b"no database", index.read_bytes()[:5_000]):
        for each in index.parent.iterdir():
            each.unlink()
        index.write_bytes(damage)
        assert places(search(root, "apple")) == ["a.py:1 apple"]


def test_a_build_that_is_stopped_goes_on_where_it_was(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_index, "COMMIT_EVERY", 10)
    write(root, {f"{number:02}.py": f"apple{number} = 1\n" for number in range(45)})
    controller, index = AbortController(), CodeIndex(tmp_path / "index", root)
    seen: list[tuple[int, int]] = []

    def stop_later(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 20:
            controller.abort("enough")

    source = source_of(root)
    stopped = code_index.IndexSource(source.listing, stop_later, controller.signal.throw_if_aborted)
    with pytest.raises(OperationCancelled):
        index.search(stopped, "apple", 5)
    left: list[tuple[int, int]] = []
    index.search(code_index.IndexSource(source_of(root).listing, lambda *done: left.append(done)), "apple", 5)
    assert seen[-1] == (20, 45) and left == [(10, 25), (20, 25)]


def test_what_is_gone_is_cleared_away_in_the_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_tables, "MOST_STALE", 5)
    for number in range(20):
        write(root, {"a.py": f"def apple{number}(): pass\n"})
        assert places(search(root, f"apple{number}")) == [f"a.py:1 apple{number}"]


def test_words_that_say_nothing_do_not_count_unless_there_are_no_others() -> None:
    assert terms_of("where is the parseHTTPHeader2 of it?") == ["parse", "http", "header", "2"]
    assert terms_of("what is it") == ["what", "is", "it"]
    assert terms_of('"; DROP TABLE files; --') == ["drop", "table", "files"]


def test_it_beats_grep_on_questions_in_ordinary_words(tmp_path: Path) -> None:
    questions = tomllib.loads(QUESTIONS.read_text())["textual"]
    found = ranks(by_index(tmp_path / "index", SOURCES["textual"]), questions)
    plain = ranks(by_grep(SOURCES["textual"]), questions)
    assert mean_reciprocal_rank(found) >= 1.6 * mean_reciprocal_rank(plain)
    assert sum(0 < place <= 10 for place in found) >= 20


def test_tests_stand_behind_the_code_they_test_unless_they_are_asked_for(root: Path) -> None:
    said = '    """Cut the apple into slices."""\n'
    write(
        root,
        {
            "fruit.py": f"def slices(fruit):\n{said}    knife = draw()\n    return knife.cut(fruit)\n",
            "tests/test_fruit.py": f"def test_apple_slices():\n{said}    assert slices(apple)\n    apple.cut()\n",
            "web/fruit.spec.ts": "it('cuts an apple into slices', () => { slices(apple); });\n",
        },
    )
    assert places(search(root, "cut an apple into slices"))[0].startswith("fruit.py")
    assert places(search(root, "test that cuts an apple into slices"))[0].startswith("tests/test_fruit.py")
    assert places(search(root, "apple slices", paths=["tests"])) == ["tests/test_fruit.py:1 test_apple_slices"]


def test_several_good_places_say_more_about_a_file_than_one(root: Path) -> None:
    one = "def apple(x):\n    return x.weigh()\n\n\n"
    other = "".join(f"def {name}(x):\n    return x.{name}()\n\n\n" for name in ("pear", "plum", "fig"))
    many = "".join(f"def apple_{name}(x):\n    return x.weigh()\n\n\n" for name in ("pear", "plum", "fig"))
    write(root, {"a.py": one + other, "b.py": many, "c.py": "x = 1\n", "d.py": "y = 1\n"})
    found = places(search(root, "weigh apple"))
    assert found[0].startswith("b.py") and len(found) == 4


@pytest.mark.parametrize("path", ["latest/a.py", "contest.py", "attested.go", "testament/b.md", "inspector.ts"])
def test_names_that_merely_hold_the_word_are_no_tests(path: str) -> None:
    assert not is_test(path)


@pytest.mark.parametrize(
    "path", ["test_a.py", "x/tests/a.py", "a_test.go", "a.spec.ts", "__tests__/a.js", "conftest.py"]
)
def test_names_that_say_test(path: str) -> None:
    assert is_test(path)
