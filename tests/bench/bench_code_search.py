"""`search_code` beside grep: who finds the file that answers a question, how long the index takes and a query.

Run: python -m tests.bench.bench_code_search
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import textual

import ollm_tui
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.search.code_index import CodeIndex, IndexSource
from ollm_tui.core.search.code_ranking import terms_of
from ollm_tui.core.search.code_vectors import CodeVectors
from ollm_tui.core.search.embedder import installed_embedder
from ollm_tui.core.search.listing import Listing, ListingOptions
from ollm_tui.core.search.workspace_scan import MOST_BYTES

QUESTIONS = Path(__file__).parent.parent / "data" / "code_questions.toml"
SOURCES = {"textual": Path(textual.__file__).parent, "ollm_tui": Path(ollm_tui.__file__).parent}
WITH_TESTS = "ollm_tui with its tests and documents"
DEPTH = 10
MANY_FILES = 5_000
SUFFIXES = {".py", ".pyi", ".js", ".ts", ".md", ".h", ".c"}
GOAL_MS = 10


def source_of(root: Path) -> IndexSource:
    handle = DirHandle(os.fsencode(root) + b"/", os.open(root, os.O_RDONLY | os.O_DIRECTORY))
    return IndexSource(Listing(handle, os.fsencode(root), ListingOptions(skip_credentials=True, include_ignored=True)))


def by_index(folder: Path, root: Path, meaning: CodeVectors | None = None) -> Callable[[str], list[str]]:
    index = CodeIndex(folder, root, meaning)

    def ask(question: str) -> list[str]:
        found = index.search(source_of(root), question, DEPTH * 2)
        names = dict.fromkeys(os.fsdecode(match.path) for match in found.places)
        return [name for name in names if not name.endswith(QUESTIONS.name)][:DEPTH]  # it holds every word

    return ask


def by_grep(root: Path, suffix: str = "") -> Callable[[str], list[str]]:
    """The files of the index (those with a suffix), by how many different words of the question they hold, then by how often."""
    paths = [root / os.fsdecode(path) for path in source_of(root).listing.files(links=False)]
    texts = {
        str(path.relative_to(root)): path.read_text("utf-8", "replace").lower()
        for path in paths
        if path.name != QUESTIONS.name
        and path.name.endswith(suffix)
        and path.stat().st_size <= MOST_BYTES
        and b"\0" not in path.read_bytes()
    }

    def ask(question: str) -> list[str]:
        counts = {
            name: (
                sum(term in text for term in terms_of(question)),
                sum(text.count(term) for term in terms_of(question)),
            )
            for name, text in texts.items()
        }
        return sorted(counts, key=lambda name: (*(-number for number in counts[name]), name))[:DEPTH]

    return ask


def ranks(ask: Callable[[str], list[str]], questions: dict[str, Sequence[str]]) -> list[int]:
    """Return the place of the right file for each question; 0 where it is not among the first."""
    found: list[int] = []
    for question, answers in questions.items():
        names = ask(question)
        found.append(next((place for place, name in enumerate(names, 1) if name.endswith(tuple(answers))), 0))
    return found


def mean_reciprocal_rank(places: Sequence[int]) -> float:
    return sum(1 / place for place in places if place) / len(places)


def many_files(folder: Path) -> Path:
    """Copy up to MANY_FILES of the installed packages."""
    source = Path(sysconfig.get_path("purelib"))
    texts = (path for path in sorted(source.rglob("*")) if path.suffix in SUFFIXES and path.is_file())
    for path in islice(texts, MANY_FILES):
        copy = folder / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return folder


def milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def print_speed(folder: Path, questions: Sequence[str]) -> None:
    """Print what a query takes in many files: whole, without the look at each file, and beside a reference."""
    root = many_files(folder / "many")
    whole = by_index(folder, root)
    began, used = time.perf_counter(), time.process_time()
    whole("anything")
    built, worked = time.perf_counter() - began, time.process_time() - used
    index = CodeIndex(folder, root)
    took: list[float] = []
    scans: list[float] = []
    used_by_query: list[float] = []
    for question in questions:  # in turn, as the machine may do something else meanwhile
        used = time.process_time()
        took.append(milliseconds(lambda asked=question: whole(asked)))
        between = time.process_time()
        scans.append(milliseconds(lambda: index.search(source_of(root), "?", DEPTH)))  # asks for no word
        used_by_query.append((2 * between - used - time.process_time()) * 1000)
    program = shutil.which("rg") or "grep"
    options = ["-ilF", "--no-ignore"] if program != "grep" else ["-rilF"]

    def reference(question: str) -> object:
        words = [f"-e{term}" for term in terms_of(question)]
        return subprocess.run([program, *options, *words, "."], cwd=root, capture_output=True, check=False)

    beside = statistics.median(milliseconds(lambda asked=question: reference(asked)) for question in questions)
    asked = statistics.median(all_of_it - scan for all_of_it, scan in zip(took, scans, strict=True))
    p50, scan = statistics.median(took), statistics.median(scans)
    count = sum(1 for _ in source_of(root).listing.files(links=False))
    print(f"{count:,} files: built in {built:.1f} s (goal 15); a query p50 {asked:.1f} ms (goal {GOAL_MS})")
    print(f"  of processors: built in {worked:.1f} s; a query p50 {statistics.median(used_by_query):.1f} ms")
    print(f"  with the look at each file {p50:.1f} ms, that alone {scan:.1f} ms (goal 30)")
    print(f"  {Path(program).name} for the same words {beside:.1f} ms; whole query / reference: {p50 / beside:.2f}")


def main() -> None:
    questions = tomllib.loads(QUESTIONS.read_text())
    folder = Path(tempfile.mkdtemp(prefix="ollm-bench-"))
    try:
        print_speed(folder, [question for each in questions.values() for question in each])
        questions[WITH_TESTS] = questions["ollm_tui"]
        for name, root in (*SOURCES.items(), (WITH_TESTS, SOURCES["ollm_tui"].parent)):
            began = time.perf_counter()
            index = by_index(folder, root)
            index("anything")
            built = time.perf_counter() - began
            began = time.perf_counter()
            places = {"search_code": ranks(index, questions[name])}
            asked = (time.perf_counter() - began) / len(questions[name])
            if (model := installed_embedder()) is not None:
                meaning = CodeVectors(model)
                began = time.perf_counter()
                fused = by_index(folder, root, meaning)
                while CodeIndex(folder, root, meaning).search(source_of(root), "anything", 1).keyword_only:
                    time.sleep(0.5)
                print(f"{name}: read by meaning in {time.perf_counter() - began:.0f} s")
                began = time.perf_counter()
                places["and meaning"] = ranks(fused, questions[name])
                took = (time.perf_counter() - began) / len(questions[name])
                print(f"{name}: a query by words and meaning {took * 1000:.1f} ms")
                meaning.close()
            places["grep"] = ranks(by_grep(root), questions[name])
            places["grep in .py"] = ranks(by_grep(root, ".py"), questions[name])
            print(f"{name}: {len(questions[name])} questions; built in {built:.2f} s, a query {asked * 1000:.1f} ms")
            for way, found in places.items():
                hits = "  ".join(f"hit@{depth} {sum(0 < place <= depth for place in found)}" for depth in (1, 5, 10))
                print(f"  {way:<12} {hits}  MRR {mean_reciprocal_rank(found):.2f}")
            for way in ("grep", "grep in .py"):
                ratio = mean_reciprocal_rank(places["search_code"]) / mean_reciprocal_rank(places[way])
                print(f"  MRR search_code / {way}: {ratio:.2f} (goal 1.2)")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
