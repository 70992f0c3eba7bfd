"""The shipped list against the programs themselves: which of their options take the next word as their value.

Where the list and a program disagree, a word that was judged as a value is read or written as a file, or the other way
round, and an option's value swallows the `--` behind which everything counted as a name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ollm_tui.core.policy.shell.program_table import ReadOnlyForm, tables

WANTS_A_VALUE = re.compile(
    r"requires an argument|requires a value|option requires|takes one parameter|Missing argument|Usage:\s+xxd"
)


def all_readings() -> list[tuple[tuple[str, ...], ReadOnlyForm]]:
    known = tables().reading
    plain: list[tuple[tuple[str, ...], ReadOnlyForm]] = [((name,), spec) for name, spec in known.items()]
    return [*plain, *[(("git", name), spec) for name, spec in known["git"].sub.items()]]


PATH = "/usr/local/bin:/usr/bin:/bin"
NOT_ASKED = ("find", "awk")
"""`find` has no options but its own language; the list knows gawk, and who says `awk` may get another."""

READINGS = [entry for entry in all_readings() if entry[0][0] not in NOT_ASKED and shutil.which(entry[0][0], path=PATH)]

ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C", "HOME": "/nonexistent", "PAGER": "cat"}


def wants_a_value(folder: Path, words: tuple[str, ...]) -> bool:
    """What the program says of an option that ends the line."""
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False, env=ENVIRONMENT
    )
    return WANTS_A_VALUE.search((done.stdout + done.stderr).decode(errors="replace")) is not None


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("repository")
    (folder / "a").write_text("a\n")
    for words in (["init", "-q"], ["add", "a"], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.skipif(
    os.environ.get("OLLM_TEST_TOOLS") != "1" or sys.platform != "linux",
    reason="other systems have other versions of the programs; OLLM_TEST_TOOLS=1 asks those of this one",
)
@pytest.mark.parametrize(("words", "spec"), READINGS, ids=[" ".join(words) for words, _ in READINGS])
def test_options_take_the_next_word_exactly_where_the_list_says_so(
    repository: Path, words: tuple[str, ...], spec: ReadOnlyForm
) -> None:
    valued = {*spec.values, *spec.script_options}
    alone = {*spec.long, *(f"-{flag}" for flag in spec.flags), *spec.exact} - valued
    assert [option for option in sorted(valued) if not wants_a_value(repository, (*words, option))] == []
    assert [option for option in sorted(alone) if wants_a_value(repository, (*words, option))] == []


def test_the_check_itself_tells_the_two_apart(repository: Path) -> None:
    assert wants_a_value(repository, ("git", "log", "--since"))
    assert not wants_a_value(repository, ("git", "log", "--oneline"))
