"""What the memory screen is drawn from, as frozen values; the bridge makes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ollm_tui.core.memory import MemoryScope


@dataclass(frozen=True)
class MemoryName:
    """Which memory: keys of different scopes are different memories."""

    key: str
    scope: MemoryScope

    @property
    def row_id(self) -> str:
        return f"{self.scope.value}:{self.key}"


@dataclass(frozen=True)
class MemoryRow:
    """One memory in the list; `age` is in words, `concern` says what it looks like, if anything."""

    name: MemoryName
    first_line: str
    size: int
    age: str
    concern: str = ""


@dataclass(frozen=True)
class MemoryQuery:
    """Which memories are wanted: those with `containing` in key or text, of one scope or of both."""

    containing: str = ""
    scope: MemoryScope | None = None


@dataclass(frozen=True)
class MemoryListing:
    """The answer to a query; `total` counts also what did not fit into `rows`."""

    query: MemoryQuery
    rows: tuple[MemoryRow, ...]
    total: int


@dataclass(frozen=True)
class MemoryText:
    """The whole text of a memory as it is stored now; None where there is none any more."""

    name: MemoryName
    value: str | None
    concern: str = ""
    """What secret it looks like; such a text does not go along with a session's first message."""


class MemoryOutcome(StrEnum):
    """How a change went."""

    SAVED = "saved"
    DELETED = "deleted"
    RESTORED = "restored"
    CONFLICT = "conflict"
    """It was changed elsewhere meanwhile; nothing was done."""
    FAILED = "failed"
