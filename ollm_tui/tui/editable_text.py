"""Exactly reversible editing of any text: invisible characters become `⟨U+001B⟩`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ollm_tui.core.base.escape import visible_block

_UNSURE = re.compile(r"[^\n\t\x20-\x7e]|⟨(?=U\+)")
_WRITTEN = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")


@dataclass(frozen=True)
class Editable:
    """A text as edited; `crlf`: all its lines end as on Windows."""

    text: str
    crlf: bool = False

    @classmethod
    def of(cls, value: str) -> Editable:
        """Return a value in its editable form."""
        ends = value.count("\r\n")
        crlf = ends > 0 and ends == value.count("\n") == value.count("\r")
        return cls(written_out(value.replace("\r\n", "\n") if crlf else value), crlf)

    def read_back(self, text: str) -> str:
        """Return the value that an edited text represents."""
        value = _WRITTEN.sub(_character, text)
        return value.replace("\n", "\r\n") if self.crlf else value


def written_out(text: str) -> str:
    """Return `text` with control and invisible characters written out."""
    return _UNSURE.sub(lambda found: _drawn(found[0]), text)


@lru_cache(maxsize=4096)
def _drawn(character: str) -> str:
    # A bracket that looks like the start of an escape is escaped too, so that reading back is exact.
    safe = character != "⟨" and visible_block(character) == character
    return character if safe else f"⟨U+{ord(character):04X}⟩"


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else found[0]
