"""Two commits side by side: each runs its own benchmarks on this machine, one benchmark of each after the other.

Benchmarks print lines for people. Lines that are the same but for their numbers belong together; a number that is the
same in all runs is part of the text (a size, a goal), the others are what was measured.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_MISSED = re.compile(r", MISSED")
_TEXT_WIDTH = 72


@dataclass(frozen=True)
class Row:
    """One number of a line, as both sides measured it."""

    text: str
    before: float
    now: float

    def __str__(self) -> str:
        ratio = f"{self.now / self.before:8.2f}x" if self.before else "        -"
        return f"{self.text[:_TEXT_WIDTH]:<{_TEXT_WIDTH}} {self.before:>12,.10g} {self.now:>12,.10g} {ratio}"


def compare(reference: str, words: Collection[str], here: Path, rounds: int = 1) -> int:
    """Print the benchmarks of `reference` beside those of `here`; return how many of these failed."""
    failed = 0
    with _checked_out(reference, here) as there:
        names = sorted({*_benches(there, words), *_benches(here, words)})
        print(f"{'':<{_TEXT_WIDTH}} {reference[:12]:>12} {'now':>12} {'ratio':>9}")
        for name in names:
            print(f"\n== {name} ==", flush=True)
            outputs: dict[Path, list[str]] = {there: [], here: []}
            codes: list[int] = []
            for turn in range(rounds):
                for root in (there, here) if turn % 2 == 0 else (here, there):  # neither is always the first
                    output, code = _run(root, name)
                    outputs[root].append(output)
                    codes += [code] if root == here else []
            failed += any(codes)
            for line in side_by_side(outputs[there], outputs[here]):
                print(line)
    return failed


def side_by_side(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield a row for each number that differs, then the lines that only one side has. Of several runs medians count."""
    there, here = _lines(before), _lines(now)
    for text, runs in here.items():
        if text in there:
            yield from map(str, rows(there[text], runs))
    yield from (f"only now: {runs[0]}" for text, runs in here.items() if text not in there)
    yield from (f"only before: {runs[0]}" for text, runs in there.items() if text not in here)


def rows(before: Sequence[str], now: Sequence[str]) -> list[Row]:
    """The numbers of a line that differ between runs, each with the words that it stands among."""
    old, new = _numbers(before), _numbers(now)
    found: list[Row] = []
    line = now[0]
    head, since, last, column = "", 0, 0, 0
    for match, was, has in zip(_NUMBER.finditer(line), old, new, strict=True):
        words = line[since : match.start()].strip(" ,;:()+")
        column = 1 if line[last : match.start()].strip() else column + 1
        last = match.end()
        if len({*was, *has}) == 1:
            continue
        unit = re.match(r"\s?[^\W\d]\S*|%", line[match.end() :])
        since = last = match.end() + (unit.end() if unit else 0)
        words = words if any(map(str.isalpha, words)) else ""
        head = head or words
        text = words if words == head or not head else f"{head} / {words or column}"
        name = f"{text} [{unit.group().strip(' ,;:()')}]" if unit else text
        found.append(Row(name, statistics.median(was), statistics.median(has)))
    return found


def _lines(outputs: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    """Every line with a number, over all runs, by its words and by which of the lines with these words it is."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for output in outputs:
        seen: Counter[str] = Counter()
        for line in output.splitlines():
            clean = " ".join(_MISSED.sub("", line).split())
            text = _NUMBER.sub("#", clean)
            if text != clean:
                found[text, seen[text]].append(clean)
                seen[text] += 1
    return found


def _numbers(lines: Sequence[str]) -> list[tuple[float, ...]]:
    """The values of each number of a line, over all runs."""
    return list(zip(*([_value(match.group()) for match in _NUMBER.finditer(line)] for line in lines), strict=True))


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _benches(root: Path, words: Collection[str]) -> list[str]:
    names = [path.stem.removeprefix("bench_") for path in (root / "tests" / "bench").glob("bench_*.py")]
    return [name for name in names if not words or any(word in name for word in words)]


def _run(root: Path, name: str) -> tuple[str, int]:
    """The output and exit code of one benchmark, on the code below `root` and the packages installed here."""
    if not (root / "tests" / "bench" / f"bench_{name}.py").exists():
        return "", 0
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", f"tests.bench.bench_{name}"]
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout, done.returncode


@contextmanager
def _checked_out(reference: str, here: Path) -> Iterator[Path]:
    """A worktree of a commit in a temporary folder. Raises CalledProcessError where git does not know it."""
    with tempfile.TemporaryDirectory(prefix="ollm-bench-") as folder:
        place = Path(folder, "before")
        add = ["git", "worktree", "add", "--quiet", "--detach", str(place), f"{reference}^{{commit}}"]
        subprocess.run(add, cwd=here, check=True)
        try:
            # Only the first run of a module would compile it, and here that has happened long ago.
            subprocess.run(
                [sys.executable, "-m", "compileall", "-q", "ollm_tui", "tests/bench"], cwd=place, check=False
            )
            yield place
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(place)], cwd=here, check=False)
