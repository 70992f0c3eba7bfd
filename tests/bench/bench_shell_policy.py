"""Time of judging command lines not seen before: analysis and read-only verdict, beside the standard library's own word splitter.

Run with `python tests/bench/bench_shell_policy.py`; prints medians, asserts nothing.
"""

from __future__ import annotations

import shlex
import statistics
import sys
import time
from collections.abc import Callable

from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.shell.read_only import read_only_parts
from ollm_tui.core.policy.shell.shell_line import analyse_uncached, bash_accepts

ROUNDS = 400
LINES = {
    "10 characters": "git status",
    "200 characters": (
        "git status --short && git diff --stat HEAD~3 -- src/app tests | head -n 40 && grep -rn 'def judge' src/ tests/"
        ' | sort -u | wc -l; ls -la src/components "some dir/with blanks" && cat README.md docs/x.md'
    ),
    "quotes": "echo " + " ".join(f"'a {number}' \"b $HOME\"" for number in range(8)),
    "wrappers": "sudo env A=1 timeout 5 bash -c 'ls; rm -rf x' && find . -exec sh -c 'cat {}' ';'",
    "opaque": "for i in $(ls); do echo ${i%.py} > out; done; cat <<EOF\nx $(date)\nEOF",
    "8,000 characters": "echo " + "word " * 1_590,
    "300 parts": "ls; " * 300,
}
PATTERNS = [ApprovalPattern.parse(text) for text in ("git status *", "npm run *", "pytest *", "make *")]


def judge(line: str) -> None:
    analysed = analyse_uncached(line)
    read_only_parts(analysed)


def judge_with_approvals(line: str) -> None:
    analysed = analyse_uncached(line)
    read_only_parts(analysed)
    for part in analysed.parts:
        for pattern in PATTERNS:
            pattern.covers(part)


def median_microseconds(arms: list[Callable[[], object]], rounds: int) -> list[float]:
    """Interleaved runs of all arms, median of each."""
    times: list[list[float]] = [[] for _ in arms]
    for _ in range(rounds):
        for arm, record in zip(arms, times, strict=True):
            started = time.perf_counter()
            arm()
            record.append(time.perf_counter() - started)
    return [statistics.median(record) * 1e6 for record in times]


def main() -> None:
    started = time.perf_counter()
    judge("ls")
    print(f"first line, with loading the table and the grammar: {(time.perf_counter() - started) * 1e3:.1f} ms")
    print(f"{'line':<18}{'judged':>10}{'+ approvals':>13}{'shlex.split':>13}  us, Python {sys.version.split()[0]}")
    for name, line in LINES.items():
        arms: list[Callable[[], object]] = [
            lambda line=line: judge(line),
            lambda line=line: judge_with_approvals(line),
            lambda line=line: shlex.split(line),
        ]
        judged, approved, split = median_microseconds(arms, ROUNDS if len(line) < 1_000 else 10)
        print(f"{name:<18}{judged:>10.0f}{approved:>13.0f}{split:>13.0f}")
    (accepted,) = median_microseconds([lambda: bash_accepts(LINES["200 characters"])], 30)
    print(f"bash -n, only before an allow: {accepted:.0f} us")


if __name__ == "__main__":
    main()
