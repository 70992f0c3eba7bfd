"""Ranges of a 256 MB file beside `wc -l`, and 100 MB of output excerpted beside `head | cat`.

Run: python -m tests.bench.bench_read. Prints medians, ratios and memory; the arms take turns.
"""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.output import ExcerptBuffer
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.files.line_index import LineIndexes
from ollm_tui.core.shell.command_loop import READ_AT_ONCE
from ollm_tui.core.tools import read_file
from ollm_tui.core.tools.context import ToolContext

ROUNDS = 7
LINE = b"a line of a long file, as builds and servers write them by the million\n"
FILE_SIZE = 256_000_000
OUTPUT_SIZE = 100_000_000


def main() -> None:
    version = subprocess.run(["wc", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    print(f"{version}; Python {platform.python_version()}; median of {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "huge.log"
        with open(path, "wb") as file:
            block = LINE * 20_000
            for _ in range(FILE_SIZE // len(block)):
                file.write(block)
        asyncio.run(ranges(path))
        output(path)


async def ranges(path: Path) -> None:
    context = ToolContext(bus=MessageBus(), workspace=Workspace(path.parent))
    total = os.path.getsize(path) // len(LINE)

    async def page(start: int) -> None:
        arguments = {"path": path.name, "startLine": start, "endLine": start + 199}
        invocation = read_file.READ_FILE.create_invocation(arguments, context)
        result = await invocation.execute(AbortController().signal)
        assert result.llm_content.count("\n") == 199

    counted, first, second = [], [], []
    before = peak_memory()
    for _ in range(ROUNDS):
        counted.append(timed(lambda: subprocess.run(["wc", "-l", path], capture_output=True, check=True)))
        read_file.line_indexes = LineIndexes()
        first.append(await timed_async(page(total - 250)))
        second.append(await timed_async(page(total - 450)))
    grown = peak_memory() - before
    reference = statistics.median(counted)
    ratio = statistics.median(first) / reference
    print(f"wc -l {reference * 1000:.1f} ms; 200 lines at the end {statistics.median(first) * 1000:.1f} ms")
    print(f"range / wc -l: {ratio:.2f} (goal 6{'' if ratio <= 6 else ', MISSED'})")
    again = statistics.median(second) * 1000
    print(f"second page: {again:.2f} ms (goal 5{'' if again <= 5 else ', MISSED'})")
    print(f"memory: +{grown / 1e6:.1f} MB (goal 10{'' if grown <= 10e6 else ', MISSED'})")


def output(path: Path) -> None:
    copied, excerpted = [], []
    before = peak_memory()
    for _ in range(ROUNDS):
        copy = f"head -c {OUTPUT_SIZE} {path} | cat >/dev/null"
        copied.append(timed(lambda: subprocess.run(["sh", "-c", copy], check=True)))  # noqa: B023  # called at once
        excerpted.append(timed(lambda: excerpt_of(path)))
    grown = peak_memory() - before
    reference, ours = statistics.median(copied), statistics.median(excerpted)
    ratio = ours / reference
    print(f"head | cat {reference * 1000:.1f} ms; head into an excerpt {ours * 1000:.1f} ms")
    print(f"excerpt / cat: {ratio:.2f} (goal 1.25{'' if ratio <= 1.25 else ', MISSED'})")
    print(f"memory: +{grown / 1e6:.1f} MB (goal 8{'' if grown <= 8e6 else ', MISSED'})")


def excerpt_of(path: Path) -> None:
    buffer = ExcerptBuffer(100_000, 2_000)
    with subprocess.Popen(["head", "-c", str(OUTPUT_SIZE), path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while piece := os.read(descriptor, READ_AT_ONCE):
            buffer.feed_bytes(piece)
    assert buffer.total_chars == OUTPUT_SIZE
    assert buffer.excerpt().truncated


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


async def timed_async(run: Awaitable[None]) -> float:
    started = time.perf_counter()
    await run
    return time.perf_counter() - started


def peak_memory() -> int:
    """Bytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
