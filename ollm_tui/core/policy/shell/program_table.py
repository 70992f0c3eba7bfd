"""The packaged table of programs (`shell_commands.toml`) as typed values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from importlib import resources
from typing import Any  # what tomllib returns; turned into the classes below before it leaves this module

EFFECTS = {
    "runs": "runs a program",
    "writes": "writes",
    "deletes": "deletes or overwrites",
    "sends": "sends data",
    "loads": "loads foreign configuration or files",
}
_VERSIONED = re.compile(r"(.*?[a-z])-?[0-9]+(?:\.[0-9]+)*\Z")
_Raw = Mapping[str, Any]  # a TOML table


@dataclass(frozen=True)
class Wrapper:
    """How a program that runs another is called, to find the inner command."""

    values: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    line: frozenset[str] = frozenset()
    joined: bool = False


@dataclass(frozen=True)
class Runner:
    """A project tool that starts a program (`uv run X`); X follows a word of `after`."""

    after: frozenset[str]
    values: frozenset[str] = frozenset()
    operands: int = 0


@dataclass(frozen=True)
class Flagged:
    """Options and operands an approval covers only if spelled; effects are `EFFECTS` keys."""

    short: Mapping[str, str] = field(default_factory=dict[str, str])
    single: Mapping[str, str] = field(default_factory=dict[str, str])
    starts: Mapping[str, str] = field(default_factory=dict[str, str])
    long: Mapping[str, str] = field(default_factory=dict[str, str])
    plus: str = ""
    dash: str = ""
    values: frozenset[str] = frozenset()
    safe: frozenset[str] = frozenset()
    operand: str = ""
    beyond: int | None = None
    beyond_effect: str = "writes"
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    assigned: str = ""
    script: str = ""
    region: bool = False
    remote: bool = False
    refspec: bool = False
    old_style: bool = False
    fed: int = 0
    response: str = ""
    slash: bool = False
    schemes: frozenset[str] = frozenset()
    commands: frozenset[str] | None = None
    command_values: frozenset[str] = frozenset()
    every: Flagged | None = None
    sub: Mapping[str, Flagged] = field(default_factory=dict[str, "Flagged"])

    @property
    def empty(self) -> bool:
        """Whether no option is flagged, so that an unknown word cannot be one."""
        return not (self.short or self.single or self.starts or self.long or self.plus or self.dash)

    def may_delete_as(self, name: str) -> bool:
        """Return `may_delete` for the sub-command or option `name`."""
        if self.commands is None or name.startswith("-"):
            return self.may_delete
        asked = [each for each in (self.every, self.sub.get(name)) if each is not None] or [self]
        return any(each.may_delete for each in asked)

    @cached_property
    def may_delete(self) -> bool:
        """Whether any of its words can count as deleting."""
        by_word = (
            *self.short.values(),
            *self.single.values(),
            *self.starts.values(),
            *self.long.values(),
            *self.words.values(),
        )
        by_place = (self.plus, self.dash, self.operand, self.assigned, self.beyond_effect)
        within = (self.every, *self.sub.values())
        return (
            self.refspec
            or "deletes" in (*by_word, *by_place)
            or any(each is not None and each.may_delete for each in within)
        )


@dataclass(frozen=True)
class ReadOnlyForm:
    """What a program of the read-only list may be given."""

    operands: str = "text"
    flags: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    pattern_options: frozenset[str] = frozenset()
    script_options: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    most: int | None = None
    descends: frozenset[str] = frozenset()
    follows: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    searches: str = ""
    ordered: bool = False
    detached: bool = False
    response: bool = False
    directory: bool = False
    variables: bool = False
    tried: frozenset[str] = frozenset()
    """What is put behind a name where no such file is."""
    sub: Mapping[str, ReadOnlyForm] = field(default_factory=dict[str, "ReadOnlyForm"])


@dataclass(frozen=True)
class ProgramTable:
    """Everything known of programs by name."""

    wrappers: Mapping[str, Wrapper]
    runners: Mapping[str, Runner]
    flagged: Mapping[str, Flagged]
    reading: Mapping[str, ReadOnlyForm]
    word_lists: Mapping[str, frozenset[str]]
    state_builtins: frozenset[str]
    version_names: frozenset[str]
    version_spellings: Mapping[str, frozenset[str]]
    exact_only: frozenset[str]
    two_words: frozenset[str]
    three_words: Mapping[str, frozenset[str]]
    deleting: frozenset[str]
    privileged: frozenset[str]
    risky_sub: Mapping[str, frozenset[str]]


@cache
def tables() -> ProgramTable:
    """Return the packaged table, read once (about 15 ms)."""
    raw: _Raw = tomllib.loads((resources.files("ollm_tui.core.policy") / "shell_commands.toml").read_text("utf-8"))
    arity, risk, versions = raw["arity"], raw["risk"], raw["versions"]
    return ProgramTable(
        wrappers={name: Wrapper(**_given(Wrapper, entry)) for name, entry in raw["wrappers"].items()},
        runners={
            name: Runner(frozenset(entry["after"]), _words(entry.get("values", "")), entry.get("operands", 0))
            for name, entry in raw["runners"].items()
        },
        flagged={name: _flagged(raw["flagged"][entry.get("same", name)]) for name, entry in raw["flagged"].items()},
        reading=_readings(raw["reading"]),
        word_lists=_each(raw["words"]),
        state_builtins=_words(raw["builtins"]["state"]),
        version_names=_words(versions["names"]),
        version_spellings=_each(versions["also"]),
        exact_only=_words(arity["exact"]),
        two_words=_words(arity["two"]),
        three_words=_each(arity["three"]),
        deleting=_words(risk["deletes"]),
        privileged=_words(risk["privilege"]),
        risky_sub=_each(risk["sub"]),
    )


@cache
def program_key(name: str) -> str:
    """Return the lookup name: `/usr/bin/Python3.11` is `python`."""
    base = name.rsplit("/", 1)[-1].lower()
    known = tables()
    for table in (known.wrappers, known.flagged, known.reading, known.runners):
        if base in table:
            return base
    versioned = _VERSIONED.match(base)
    return versioned[1] if versioned else base


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(entries: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {name: _words(text) for name, text in entries.items()}


def _given(table: type[Wrapper | Flagged | ReadOnlyForm], raw: _Raw, *besides: str) -> dict[str, Any]:
    """Return the fields that a TOML table gives, words divided by blanks where a field is a set."""
    return {
        each.name: _words(raw[each.name]) if str(each.type).startswith("frozenset") else raw[each.name]
        for each in fields(table)
        if each.name in raw and each.name not in besides
    }


def _flagged(raw: _Raw) -> Flagged:
    short: dict[str, str] = {}
    single: dict[str, str] = {}
    starts: dict[str, str] = {}
    long: dict[str, str] = {}
    plus = dash = ""
    for effect in EFFECTS:
        for option in raw.get(effect, "").split():
            if option == "+":
                plus = effect
            elif option == "-":
                dash = effect
            elif option.endswith("*"):
                starts[option[:-1]] = effect
            elif option.startswith("--"):
                long[option] = effect
            elif len(option) == 2 and option[0] == "-":
                short[option[1]] = effect
            else:
                single[option.lstrip("-")] = effect
    return Flagged(
        short=short,
        single=single,
        starts=starts,
        long=long,
        plus=plus,
        dash=dash,
        values=frozenset(raw.get("values", "").replace(" ", "")),
        words={word: effect for effect, words in raw.get("words", {}).items() for word in words.split()},
        remote=raw.get("remote", False) or raw.get("operand_remote", False),
        every=_flagged(raw["every"]) if "every" in raw else None,
        sub={name: _flagged(entry) for name, entry in raw.get("sub", {}).items()},
        **_given(Flagged, raw, "short", "single", "starts", "long", "values", "words", "remote", "every", "sub"),
    )


def _readings(raw: _Raw) -> dict[str, ReadOnlyForm]:
    found: dict[str, ReadOnlyForm] = {}
    for name, entry in raw.items():
        same = entry.get("same")
        found[name] = found[same] if same else _reading(entry, found)
    return found


def _reading(raw: _Raw, earlier: Mapping[str, ReadOnlyForm]) -> ReadOnlyForm:
    values = {
        option: kind for kind in ("text", "path", "glob", "kind", "behind") for option in raw.get(kind, "").split()
    }
    flags = frozenset(raw.get("flags", "")) - frozenset(raw.get("deny_flags", ""))
    own = ReadOnlyForm(
        flags=flags,
        long=frozenset("--" + name for name in raw.get("long", "").split()),
        values=values,
        sub=_readings(raw["sub"]) if "sub" in raw else {},
        **_given(ReadOnlyForm, raw, "flags", "long", "values", "sub"),
    )
    base = earlier.get(raw.get("same_as", ""))
    if base is None:
        return own
    return replace(own, flags=own.flags | base.flags, long=own.long | base.long, values={**base.values, **own.values})
