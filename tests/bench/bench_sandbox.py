"""Cages measured: what they add to a command, to 100 MB in a pipe, and what looking through a workspace costs.

Run it: `python -m tests.bench.bench_sandbox`. Every reference is the same command outside, or the engine alone, in turns
with ours.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage, BubblewrapLookCage
from ollm_tui.core.sandbox.covers import Covers
from ollm_tui.core.sandbox.engines import WORK_ENGINES, Sandbox, SandboxMode, SandboxSettings, bubblewrap, work_report
from ollm_tui.core.sandbox.look import LookCage
from ollm_tui.core.shell.pty_process import Cage
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.run_code import RUN_CODE

ROUNDS = 40
BWRAP = ["bwrap", "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]


def seconds(argv: Sequence[str], cage: Cage | None = None, folder: Path | None = None) -> float:
    """Return what one command takes from its cage's making to its end."""
    began = time.perf_counter()
    line = argv if cage is None else cage.command(argv, os.environ)

    def start(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        passed = () if cage is None else cage.passed
        return subprocess.Popen(
            list(line), cwd=folder, env=dict(environment), pass_fds=passed, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    process = start(os.environ) if cage is None else cage.start(start, os.environ, None)
    assert process.wait() == 0
    if cage is not None:
        cage.close()
    return time.perf_counter() - began


def in_turns(actions: Mapping[str, Callable[[], float]], rounds: int) -> None:
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            taken[name].append(action())
    first = statistics.median(next(iter(taken.values())))
    for name, values in taken.items():
        median = statistics.median(values)
        print(f"  {name:34} {median * 1000:9.2f} ms   +{(median - first) * 1000:7.2f}   {median / first:6.2f}x")


def cages(folder: Path) -> dict[str, Callable[[], Cage]]:
    """Return how each cage of this machine is made."""
    made: dict[str, Callable[[], Cage]] = {"look, landlock": lambda: LookCage([folder])}
    if not bubblewrap().problem:
        made["look, bubblewrap"] = lambda: BubblewrapLookCage(BubblewrapCage.locate(), [folder])
    for engine in WORK_ENGINES:
        if not work_report(engine).problem:
            sandbox = Sandbox(SandboxSettings(SandboxMode(engine.name)))
            made[f"work, {engine.name}"] = lambda sandbox=sandbox: sandbox.work_cage(Workspace(folder))
    return made


def starting(folder: Path) -> None:
    print(f"`true` from start to end, medians of {ROUNDS}")
    actions = {"bare": lambda: seconds(["/bin/true"], None, folder)}
    with suppress(FileNotFoundError, AssertionError):
        seconds([*BWRAP, "/bin/true"])
        actions["bubblewrap alone"] = lambda: seconds([*BWRAP, "/bin/true"])
    for name, make in cages(folder).items():
        actions[name] = lambda make=make: seconds(["/bin/true"], make(), folder)
    in_turns(actions, ROUNDS)


PROBE = """
import time
from ollm_tui.core.sandbox import engines
from ollm_tui.core.sandbox.look import works
for ask in (works, engines.bubblewrap):
    began = time.perf_counter()
    ask()
    print(time.perf_counter() - began)
"""


def probing() -> None:
    print("\nProbes in a new process, medians of 7")
    taken: dict[str, list[float]] = {
        name: [] for name in ("bubblewrap alone", "landlock", "bubblewrap", "bubblewrap, kept")
    }
    for _ in range(7):
        with tempfile.TemporaryDirectory() as home:
            taken["bubblewrap alone"].append(seconds([*BWRAP, "/bin/true"]))
            for kept in (False, True):
                said = subprocess.run(
                    [sys.executable, "-c", PROBE], env={**os.environ, "HOME": home}, capture_output=True, check=True
                ).stdout.split()
                taken["landlock"].append(float(said[0]))
                taken["bubblewrap, kept" if kept else "bubblewrap"].append(float(said[1]))
    for name, values in taken.items():
        print(f"  {name:34} {statistics.median(values) * 1000:9.2f} ms")


def piping(folder: Path) -> None:
    print("\n400 MB through a pipe, medians of 5")
    line = ["/bin/sh", "-c", "head -c 400000000 /dev/zero | tr a b | wc -c"]
    actions = {"bare": lambda: seconds(line, None, folder)}
    for name, make in cages(folder).items():
        actions[name] = lambda make=make: seconds(line, make(), folder)
    in_turns(actions, 5)


def scanning(folder: Path) -> None:
    for number in range(20_000):
        path = folder / f"d{number // 20}" / f"f{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def walk() -> float:
        began = time.perf_counter()
        assert sum(len(names) for _, _, names in os.walk(folder)) == 20_000
        return time.perf_counter() - began

    def ours() -> float:
        began = time.perf_counter()
        assert not list(Covers(folder).find())
        return time.perf_counter() - began

    print("\nLooking through 20,000 files")
    in_turns({"os.walk": walk, "ours": ours}, 7)


def code(folder: Path) -> None:
    context = ToolContext(bus=MessageBus(), workspace=Workspace(folder), sandbox=Sandbox())

    def ours() -> float:
        began = time.perf_counter()
        call = RUN_CODE.create_invocation({"language": "python", "code": "print(1)"}, context)
        assert asyncio.run(call.execute(AbortController().signal)).exit_code == 0
        return time.perf_counter() - began

    print("\nrun_code `print(1)`, medians of 15")
    in_turns({"python3 -I -c": lambda: seconds(["python3", "-I", "-c", "print(1)"]), "ours": ours}, 15)


def main() -> None:
    print(f"Python {sys.version.split()[0]}, Linux {os.uname().release}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "work")
        folder.mkdir()
        starting(folder)
        if not bubblewrap().problem:
            probing()
        piping(folder)
        code(folder)
        scanning(folder)


if __name__ == "__main__":
    main()
