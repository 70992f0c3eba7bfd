"""`grep`, `glob` and `ls` on a generated tree of 100,000 files beside ripgrep run directly.

Run: python -m tests.bench.bench_search. Prints medians and ratios of the time that passes and, for a machine that has
other things to do, of the processor time of all processes; all arms take turns. The lister remembers folders that have
not changed, so that all rounds but the first profit from it; the arm "first time" forgets them each time.
"""

from __future__ import annotations

import asyncio
import platform
import random
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.dir_handle import DirectoryCache
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.search import listing
from ollm_tui.core.search.ripgrep import find_ripgrep
from ollm_tui.core.tools import grep
from ollm_tui.core.tools.base import Parameters, Tool
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.glob import GLOB
from ollm_tui.core.tools.grep import GREP
from ollm_tui.core.tools.ls import LS, LsData, LsEntry

ROUNDS = 5
WORDS = [f"word{number}" for number in range(500)]


def main() -> None:
    program = find_ripgrep(())
    if program is None:
        raise SystemExit("ripgrep is not installed: nothing to compare with")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        files = grow(Path(folder))
        time.sleep(2.5)  # folders that have just changed are trusted less
        print(f"{version}; Python {platform.python_version()}; {files:,} files; median of {ROUNDS}")
        asyncio.run(measure(Path(folder), str(program)))


def grow(root: Path) -> int:
    """Half of the files are ignored: below node_modules, in build folders, logs."""
    chance = random.Random(1)
    count = 0

    def put(path: Path) -> None:
        nonlocal count
        lines = [" ".join(chance.choices(WORDS, k=7)) for _ in range(chance.randint(4, 14))]
        if count % 97 == 0:
            lines.append(f"needle_here def foo_{count}")
        path.write_text("\n".join(lines) + "\n")
        count += 1

    (root / ".gitignore").write_text("node_modules/\n*.pyc\n__pycache__/\n.venv\n/dist\n*.so\n*.egg-info/\n")
    for outer in range(100):
        package = root / f"p{outer}"
        (package / "build").mkdir(parents=True)
        (package / ".gitignore").write_text("*.log\n!keep.log\n/build/\nsub/*.tmp\n")
        for inner in range(10):
            (package / f"m{inner}").mkdir()
            for number in range(50):
                put(package / f"m{inner}" / f"f{number}{chance.choice(['.py', '.js', '.md', '.txt'])}")
        for number in range(150):
            put(package / "build" / f"f{number}.o")
        for number in range(50):
            put(package / f"f{number}.log")
    for outer in range(300):
        folder = root / "node_modules" / f"x{outer}"
        folder.mkdir(parents=True)
        for number in range(100):
            put(folder / f"f{number}.js")
    return count


async def measure(root: Path, program: str) -> None:
    context = ToolContext(bus=MessageBus(), workspace=Workspace(root))
    search = ["-n", "--hidden", "--no-require-git", "--glob=!.git"]
    same: dict[str, JsonValue] = {
        "includeHidden": True,
        "caseSensitive": True,
    }  # what ripgrep does unless told otherwise

    def tool(tool: Tool[Parameters], arguments: dict[str, JsonValue]) -> Callable[[], Awaitable[ToolResult]]:
        async def run() -> ToolResult:
            return await tool.create_invocation(arguments, context).execute(AbortController().signal)

        return run

    def direct(*arguments: str) -> Callable[[], Awaitable[bytes]]:
        async def run() -> bytes:
            process = await asyncio.create_subprocess_exec(
                program, *arguments, ".", cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            )
            return (await process.communicate())[0]

        return run

    async def without_ripgrep() -> ToolResult:
        installed = grep.ripgrep_for
        grep.ripgrep_for = lambda workspace: None  # the arm that has none
        try:
            return await tool(GREP, {"pattern": "needle_here", **same})()
        finally:
            grep.ripgrep_for = installed

    def first_time(run: Callable[[], Awaitable[ToolResult]]) -> Callable[[], Awaitable[ToolResult]]:
        async def forgetful() -> ToolResult:
            listing.directory_cache = DirectoryCache()
            return await run()

        return forgetful

    async def listing_for_programs() -> tuple[LsEntry, ...]:
        result = await tool(LS, {"maxDepth": 20, "includeHidden": True})()
        assert isinstance(result.data, LsData)
        return result.data.entries

    arms: dict[str, Callable[[], Awaitable[object]]] = {
        "rg literal": direct(*search, "needle_here"),
        "grep literal": tool(GREP, {"pattern": "needle_here", **same}),
        "rg regex": direct(*search, r"def\s+\w+_\d+"),
        "grep regex": tool(GREP, {"pattern": r"def\s+\w+_\d+", **same}),
        "rg many": direct(*search, "word7[0-3] "),
        "grep many": tool(GREP, {"pattern": "word7[0-3] ", **same}),
        "grep first 100 of many": tool(GREP, {"pattern": "word7[0-3] ", "maxResults": 100, **same}),
        "grep without ripgrep": without_ripgrep,
        "rg --files": direct("--files", "--hidden", "--no-require-git", "--glob=!.git"),
        "glob **/*": tool(GLOB, {"pattern": "**/*", "includeHidden": True}),
        "glob **/*, first time": first_time(tool(GLOB, {"pattern": "**/*", "includeHidden": True})),
        "glob **/*.py": tool(GLOB, {"pattern": "**/*.py", "includeHidden": True}),
        "ls maxDepth 20": tool(LS, {"maxDepth": 20, "includeHidden": True}),
        "ls maxDepth 20, data too": listing_for_programs,
    }
    times: dict[str, list[float]] = {name: [] for name in arms}
    worked: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(ROUNDS + 1):
        for name, arm in arms.items():
            started, before = time.perf_counter(), processor_time()
            await arm()
            if turn:  # the first fills the caches of the system
                times[name].append(time.perf_counter() - started)
                worked[name].append(processor_time() - before)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    work = {name: statistics.median(taken) for name, taken in worked.items()}
    for name, taken in medians.items():
        print(f"  {name:24} {taken * 1000:8.1f} ms, {work[name] * 1000:8.1f} ms of processor time")
    for name, beside, goal in (
        ("grep literal", "rg literal", 1.3),
        ("grep regex", "rg regex", 1.3),
        ("grep many", "rg many", 1.3),
        ("grep first 100 of many", "grep many", 0.25),
        ("grep without ripgrep", "rg literal", 4.0),
        ("glob **/*", "rg --files", 1.5),
        ("glob **/*, first time", "rg --files", 1.5),
        ("glob **/*.py", "rg --files", 1.5),
        ("ls maxDepth 20", "rg --files", 2.5),
        ("ls maxDepth 20, data too", "rg --files", 2.5),
    ):
        ratio = medians[name] / medians[beside]
        busy = work[name] / work[beside]
        missed = "" if ratio <= goal else ", MISSED"
        print(f"{name} / {beside}: {ratio:.2f} (goal {goal}{missed}); processor time {busy:.2f}")


def processor_time() -> float:
    """Seconds, of this process and of its children that have ended."""
    usages = [resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
