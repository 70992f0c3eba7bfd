"""Benchmarks of two commits beside each other: what is compared with what, and that nothing is left behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.compare import Row, rows, side_by_side

BENCH = Path(__file__).parent / "bench"


def test_each_number_that_differs_stands_in_a_row_of_its_own() -> None:
    found = rows(
        ["crlf: edit_file 12.5 ms, cp && sync 4.0 ms, ratio 3.1"],
        ["crlf: edit_file 25.0 ms, cp && sync 4.2 ms, ratio 6"],
    )
    assert found == [
        Row("crlf: edit_file [ms]", 12.5, 25.0),
        Row("crlf: edit_file / cp && sync [ms]", 4.0, 4.2),
        Row("crlf: edit_file / ratio", 3.1, 6.0),
    ]


def test_sizes_and_goals_are_part_of_the_text() -> None:
    [row] = rows(
        ["line of 193 characters, new 402.0 us (wanted: at most 300)"],
        ["line of 193 characters, new 201.0 us (wanted: at most 300)"],
    )
    assert row == Row("line of 193 characters, new [us]", 402.0, 201.0)
    assert str(row).split()[-3:] == ["402", "201", "0.50x"]


def test_columns_of_a_table_are_counted_those_that_did_not_change_included() -> None:
    found = rows(["10 characters 85 5 25"], ["10 characters 76 5 23"])
    assert found == [Row("10 characters", 85, 76), Row("10 characters / 3", 25, 23)]


def test_of_several_runs_the_medians_count() -> None:
    assert rows(["of 3: 8 ms", "of 3: 4 ms", "of 3: 900 ms"], ["of 3: 1 ms", "of 3: 2 ms", "of 3: 3 ms"]) == [
        Row("of 3 [ms]", 8, 2)
    ]


def test_lines_belong_together_by_their_words_and_not_by_their_place() -> None:
    before = "Python 3.11.7\nfirst 1.0 ms (goal 5)\nsecond 8.0 ms\ngone 1 ms\n"
    now = "Python 3.11.7\nsecond    2.0 ms\nfirst 2.0 ms (goal 5, MISSED)\nadded 7 ms\n"
    lines = list(side_by_side([before], [now]))
    assert [line.split()[0] for line in lines] == ["second", "first", "only", "only"]
    assert lines[0].endswith("0.25x") and lines[1].endswith("2.00x")
    assert lines[2:] == ["only now: added 7 ms", "only before: gone 1 ms"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_each_side_runs_its_own_benchmarks_and_the_other_commit_is_cleared_away(tmp_path: Path) -> None:
    here = tmp_path / "project"
    shutil.copytree(BENCH, here / "tests" / "bench", ignore=shutil.ignore_patterns("bench_*", "__pycache__"))
    (here / "tests" / "__init__.py").touch()
    bench = here / "tests" / "bench" / "bench_one.py"
    module = here / "measured.py"

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *identity, *arguments], cwd=here, check=True, capture_output=True, text=True
        ).stdout

    git("init", "--quiet")
    module.write_text("TAKEN = 4\n")
    bench.write_text("import measured\nprint('reading', measured.TAKEN, 'ms')\n")
    git("add", "-A")
    git("commit", "--quiet", "-m", "before")
    module.rename(here / "moved.py").write_text("TAKEN = 2\n")
    bench.write_text("import moved\nprint('reading', moved.TAKEN, 'ms')\n")
    command = [sys.executable, "-m", "tests.bench", "--compare", "HEAD", "one"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["reading", "[ms]", "4", "2", "0.50x"]
    assert len(git("worktree", "list").splitlines()) == 1
    done = subprocess.run([*command[:-2], "nowhere"], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no commit 'nowhere'" in done.stderr
