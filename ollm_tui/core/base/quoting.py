"""Texts of any content on one line: as they are where plain, as JSON strings where not."""

from __future__ import annotations

import json


def quoted_unless_plain(text: str) -> str:
    """`text`, or its JSON string where lines, blanks at its ends or invisible characters would make it ambiguous.

    No two texts look the same, and nothing invisible is left; JSON reads the quoted form back.
    """
    if text and text.isprintable() and text == text.strip() and not text.startswith('"'):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in quoted)
