"""`edit_file` on a 10 MB file beside `cp FILE COPY && sync COPY`: one edit found, checked, written and made to last.

Run: python tests/bench/bench_edit.py. Prints medians and their ratio; both arms take turns.
"""

from __future__ import annotations

import asyncio
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.edit_file import EDIT_FILE

SIZE = 10_000_000
ROUNDS = 15


def main() -> None:
    version = subprocess.run(["cp", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    print(f"{version}; Python {platform.python_version()}; {SIZE:,} bytes; median of {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        for kind, letter in (("ASCII", "a"), ("UTF-8 with other letters", "ä")):
            measure(Path(folder), kind, letter)


def measure(folder: Path, kind: str, letter: str) -> None:
    place = folder / "file.txt"
    line = f"{letter} line of text that could be code, number %08d\n"
    count = SIZE // len((line % 0).encode())
    place.write_text("".join(line % number for number in range(count)))
    edits, copies = [], []
    for number in range(ROUNDS):
        copies.append(timed_copy(place))
        # What is near the end takes the longest to find; each round changes another line.
        target = f"number {count - 20 + number:08d}\n"
        edits.append(asyncio.run(timed_edit(folder, target, f"number {number:08d} changed\n")))
    edit, copy = statistics.median(edits), statistics.median(copies)
    print(f"{kind}: edit_file {edit * 1000:.1f} ms, cp && sync {copy * 1000:.1f} ms, ratio {edit / copy:.2f}")


def timed_copy(place: Path) -> float:
    copy = place.with_suffix(".copy")
    started = time.perf_counter()
    subprocess.run(["sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", place, copy], check=True)
    elapsed = time.perf_counter() - started
    copy.unlink()
    return elapsed


async def timed_edit(folder: Path, target: str, replacement: str) -> float:
    context = ToolContext(bus=MessageBus(), workspace=Workspace(folder))
    signal = AbortController().signal
    arguments = {"path": "file.txt", "edits": [{"target": target, "replacement": replacement}]}
    started = time.perf_counter()
    call = EDIT_FILE.create_invocation(arguments, context)
    await call.check(signal)
    result = await call.execute(signal)
    elapsed = time.perf_counter() - started
    assert result.ok
    return elapsed


if __name__ == "__main__":
    sys.exit(main())
