"""The script that runs the suite: flaky tests are repeated and named, and nothing else passes for one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "suite.py"

FLAKY = """
from pathlib import Path

def test_passes():
    pass

def test_fails_the_first_time(tmp_path):
    been = Path(__file__).with_suffix(".been")
    been_before = been.exists()
    been.touch()
    assert been_before, "not this time"
"""
FLAKY_FIXTURE = """
from pathlib import Path
import pytest

@pytest.fixture
def ground():
    yield
    been = Path(__file__).with_suffix(".been")
    been_before = been.exists()
    been.touch()
    assert been_before, "not cleared away"

def test_leaves_something(ground):
    pass
"""
FAILING = "def test_fails():\n    assert False, 'always'\n"
PASSING = "def test_passes():\n    pass\n"
BROKEN = "import a_module_that_is_nowhere\n"


def suite(folder: Path, *arguments: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a project of these files, without plugins but the one that spreads."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-P", str(SCRIPT), *arguments],
        cwd=folder,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


ONE_PROCESS = ("-n", "0", "--dist", "no")
"""Quicker, where it makes no difference."""


def flaky_lines(output: str) -> list[str]:
    _, _, after = output.partition("\nFLAKY\n")
    return after.splitlines()


def test_a_suite_that_passes_runs_once(tmp_path: Path) -> None:
    done = suite(tmp_path, *ONE_PROCESS, test_one=PASSING)
    assert done.returncode == 0, done.stdout
    assert "Repeating" not in done.stdout and "FLAKY" not in done.stdout


@pytest.mark.parametrize(
    ("text", "name", "why", "options"),
    [
        (FLAKY, "test_one.py::test_fails_the_first_time", "not this time", ()),
        (FLAKY_FIXTURE, "test_one.py::test_leaves_something", "not cleared away", ONE_PROCESS),
    ],
    ids=["test", "fixture"],
)
def test_what_passes_when_repeated_is_named_and_does_not_fail_the_run(
    text: str, name: str, why: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    done = suite(tmp_path, *options, test_one=text, test_two=PASSING)
    assert done.returncode == 0, done.stdout + done.stderr
    [line] = flaky_lines(done.stdout)
    assert line.startswith(f"{name}  ") and why in line


def test_what_fails_again_fails_the_run_and_is_not_named_flaky(tmp_path: Path) -> None:
    done = suite(tmp_path, *ONE_PROCESS, test_one=FLAKY, test_two=FAILING)
    assert done.returncode == 1
    assert [line.split()[0] for line in flaky_lines(done.stdout)] == ["test_one.py::test_fails_the_first_time"]
    assert done.stdout.count("def test_fails()") == 2, "it was to be repeated"


def test_a_file_that_cannot_be_collected_fails_the_run(tmp_path: Path) -> None:
    done = suite(tmp_path, test_one=FLAKY, test_two=BROKEN)
    assert done.returncode != 0
    assert "FLAKY" not in done.stdout and "Repeating" not in done.stdout


def test_a_suite_without_tests_fails(tmp_path: Path) -> None:
    assert suite(tmp_path, *ONE_PROCESS, one="").returncode == 5


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_that_stopped_early_is_not_completed_by_repeating_its_failure(workers: str, tmp_path: Path) -> None:
    done = suite(tmp_path, "-x", "-n", workers, test_one=FLAKY, test_two=FAILING)
    assert done.returncode != 0
    assert "FLAKY" not in done.stdout


def test_arguments_hold_for_both_runs(tmp_path: Path) -> None:
    done = suite(tmp_path, *ONE_PROCESS, "-k", "first_time", test_one=FLAKY, test_two=FAILING)
    assert done.returncode == 0, done.stdout
    assert len(flaky_lines(done.stdout)) == 1
