"""The journal and undo: what an edit costs more, a scan of 5,000 files beside their bare stat, undo of 100 files.

Run: python tests/bench/bench_undo.py. Goals: 1 ms an edit, 30 ms a scan, 200 ms an undo on a quiet core.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ollm_tui.core.files.journal import EntryState, change_between, with_state
from ollm_tui.core.files.journal_states import Place, look_at
from ollm_tui.core.files.journal_undo import Undo, open_undo
from ollm_tui.core.search.workspace_scan import scan_workspace

ROUNDS = 15


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "workspace")
        for directory in range(100):
            (root / f"d{directory}").mkdir(parents=True)
            for number in range(50):
                (root / f"d{directory}/f{number}.py").write_text(f"{number}\n" * 1500)
        undo = open_undo(Path(folder, "state"), root)
        edit(undo, root)
        undo_hundred(undo, root)
        time.sleep(2.1)  # until directories count as settled
        scan_workspace(str(root))
        files = [os.fsencode(root) + b"/" + path for path in scan_workspace(str(root)).files]
        scan = median(lambda: scan_workspace(str(root)))
        bare = median(lambda: [os.stat(path) for path in files])
        print(f"scan of {len(files):,} files: {scan:.1f} ms; bare stat: {bare:.1f} ms; ratio {scan / bare:.2f}")
        undo.journal.store.close()


def edit(undo: Undo, root: Path) -> None:
    times: list[float] = []
    for number in range(100):
        path = root / f"d{number}/f0.py"
        times.append(change(undo, root, path, f"{number}\n" * 1400))
    print(f"journal of one edit (10 kB): median {statistics.median(times):.2f} ms")


def change(undo: Undo, root: Path, path: Path, text: str) -> float:
    """Change a file as a tool does; return the journal's milliseconds."""
    place = Place(str(root), str(path.relative_to(root)))
    started = time.perf_counter()
    before = look_at(place)
    entry = undo.journal.begin("call", "edit_file", "Edit", [before.content or b""])
    between = time.perf_counter()
    path.write_text(text)
    resumed = time.perf_counter()
    after = look_at(place)
    changed = change_between(place, before, after)
    undo.journal.save(with_state(entry, EntryState.DONE, [changed] if changed else []), [after.content or b""])
    return (time.perf_counter() - resumed + between - started) * 1000


def undo_hundred(undo: Undo, root: Path) -> None:
    undo.journal.turn = "t1"
    for number in range(100):
        change(undo, root, root / f"d{number}/f1.py", f"new {number}\n")
    started = time.perf_counter()
    steps = undo.find("t1")
    planned = time.perf_counter()
    undo.apply(steps, "Undo")
    print(f"undo of {len(steps)} files: {ms(started):.0f} ms, of which the plan {(planned - started) * 1000:.0f} ms")


def median(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(ms(started))
    return statistics.median(times)


def ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    sys.exit(main())
