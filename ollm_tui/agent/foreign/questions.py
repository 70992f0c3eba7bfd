"""What a foreign agent asks permission for, as a question of ours: what it says, and what of it can be checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from acp import schema
from pydantic import JsonValue

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import CommandPreview, ConfirmationDetails, DiffPreview, Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.files.diff import diff_texts

_RISKS: Mapping[str, Risk] = {
    "read": Risk.LOW,
    "search": Risk.LOW,
    "think": Risk.LOW,
    "delete": Risk.HIGH,
    "execute": Risk.HIGH,
}
"""By what an agent says a call does; anything else is in between."""

_ORDER: Mapping[bool, tuple[str, ...]] = {
    True: ("allow_once", "allow_always"),
    False: ("reject_once", "reject_always"),
}


@dataclass(frozen=True)
class ForeignCall:
    """A call of a foreign agent, as far as it has told."""

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    arguments: JsonObject = field(default_factory=dict[str, JsonValue])
    locations: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    diffs: tuple[schema.FileEditToolCallContent, ...] = ()

    @property
    def command(self) -> str:
        """The command line, where its arguments have one."""
        given = self.arguments.get("command")
        if isinstance(given, list):
            return " ".join(map(str, given))
        return given if isinstance(given, str) else ""


def judged_as(call: ForeignCall) -> Iterator[tuple[str, JsonObject]]:
    """Yield the calls of ours that come to the same, for the policy to judge."""
    if call.command:
        yield "shell", {"command": call.command}
    for diff in call.diffs:
        yield "write_file", {"path": diff.path, "content": diff.new_text}
    if call.kind == "delete":
        for path in call.locations:
            yield "delete_file", {"path": path}


def details_of(call: ForeignCall, agent: str) -> ConfirmationDetails:
    """Return what the person is shown: what the agent says that it will do, and the changes it names."""
    return ConfirmationDetails(
        tool_name=visible(call.kind) or "other",
        description=visible(call.title)[:2_000] or "A call without a title",
        risk=_RISKS.get(call.kind, Risk.MEDIUM),
        locations=tuple(map(visible, call.locations)),
        args=call.arguments,
        preview=_preview(call, (f"{agent} does this itself, outside every cage; this is what it says of it.",)),
    )


def option_for(
    options: Sequence[schema.PermissionOption], *, approved: bool
) -> schema.RequestPermissionResponse | None:
    """Return the answer: for this once where that is offered; None where nothing of the kind is."""
    for kind in _ORDER[approved]:
        for option in options:
            if option.kind == kind:
                chosen = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
                return schema.RequestPermissionResponse(outcome=chosen)
    return None


def _preview(call: ForeignCall, warnings: tuple[str, ...]) -> Preview:
    if call.command:
        return CommandPreview(command=call.command, cwd=".", parts=(call.command,), warnings=warnings)
    if len(call.diffs) == 1:
        diff = call.diffs[0]
        changed = diff_texts(visible(diff.path), diff.old_text or "", diff.new_text)
        return DiffPreview(diff=changed, created=diff.old_text is None, warnings=warnings)
    parts = [*call.texts, *(f"{diff.path}\n{diff.new_text}" for diff in call.diffs)]
    if call.arguments:
        parts.append(json.dumps(call.arguments, indent=1, ensure_ascii=False))
    return TextPreview(text=visible_block("\n\n".join(parts)) or "It says nothing more.", warnings=warnings)
