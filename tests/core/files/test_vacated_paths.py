"""A path that a call moved away or deleted counts as existing for a day: writing or moving there asks."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import JsonValue

from ollm_tui.cli import main
from ollm_tui.core.base.clock import SystemClock
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.files.unasked_writes import REMEMBERED
from ollm_tui.core.files.vacated_paths import VacatedPaths
from ollm_tui.core.storage.store import Store
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, configure, open_core
from ollm_tui.testing.fakes import FakeClock


async def decided(executor: ToolExecutor, tool: str, **arguments: JsonValue) -> str:
    return (await executor.explain(tool, {key.rstrip("_"): value for key, value in arguments.items()})).decision.value


async def test_writing_or_moving_where_a_call_moved_something_away_asks(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("mine\n")
    (tmp_path / "b.py").write_text("other\n")
    async with open_core(configure(Options(workspace=tmp_path)), Attendance.NOBODY) as core:
        run = core.executor.execute
        assert (await run("move_file", {"from": "a.py", "to": "z/a.py"})).ok
        written = await run("write_file", {"path": "a.py", "content": "swapped\n"})
        assert written.error is not None and written.error.details["decision"] == "ask"
        explanation = await core.executor.explain("write_file", {"path": "a.py", "content": "swapped\n"})
        assert explanation.reason.endswith("; what was there was moved away or deleted by a call within a day")
        moved = await run("move_file", {"from": "b.py", "to": "a.py"})
        assert moved.error is not None and moved.error.details["decision"] == "ask"
        assert await decided(core.executor, "write_file", path="c.py", content="new") == "allow"
    assert not (tmp_path / "a.py").exists()
    async with open_core(configure(Options(workspace=tmp_path)), Attendance.NOBODY) as later:
        assert await decided(later.executor, "write_file", path="a.py", content="x") == "ask", "also after a restart"


async def test_every_spelling_of_the_path_is_the_path(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("mine\n")
    (tmp_path / "link").symlink_to("src")
    (tmp_path / "to_file").symlink_to("src/a.py")
    async with open_core(configure(Options(workspace=tmp_path)), Attendance.NOBODY) as core:
        assert (await core.executor.execute("move_file", {"from": "link/a.py", "to": "b.py"})).ok
        for path in ("src/a.py", "./src//a.py", str(tmp_path / "src" / "a.py"), "link/../src/a.py", "to_file",
                     "src/A.py", "src/a.py.", "src/a.py/below"):  # fmt: skip
            assert await decided(core.executor, "write_file", path=path, content="x") == "ask", path
        assert await decided(core.executor, "write_file", path="src/aa.py", content="x") == "allow"


async def test_a_directory_that_was_moved_away_covers_what_lay_in_it(tmp_path: Path) -> None:
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    (tmp_path / "pack" / "deep" / "a.py").write_text("mine\n")
    (tmp_path / "evil").mkdir()
    async with open_core(configure(Options(workspace=tmp_path)), Attendance.NOBODY) as core:
        assert (await core.executor.execute("move_file", {"from": "pack/deep/a.py", "to": "x.py"})).ok
        (tmp_path / "pack" / "deep").rmdir()
        (tmp_path / "pack").rmdir()
        assert await decided(core.executor, "move_file", from_="evil", to="pack") == "ask", "it would hold a.py again"
        assert (await core.executor.execute("move_file", {"from": "evil", "to": "other"})).ok
        assert await decided(core.executor, "write_file", path="evil/new.py", content="x") == "ask"


async def test_a_deleted_path_counts_too(tmp_path: Path) -> None:
    (tmp_path / "t.sh").write_text("echo mine\n")
    async with open_core(configure(Options(workspace=tmp_path)), Attendance.YES) as core:
        assert (await core.executor.execute("delete_file", {"path": "t.sh"})).ok
        assert await decided(core.executor, "write_file", path="t.sh", content="x") == "ask"


def test_policy_check_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("mine\n")
    place = ["-C", str(tmp_path)]
    move = ["tool", "call", "move_file", json.dumps({"from": "a.py", "to": "b.py"}), *place]
    assert main(move) == 0
    capsys.readouterr()
    write = ["policy", "check", "write_file", json.dumps({"path": "a.py", "content": "x"}), *place]
    assert main(write) == 0
    assert json.loads(capsys.readouterr().out)["decision"] == "ask"


def test_a_path_is_remembered_for_a_day_by_all_processes(tmp_path: Path) -> None:
    clock = FakeClock()
    one, other = (VacatedPaths(Store(tmp_path / "ollm.db"), clock) for _ in range(2))
    path = Path("/w/gone\udcff.py")
    assert not other.covers(path)
    one.note(path)
    assert other.covers(path)
    clock.advance((REMEMBERED - timedelta(seconds=1)).total_seconds())
    assert other.covers(path)
    clock.advance(2)
    assert not other.covers(path)


def test_what_cannot_be_told_counts_as_existing(tmp_path: Path) -> None:
    store = Store(tmp_path / "ollm.db")
    vacated = VacatedPaths(store, SystemClock())
    vacated.note(Path("/w/a"))
    store.close()
    assert vacated.covers(Path("/w/b"))
