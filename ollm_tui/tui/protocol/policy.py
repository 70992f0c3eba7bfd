"""What the policy screen asks for and is shown: intents, updates and their values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ollm_tui.tui.protocol.intents import Intent
from ollm_tui.tui.protocol.updates import Update


class PolicySection(StrEnum):
    """Parts of the list, in their order."""

    FINDINGS = "Findings"
    SETTINGS = "Settings"
    RULES = "Rules, in the order they are asked"
    APPROVALS = "Approved commands"
    DECISIONS = "Last decisions"


class Choice(NamedTuple):
    """A value of a setting, and what it means."""

    value: str
    meaning: str
    now: bool = False
    """Whether it holds."""


@dataclass(frozen=True)
class PolicyRow:
    """One entry of the list; `decision` is allow, ask or deny where it has one."""

    id: str
    section: PolicySection
    title: str
    facts: str
    beside: str = ""
    """Where it comes from, in a word or two."""
    decision: str = ""
    details: str = ""
    """Lines about it, as they stand in its file or log."""
    file: str = ""
    """Where it can be changed; empty where it is part of the program."""
    line: int = 0
    conditions: str = ""
    """What tells a rule apart from others for its tool, on a line of its own."""
    choices: tuple[Choice, ...] = ()
    """What a setting can be, the one that holds among them."""
    revocable: bool = False
    """Whether it is an approval that can be taken back here."""


class PolicyIntent(Intent):
    """Base of the intents about the policy."""


class ListPolicy(PolicyIntent):
    """List what holds, and what was decided lately."""


class ReadPolicyAgain(PolicyIntent):
    """Let the policy hold as its files stand now, and list it."""


@dataclass
class JudgeCall(PolicyIntent):
    """Tell what would happen to a command, or to `TOOL {arguments}`; nothing runs."""

    text: str


@dataclass
class RevokeApproval(PolicyIntent):
    """Take an approval back; without a file it is the session's."""

    pattern: str
    file: str


@dataclass
class ChangeSetting(PolicyIntent):
    """Write a setting, such as `exec.on_miss`, into a file, and let it hold."""

    name: str
    value: str
    file: str


class PolicyUpdate(Update):
    """Base of the updates for the policy screen."""


@dataclass
class PolicyRowsUpdate(PolicyUpdate):
    """What holds in a mode."""

    mode: str
    rows: tuple[PolicyRow, ...]


@dataclass
class JudgedUpdate(PolicyUpdate):
    """What would happen to a call."""

    text: str
    decision: str
    details: str
