"""The documentation that is installed with the program: a list of topics, and the text of each.

Topics are the Markdown files of this folder; one in a subfolder is named with a slash, as `decisions/store`. The first
heading of a file is its title, and the first sentence below it says what it is about.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\n|:\n")
_SUFFIX = ".md"


@dataclass(frozen=True)
class Topic:
    """One page of the documentation."""

    name: str
    """What `ollm-tui help` takes, such as `keys` or `decisions/store`."""
    title: str
    summary: str
    """The first sentence, on one line."""


class UnknownTopicError(Exception):
    """No page has that name."""

    def __init__(self, name: str, closest: tuple[str, ...]) -> None:
        super().__init__(f"there is no help on {name!r}")
        self.name = name
        self.closest = closest
        """Names that are similar, the most similar first; may be empty."""


def list_topics() -> tuple[Topic, ...]:
    """Return every topic, sorted by name; pages in subfolders come last."""
    topics = [_topic(name, page.read_text(encoding="utf-8")) for name, page in _pages(_root())]
    return tuple(sorted(topics, key=lambda topic: ("/" in topic.name, topic.name)))


def read_topic(name: str) -> str:
    """Return the Markdown of a topic; case, `.md` and, where it is unique, the folder may be left out.

    Raises:
        UnknownTopicError: with the closest names.
    """
    pages = dict(_pages(_root()))
    return pages[_resolve(name, tuple(sorted(pages)))].read_text(encoding="utf-8")


def _resolve(asked: str, names: tuple[str, ...]) -> str:
    wanted = asked.strip().lower().removesuffix(_SUFFIX).strip("/")
    if wanted in names:
        return wanted
    in_folders = [name for name in names if name.rsplit("/", 1)[-1] == wanted]
    if len(in_folders) == 1:
        return in_folders[0]
    by_last_part = {name.rsplit("/", 1)[-1]: name for name in names} | {name: name for name in names}
    close = difflib.get_close_matches(wanted, by_last_part, n=3, cutoff=0.5)
    raise UnknownTopicError(asked, tuple(dict.fromkeys(by_last_part[name] for name in close)))


def _root() -> Traversable:
    return resources.files(__name__)


def _pages(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.name.startswith(("_", ".")):
            yield from _pages(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{prefix}{entry.name.removesuffix(_SUFFIX)}", entry


def _topic(name: str, text: str) -> Topic:
    heading, _, rest = text.lstrip().partition("\n")
    first = _SENTENCE_END.split(rest.strip(), maxsplit=1)[0]
    return Topic(name, heading.lstrip("# ").strip(), " ".join(first.split()))
