"""The documentation agrees with the code: what is cited is there, what is configurable is described."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel

from ollm_tui import __version__
from ollm_tui.config import Settings
from ollm_tui.docs import read_topic
from ollm_tui.tui.bindings import key_groups

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


def test_what_is_cited_of_the_architecture_is_there() -> None:
    page = read_topic("architecture")
    found = list(cited(_ARCHITECTURE))
    assert found
    assert [(path, name) for path, name in found if f"## {name}\n" not in page and f"**{name}**" not in page] == []


def test_every_package_of_the_architecture_is_there_and_none_is_left_out() -> None:
    drawing = read_topic("architecture").split("```")[1]
    drawn = set(re.findall(r"^ (\w+(?:/|\.py))", drawing, re.MULTILINE))
    drawn |= set(re.findall(r" (docs/)", drawing))
    there = {f"{path.name}/" for path in (ROOT / "ollm_tui").iterdir() if (path / "__init__.py").exists()}
    there |= {path.name for path in (ROOT / "ollm_tui").glob("[!_]*.py")}
    assert drawn == there


def settings_keys() -> dict[str, object]:
    """Every key by its dotted name, with the default as Python's value."""
    keys: dict[str, object] = {}
    defaults = Settings()
    for name in Settings.model_fields:
        value = getattr(defaults, name)
        rows = (
            [(f"{name}.{key}", getattr(value, key)) for key in type(value).model_fields]
            if isinstance(value, BaseModel)
            else []
        )
        keys.update(rows or [(name, value)])
    return keys


def documented_keys() -> dict[str, str]:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.+?) \| .+ \|$", read_topic("configuration"), re.MULTILINE)
    assert len(rows) == len(dict(rows))
    return dict(rows)


def test_every_setting_is_described_and_nothing_else() -> None:
    assert set(documented_keys()) == set(settings_keys())


def test_the_defaults_in_the_description_are_those_of_the_settings() -> None:
    """A default that is found out at run time is described in words instead."""
    described = documented_keys()
    for name, value in settings_keys().items():
        match value:
            case None | {}:
                assert not described[name].startswith("`"), name
            case bool():
                assert described[name] == f"`{str(value).lower()}`", name
            case _:
                assert described[name] == f"`{value}`", name


def test_every_key_of_the_dashboard_is_described_with_its_id() -> None:
    import_module("ollm_tui.tui.app")  # the application registers what has keys
    rows = re.findall(r"^\| (`.+`) \| `([a-z_.]+)` \| \S.* \|$", read_topic("keys"), re.MULTILINE)
    described = {name: keys.replace("`", "").replace(", ", ",") for keys, name in rows}
    assert described == {binding.id: binding.key for _, bindings in key_groups() for binding in bindings}


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_every_topic_that_a_page_names_is_there(page: Path) -> None:
    for name in re.findall(r"`ollm-tui help ([a-z/-]+)`", page.read_text("utf-8")):
        read_topic(name)


def test_the_changelog_has_this_version_and_one_line_an_entry() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## [{__version__}] - " in text
    entries = text[text.index("## [Unreleased]") :].splitlines()
    assert [line for line in entries if line and not line.startswith(("## [", "### ", "- "))] == []


def test_contributors_are_told_every_session_of_nox() -> None:
    sessions = set(re.findall(r"^@nox\.session\b.*\ndef (\w+)", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE))
    told = re.findall(r"^\| `nox -s (\w+)` \|", (ROOT / ".github" / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert sessions == set(told)
