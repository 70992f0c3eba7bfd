"""Group similar questions: same tool, rule, risk and place; commands alike but for one word. Pure, without a screen."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ollm_tui.core.bus.notices import Confirmation

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import Preview


@dataclass(frozen=True)
class SubjectPattern:
    """What the subjects of a group have in common: literal text around at most one part that varies."""

    before: str
    after: str = ""
    varies: bool = False
    """Whether any text stands between `before` and `after`: in a command one word, or a part of it."""

    @property
    def text(self) -> str:
        """The pattern as a person reads it."""
        return f"{self.before}*{self.after}" if self.varies else self.before

    def matches(self, subject: str) -> bool:
        """Return whether a subject fits."""
        if not self.varies:
            return subject == self.before
        around = len(self.before) + len(self.after)
        return len(subject) >= around and subject.startswith(self.before) and subject.endswith(self.after)


@dataclass(frozen=True)
class QuestionGroup:
    """Questions that may be decided together, oldest first; often only one."""

    items: tuple[Confirmation, ...]
    pattern: SubjectPattern

    @property
    def oldest(self) -> Confirmation:
        """The question that stands for the group."""
        return self.items[0]

    @property
    def row_id(self) -> str:
        """The id of its row: that of its question where it has only one."""
        return self.oldest.id if len(self.items) == 1 else f"group:{self.oldest.id}"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its questions."""
        return tuple(item.id for item in self.items)


def group_questions(items: Iterable[Confirmation]) -> tuple[QuestionGroup, ...]:
    """Return the groups in the order of their oldest questions; each question is in exactly one."""
    groups: dict[Hashable, list[_Draft]] = {}
    drafts: list[_Draft] = []
    for item in items:
        alike = groups.setdefault(kind_of(item), [])
        if not any(draft.take(item) for draft in alike):
            alike.append(draft := _Draft(item))
            drafts.append(draft)
    return tuple(QuestionGroup(tuple(draft.items), draft.pattern) for draft in drafts)


def rule_wording(group: QuestionGroup) -> str:
    """Return the rule that would allow just what the group's pattern says; a person may change it."""
    pattern, tool = group.pattern, group.oldest.details.tool_name
    if _is_command(group.oldest):
        return pattern.text
    if not pattern.varies:
        return f"{tool} where path = {json.dumps(pattern.before, ensure_ascii=False)}"
    conditions: list[str] = []
    if pattern.before or not pattern.after:
        conditions.append(f"path startsWith {json.dumps(pattern.before, ensure_ascii=False)}")
    if pattern.after:
        conditions.append(f"path matches {json.dumps(re.escape(pattern.after) + '$', ensure_ascii=False)}")
    return f"{tool} where {' and '.join(conditions)}"


def kind_of(item: Confirmation) -> Hashable:
    """Return what all questions of a group share: tool, rule, risk, place of execution, warnings and state."""
    details = item.details
    preview = details.preview
    own = {details.description, *details.locations, subject(item)}
    if preview is not None and preview.kind == "command":
        own.update(preview.parts)
    return (
        details.tool_name,
        _without(item.request.reason, own),
        details.risk,
        item.request.origin,
        item.source,
        item.asked_again,
        item.state,
        _place(preview),
        preview.warnings if preview is not None else (),
        _other_arguments(item),
    )


def subject(item: Confirmation) -> str:
    """Return what a question is about, unshortened: its command, URL or path, else its description."""
    preview = item.details.preview
    if preview is not None and preview.kind == "command":
        return preview.command
    if preview is not None and preview.kind == "url":
        return preview.url
    return item.details.locations[0] if item.details.locations else item.details.description


def _place(preview: Preview | None) -> Hashable:
    if preview is None:
        return None
    match preview.kind:
        case "command":
            return (preview.kind, preview.cwd, preview.place)
        case "url":
            return (preview.kind, preview.method, preview.scheme, preview.host)
        case _:
            return preview.kind


def _other_arguments(item: Confirmation) -> str:
    """Return what else a command is run with, as JSON; empty for other tools."""
    if not _is_command(item):
        return ""
    others = {name: value for name, value in item.details.args.items() if name != "command"}
    return json.dumps(others, sort_keys=True)


def _without(reason: str, own: set[str]) -> str:
    """Return a reason without the words of the call that it quotes, so that only the rule is left."""
    for words in sorted(own, key=len, reverse=True):
        if words:
            reason = reason.replace(repr(words), "*").replace(words, "*")
    return reason


def _is_command(item: Confirmation) -> bool:
    preview = item.details.preview
    return preview is not None and preview.kind == "command"


class _Draft:
    """A group while it is filled."""

    def __init__(self, item: Confirmation) -> None:
        self.items = [item]
        self._words = _words(item)
        self._varying: set[str] = set()
        """The texts of the word that differs; empty as long as all are equal."""
        self._hole = -1

    def take(self, item: Confirmation) -> bool:
        """Add a question if it differs from the others in the one word at most that these differ in."""
        words = _words(item)
        if len(words) != len(self._words):
            return False
        differing = [at for at, (mine, other) in enumerate(zip(self._words, words, strict=True)) if mine != other]
        if len(differing) > 1 or (differing and self._hole not in (-1, differing[0])):
            return False
        if differing == [0] and _is_command(item):  # another program does another thing
            return False
        if differing:
            self._hole = differing[0]
            self._varying |= {self._words[self._hole], words[self._hole]}
        self.items.append(item)
        return True

    @property
    def pattern(self) -> SubjectPattern:
        """What all have in common, as narrow as one `*` can tell it."""
        if self._hole < 0:
            return SubjectPattern(subject(self.items[0]))
        texts = self._varying
        head = _common_start(texts)
        room = min(map(len, texts)) - len(head)
        tail = _common_start({text[::-1] for text in texts})[:room][::-1]
        before = " ".join([*self._words[: self._hole], head])
        return SubjectPattern(before, " ".join([tail, *self._words[self._hole + 1 :]]), varies=True)


def _words(item: Confirmation) -> list[str]:
    return subject(item).split(" ") if _is_command(item) else [subject(item)]


def _common_start(texts: set[str]) -> str:
    first, last = min(texts), max(texts)  # whatever these share, all between them do
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    return first[:length]
