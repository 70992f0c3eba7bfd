"""One page made into text, in a process of its own: reads the page from stdin, writes its text to stdout."""

from __future__ import annotations

import json
import resource
import sys
from enum import StrEnum

from ollm_tui.core.web.extraction import SelectorNotFoundError, extract_main, extract_selected

MEMORY_BYTES = 1024 * 1024 * 1024
MAX_TEXT = 20_000_000
"""Characters; no page that can be fetched needs more."""


class PageOutcome(StrEnum):
    """What became of a page; the first line of the answer. What follows is its text, or what is wrong."""

    TEXT = "text"
    NO_MATCH = "no match"
    BAD_SELECTOR = "bad selector"
    TOO_MUCH = "too much"


def question(html: str, selector: str | None, base_url: str) -> bytes:
    """Return what the process is given."""
    return f"{json.dumps([selector, base_url])}\n{html}".encode("utf-8", "replace")


def parse_answer(said: bytes) -> tuple[PageOutcome, str]:
    """Return what the process answered."""
    outcome, _, text = said.decode("utf-8").partition("\n")
    return PageOutcome(outcome), text


def answer() -> None:
    """Run the process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    asked, _, html = sys.stdin.buffer.read().decode("utf-8").partition("\n")
    outcome, text = _read(html, *json.loads(asked))
    sys.stdout.buffer.write(f"{outcome}\n{text}".encode("utf-8", "replace"))


def _read(html: str, selector: str | None, base_url: str) -> tuple[PageOutcome, str]:
    try:
        text = extract_main(html, base_url) if selector is None else extract_selected(html, selector, base_url)
    except SelectorNotFoundError:
        return PageOutcome.NO_MATCH, ""
    except ValueError as error:
        return PageOutcome.BAD_SELECTOR, str(error)
    return (PageOutcome.TEXT, text) if len(text) <= MAX_TEXT else (PageOutcome.TOO_MUCH, "")
