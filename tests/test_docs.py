"""The documentation agrees with the code: what is cited is there, what is configurable is described."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ollm_tui.docs import read_topic

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "ollm_tui" / "docs"
REQUIREMENTS = read_topic("requirements")

_LIST = r"(?:(?:, | and |-)\n?{item})*"
_REQUIREMENTS = re.compile(r"001 (R[\d.]+" + _LIST.format(item=r"R[\d.]+") + r")|\b(R\d+\.\d+)")
_PROPERTIES = re.compile(r"\bPropert(?:y|ies) (\d+" + _LIST.format(item=r"\d+") + ")")
_SECTIONS = re.compile(r"\bcontract (?:sections? )?(\d+" + _LIST.format(item=r"\d+") + ")")
_TOPICS = re.compile(r"\bcontract(?: section \d+)?,? ((?:[\"`][\w ]+[\"`](?:, )?)+)")
_TOOLS = re.compile(r"\b003 `(\w+)`")
_STEPS = re.compile(r"\b004 step (\d\.\d)")
_ARCHITECTURE = re.compile(r"\barchitecture,? \"([^\"]+)\"")


def sources() -> Iterator[tuple[str, str]]:
    """Every file that may cite, as path and text with comment marks and line breaks of comments taken out."""
    for folder in (ROOT / "ollm_tui", ROOT / "tests"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".toml", ".md"} and path not in {DOCS / "requirements.md", Path(__file__)}:
                text = path.read_text("utf-8", errors="replace")
                yield str(path.relative_to(ROOT)), re.sub(r"\n[ \t]*(?:# )?", " ", text)


def cited(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for path, text in sources():
        for match in pattern.finditer(text):
            yield path, next(group for group in match.groups() if group).rstrip(".,")


def numbers(text: str) -> Iterator[int]:
    """`33-36, 40` as 33, 34, 35, 36, 40."""
    for part in re.split(r", | and ", text):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def requirement_ids(text: str) -> Iterator[str]:
    """`R4.1-R4.3, R8` as R4.1, R4.2, R4.3, R8."""
    for part in re.split(r", | and ", text):
        first, _, last = part.strip().partition("-")
        if not last:
            yield first.rstrip(".")
            continue
        group, low = first.split(".")
        yield from (f"{group}.{number}" for number in range(int(low), int(last.rstrip(".").split(".")[1]) + 1))


def test_every_cited_requirement_has_a_line() -> None:
    known = set(re.findall(r"^- \*\*(R\d+\.\d+)\*\* \S", REQUIREMENTS, re.MULTILINE))
    known |= set(re.findall(r"^### (R\d+): ", REQUIREMENTS, re.MULTILINE))
    found = [(path, one) for path, text in cited(_REQUIREMENTS) for one in requirement_ids(text)]
    assert len(found) > 50
    assert [(path, one) for path, one in found if one not in known] == []


def test_every_cited_property_has_a_line() -> None:
    known = {int(number) for number in re.findall(r"^- \*\*Property (\d+)\*\* \S", REQUIREMENTS, re.MULTILINE)}
    assert known == set(range(1, 58))
    found = [(path, number) for path, text in cited(_PROPERTIES) for number in numbers(text)]
    assert len(found) > 50
    assert [(path, number) for path, number in found if number not in known] == []


def test_every_cited_section_of_the_contract_is_there() -> None:
    known = {int(number) for number in re.findall(r"^## Contract section (\d+): ", REQUIREMENTS, re.MULTILINE)}
    found = [(path, number) for path, text in cited(_SECTIONS) for number in numbers(text)]
    assert len(found) > 20
    assert [(path, number) for path, number in found if number not in known] == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [(_TOPICS, r"\*\*`?{}`?\*\*"), (_TOOLS, r"- \*\*003 `{}`\*\* "), (_STEPS, r"- \*\*004 step {}\*\* ")],
    ids=["topics of the contract", "tools of 003", "steps of 004"],
)
def test_every_cited_topic_has_an_entry(pattern: re.Pattern[str], line: str) -> None:
    found = [(path, name) for path, text in cited(pattern) for name in re.findall(r"[\w. ]+\w", text)]
    assert found
    missing = [(path, name) for path, name in found if not re.search(line.format(re.escape(name)), REQUIREMENTS)]
    assert missing == []
