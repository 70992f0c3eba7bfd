"""Regular expressions whose time grows with the text alone, for patterns that a model or a repository supplies.

Python's own engine can take hours for one line and holds the interpreter meanwhile; RE2 cannot.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import cast

_MAX_MEMORY = 64 << 20
"""Bytes RE2 may use for one expression; its default of 8 MB is too small for ignore files with thousands of rules."""


class RegexError(ValueError):
    """An expression that RE2 does not take; `reason` is RE2's word for it, `part` the piece it names."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason, _, self.part = reason.partition(": ")


@lru_cache(maxsize=512)
def compile_bytes(
    pattern: bytes, *, utf_8: bool, ignore_case: bool = False, literal: bool = False, within_lines: bool = False
) -> re.Pattern[bytes]:
    """Return an expression over UTF-8 or single bytes; `within_lines` matches no newline. Raises RegexError."""
    import re2  # it is large, and needed only once something is searched

    options = re2.Options()
    options.log_errors = False  # it would write to stderr, over the screen
    options.max_mem = _MAX_MEMORY
    options.case_sensitive = not ignore_case
    options.never_nl = within_lines
    options.encoding = re2.Options.Encoding.UTF8 if utf_8 else re2.Options.Encoding.LATIN1
    try:
        # RE2's binding has no types; what is used of its patterns `re` has too.
        return cast("re.Pattern[bytes]", re2.compile(re.escape(pattern) if literal else pattern, options))
    except re2.error as error:
        reason: object = error.args[0] if error.args else "not a valid expression"
        raise RegexError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
