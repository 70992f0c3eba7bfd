"""The analysis against bash itself: every command bash runs must have been analysed with exactly those words.

Lines run in an empty directory with a PATH that leads nowhere, so that bash finds no program at all and hands each
command to a recording `command_not_found_handle` instead.
"""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from ollm_tui.core.policy.shell.shell_line import analyse, bash_accepts
from ollm_tui.core.shell.pty_process import bash_line
from tests import DATA_DIR

BASH = shutil.which("bash")
RECORD = '() { printf "%s\\0" "$@" >> "$RECORD/$BASHPID"; case $1 in f*) return 1;; esac; }'
"""bash calls it in a process of its own for each command: one file a command, whatever runs at the same time."""
BRACKET = '() { printf "%s\\0" "[" "$@" >> "$RECORD/[$RANDOM"; }'
"""In place of bash's own `[`."""
LINES = 450
DATA = DATA_DIR / "shell_lines"
TOKENS: dict[str, list[str]] = tomllib.loads((DATA / "pieces.toml").read_text("utf-8"))

pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")


def generated_line(chance: random.Random) -> str:
    parts: list[str] = []
    for _ in range(chance.randint(1, 3)):
        words = [chance.choice(TOKENS["names"])]
        for _ in range(chance.randint(0, 4)):
            words.append(
                chance.choice(TOKENS["blanks"]) + "".join(chance.choices(TOKENS["pieces"], k=chance.randint(1, 3)))
            )
        parts.append(chance.choice(TOKENS["wraps"]).format("".join(words) + chance.choice(TOKENS["redirections"])))
    line = parts[0]
    for part in parts[1:]:
        line += chance.choice(TOKENS["operators"]) + part
    return line + chance.choice(["", "", ";", "\n", " # end", " "])


def executed(line: str, directory: Path) -> list[tuple[str, ...]]:
    record = Path(tempfile.mkdtemp(dir=directory))  # a fresh one: a background command of an earlier line may be late
    scratch = directory / "scratch"
    scratch.mkdir(exist_ok=True)
    subprocess.run(
        bash_line(line),
        cwd=scratch,
        env={"PATH": "/nowhere", "V": "v v", "HOME": "/nowhere", "RECORD": str(record), "LC_ALL": "C.UTF-8",
             "BASH_FUNC_command_not_found_handle%%": RECORD, "BASH_FUNC_[%%": BRACKET},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10, check=False,
    )  # fmt: skip
    written = [file.read_bytes() for file in record.iterdir()]
    # An empty file is one that a background command has opened and not yet written.
    return [tuple(content.decode("utf-8", "surrogateescape").split("\0")[:-1]) for content in written if content]


def expected(line: str, directory: Path) -> Counter[tuple[str, ...]]:
    """The analysed commands as bash sees them once the one variable is filled in (by bash, word by word)."""
    found: Counter[tuple[str, ...]] = Counter()
    for part in analyse(line).parts:
        if any(word.variable for word in part.words):
            (filled,) = executed(part.text, directory) or [()]
            found[filled] += 1
        else:
            found[part.argv] += 1
    return found


def understood_lines(seed: int, count: int) -> tuple[list[str], int]:
    chance = random.Random(seed)
    lines: list[str] = []
    tried = 0
    while len(lines) < count:
        tried += 1
        line = generated_line(chance)
        if not analyse(line).opaque:
            lines.append(line)
    return lines, tried


def test_bash_runs_only_commands_that_were_analysed_with_those_very_words(tmp_path: Path) -> None:
    lines, tried = understood_lines(20_261_121, LINES)
    assert tried < 6 * LINES, "too few of the generated lines are understood for the comparison to mean anything"
    ran = 0
    for line in lines:
        real = Counter(executed(line, tmp_path))
        analysed = expected(line, tmp_path)
        assert not real - analysed, f"bash ran {list(real - analysed)} for {line!r}; analysed were {list(analysed)}"
        ran += sum(real.values())
        if not any(operator in line for operator in ("&&", "||", "!")) and real:
            assert real == analysed, line
    assert ran > LINES, "bash ran hardly anything"


@pytest.mark.parametrize("line", ["-", "-i", "--version", "-o", "+x", "-x ls; za", "--rcfile=x && za"])
def test_a_line_that_begins_like_an_option_is_a_command_all_the_same(tmp_path: Path, line: str) -> None:
    assert bash_accepts(line)
    assert line.split()[0] in [words[0] for words in executed(line, tmp_path)]


def test_a_test_in_brackets_has_the_words_that_bash_gives_it(tmp_path: Path) -> None:
    chance = random.Random(11)
    understood = 0
    for _ in range(400):
        operand = [
            "a",
            "b1",
            "-x",
            "'q r'",
            '"s t"u',
            "\\;",
            "]",
            '"]"',
            "!",
            "-f",
            "=",
            "#",
            "$V",
            '"$V"',
            "1+1",
            "[",
            "{}",
            "*",
            "''",
        ]
        words = chance.choices([*operand, "-f", "-n", "!", "=", "!=", "-a", "-o", "-lt", "-nt"], k=chance.randint(0, 6))
        line = " ".join(["[", *words, "]"]) + chance.choice(["", "", " && za x", "; za", " 2>/dev/null", " | za", "x"])
        analysed = analyse(line)
        if not analysed.opaque:
            understood += 1
            assert Counter(executed(line, tmp_path)) == expected(line, tmp_path), line
    assert understood > 60, "too few are understood for the comparison to mean anything"


def test_what_bash_runs_inside_opaque_lines_is_listed_for_deny_rules(tmp_path: Path) -> None:
    """Substitutions, groups, loops, assignments and wrappers around a command: its words are among `all_commands`."""
    chance = random.Random(7)
    frames = TOKENS["frames"]
    checked = 0
    for number in range(220):
        words = [
            chance.choice(["za", "'z b'", "z\\c"]),
            *chance.choices(["a", "'q r'", '"s t"', "\\;", "-x", "--o=p"], k=2),
        ]
        inner = " ".join(words)
        line = frames[number % len(frames)].replace("QUOTED", shlex.quote(inner)).replace("COMMAND", inner)
        listed = {command.argv for command in analyse(line).all_commands}
        for argv in executed(line, tmp_path):
            checked += 1
            assert argv in listed, f"bash ran {argv} for {line!r}; listed were {listed}"
    assert checked > 150
