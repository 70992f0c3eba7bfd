"""`git_status` beside git, `run_tests` beside pytest, and the preview of `install_package` beside pip's own dry run.

Run: python -m tests.bench.bench_project_tools. Goals: 1.3x of git, 100 ms more than pytest, 1.3x of pip. The arms take
turns; `install_package` is asked for an environment with 30 packages, from an index on this machine.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.packages.pip_packages import PipInstaller
from ollm_tui.core.tools.base import AnyTool
from ollm_tui.core.tools.git_reading import GIT_STATUS
from ollm_tui.core.tools.run_tests import RUN_TESTS
from tests.core.tools.file_calls import Room, run
from tests.core.tools.git_repositories import make_repository
from tests.core.tools.package_index import Index, only_index

ROUNDS = 11
PACKAGES = 30


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        git_status(Path(folder))
        run_tests(Path(folder))
        if find_spec("pip") is None:
            print("install_package: skipped, pip is not installed")
            return
        with only_index(patch, Path(folder)) as index:
            install_package(Path(folder), index)


def git_status(folder: Path) -> None:
    room = room_in(folder / "git")
    root = make_repository(room.folder, {f"d{n % 50}/f{n}.py": f"{n}\n" for n in range(2_000)})
    for number in range(20):
        (root / f"d{number}/f{number}.py").write_text("changed\n")
    command = ["git", "-C", str(root), "status", "--porcelain=v2", "-z", "--branch"]
    compare("git_status of 2,000 files", lambda: plain(command), caller(room, GIT_STATUS), "goal 1.3x")


def run_tests(folder: Path) -> None:
    room = room_in(folder / "tests")
    room.write("test_yak.py", "".join(f"def test_{number}(): pass\n" for number in range(50)))
    room.write(".venv/bin/x")
    (room.folder / ".venv/bin/python").symlink_to(sys.executable)
    command = [".venv/bin/python", "-m", "pytest"]
    compare("run_tests of 50 tests", lambda: plain(command, room.folder), caller(room, RUN_TESTS), "goal: 100 ms more")


def install_package(folder: Path, index: Index) -> None:
    for number in range(PACKAGES):
        index.add_wheel(f"yak{number}", "1.0", f"yak{number + 1}" if number + 1 < PACKAGES else "")
    room = room_in(folder / "packages")
    venv = room.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    path = "/usr/local/bin:/usr/bin:/bin"
    report = ["install", "--dry-run", "--quiet", "--report", f"{folder}/report.json", "--only-binary=:all:", "yak0"]
    command = [sys.executable, "-I", "-m", "pip", "--python", f"{venv}/bin/python", "--disable-pip-version-check"]

    def ours() -> None:
        plan = PipInstaller(room.folder, ["yak0"], path).plan(AbortController().signal)
        assert len(plan.packages) == PACKAGES

    compare(f"install_package's preview of {PACKAGES} packages", lambda: plain([*command, *report]), ours, "goal 1.3x")
    inside = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", *report]
    compare("  beside pip in its own environment", lambda: plain(inside), ours, "goal 1.3x")


def room_in(folder: Path) -> Room:
    folder.mkdir()
    return Room(folder)


def caller(room: Room, tool: AnyTool) -> Callable[[], object]:
    """Return what calls a tool without arguments."""

    async def whole() -> None:
        try:
            result = await run(room.invocation(tool))
            assert result.ok, result.llm_content
        finally:
            await room.context.defaults.aclose()

    return lambda: asyncio.run(whole())


def plain(command: list[str], folder: Path | None = None) -> None:
    subprocess.run(command, cwd=folder, capture_output=True, check=True)


def compare(what: str, theirs: Callable[[], object], ours: Callable[[], object], goal: str) -> None:
    rounds = [(spent(theirs), spent(ours)) for _ in range(ROUNDS + 1)][1:]
    for kind, name in enumerate(("", "  of processors")):
        reference, own = (statistics.median(arm[kind] for arm in arms) for arms in zip(*rounds, strict=True))
        ratio = statistics.median(mine[kind] / other[kind] for other, mine in rounds)
        more = statistics.median(mine[kind] - other[kind] for other, mine in rounds)
        print(f"{name or what}: {own:.0f} ms, plain {reference:.0f} ms: {ratio:.2f}x, {more:+.0f} ms ({goal})")


def spent(act: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds that passed, and those of processors, also by programs that were started."""
    began, used = time.perf_counter(), processor_time()
    act()
    return (time.perf_counter() - began) * 1000, (processor_time() - used) * 1000


def processor_time() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
