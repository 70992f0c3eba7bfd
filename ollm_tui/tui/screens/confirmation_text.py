"""Text of the confirmation as styled lines; no widgets, for testing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.states import ConfirmationState, Origin, RememberScope
from ollm_tui.tui.decisions import ConfirmationCase, Readiness
from ollm_tui.tui.durations import clock_text
from ollm_tui.tui.styled_text import StyledLine, TextRole, line
from ollm_tui.tui.widgets.text_box import ClickTarget
from ollm_tui.tui.widgets.tool_call_view import counted_blanks

if TYPE_CHECKING:
    from ollm_tui.core.bus.notices import Confirmation
    from ollm_tui.core.policy.approvals import RememberOffer
    from ollm_tui.tui.question_queue import QueuePlace

COLUMN = 25
WIDTH = 3 * COLUMN
"""Cells of the keys."""
BAR_CELLS = 14
ALSO_SHOWN = 2
"""Number of earlier questions listed that a rule would have answered."""
CONCERNS = 3
"""Warnings shown in the head; more are only counted there."""
FACT_ROWS = 2
"""Rows of one fact in the head."""

ENDED = {
    ConfirmationState.PENDING: "",
    ConfirmationState.APPROVED: "approved",
    ConfirmationState.DENIED: "denied",
    ConfirmationState.EXPIRED: "expired, so it is denied",
    ConfirmationState.CANCELLED: "withdrawn, nothing was run",
}


@dataclass(frozen=True)
class KeyView:
    """What the keys would do if they were pressed now."""

    approve: Readiness
    deny: Readiness
    again: bool
    """One more y approves."""
    caged_again: bool
    """One more c approves in the cage."""
    all_again: bool
    """One more D denies all that wait."""
    waiting: int
    rule_edited: bool
    refusal: str = ""
    """Why the rule in the form cannot be saved."""


class ConfirmationPhase(StrEnum):
    """Step of the confirmation."""

    READING = "reading"
    EDITING = "editing"
    REASON = "reason"
    REMEMBER = "remember"


def title(case: ConfirmationCase, place: QueuePlace) -> str:
    """Return the border title; only the tool name is foreign text."""
    word = "Approve?" if case.item.pending else case.item.state.value.upper()
    edited = "   EDITED" if case.changed else ""
    alike = f"   one of {len(place.alike)} alike: g lists them" if len(place.alike) > 1 else ""
    tool = visible(case.item.details.tool_name)
    return f"{word}  {place.number} of {place.count}   {case.risk.value.upper()}   {tool}{edited}{alike}"


def subtitle(item: Confirmation, now: float) -> str:
    """Return the clock, or how the question ended."""
    if not item.pending:
        return ENDED[item.state]
    if item.held:
        return "HELD: the clock stops while you look"
    left = item.seconds_left(now)
    if left is None:
        return "waits until you decide"
    timeout = item.request.timeout
    full = round(BAR_CELLS * min(1.0, left / timeout)) if timeout else 0
    bar = "#" * full + "-" * (BAR_CELLS - full) + "  " if timeout else ""
    return f"{bar}{clock_text(left)} left, then denied"


@dataclass(frozen=True)
class HeadLayout:
    """What stands pinned above the effect, and what comes first in it for want of room."""

    shown: tuple[StyledLine, ...]
    left_out: tuple[StyledLine, ...]


def head_layout(case: ConfirmationCase, width: int, rows: int) -> HeadLayout:
    """Choose what of the facts stands in the head; a long one is cut there and whole in the effect."""
    circumstances, warnings, asides = _circumstances(case), _concerns(case), _asides(case)
    what = _fact("What", counted_blanks(_what(case)))
    shown: list[StyledLine] = [what]
    room = rows - min(FACT_ROWS, len(what.wrapped(width)))
    for fact in (*warnings[:CONCERNS], *circumstances, *asides):
        needed = min(FACT_ROWS, len(fact.wrapped(width)))
        if needed <= room:
            shown.append(fact)
            room -= needed
    everything = [what, *circumstances, *asides, *warnings]
    below = everything[1:] if _effect_repeats_what(case) else everything
    left_out = [fact for fact in below if fact not in shown or len(fact.wrapped(width)) > FACT_ROWS]
    head = [row for fact in everything if fact in shown for row in _cut_rows(fact, width)]
    more = sum(fact not in shown for fact in warnings)
    if more:
        head.append(line((f"! and {more} more {'warning' if more == 1 else 'warnings'} below", TextRole.WARNING)))
    return HeadLayout(tuple(head), (*left_out, line()) if left_out else ())


def _what(case: ConfirmationCase) -> str:
    return f"{case.item.details.description}{' (arguments changed by you)' if case.changed else ''}"


def _effect_repeats_what(case: ConfirmationCase) -> bool:
    """Return whether the effect shows whole what a long description ends in."""
    preview = case.preview
    return preview is not None and preview.kind == "command" and _what(case).endswith(visible(preview.command))


def _cut_rows(fact: StyledLine, width: int) -> list[StyledLine]:
    rows = fact.wrapped(width)
    if len(rows) <= FACT_ROWS:
        return [fact]
    last = rows[FACT_ROWS - 1]
    return [*rows[: FACT_ROWS - 1], line(*((span.text, span.role) for span in last.spans), "  ...").cut(width)]


def _circumstances(case: ConfirmationCase) -> list[StyledLine]:
    preview, where = case.preview, case.item.details.locations
    rows: list[StyledLine] = []
    if case.item.source:
        rows.append(line(("Other  ", TextRole.MUTED), (case.item.source, TextRole.WARNING), hang=7, prose=True))
    if case.item.asked_again:
        rows.append(_fact("Again", "the call, or a file it is about, has changed; it needs a yes of its own"))
    if preview is not None and preview.kind == "command":
        here = "that session's workspace" if case.item.of_other_session else "the workspace itself"
        cwd = here if preview.cwd == "." else preview.cwd
        rows.append(_fact("Where", f"{cwd}, {preview.place.value}"))
    elif where:
        rows.append(_fact("Where", where[0] + (f"   and {len(where) - 1} more" if len(where) > 1 else "")))
    if case.reason:
        rows.append(_fact("Why", case.reason))
    if (origin := case.item.request.origin) != Origin.MODEL:
        rows.append(_fact("From", origin))
    return rows


def _asides(case: ConfirmationCase) -> list[StyledLine]:
    """Return what the model said before the call: its words, quoted, never ours."""
    return [_fact("Model", f'"{case.said}"')] if case.said else []


def _concerns(case: ConfirmationCase) -> list[StyledLine]:
    warnings = case.preview.warnings if case.preview is not None else ()
    return [line((f"! {visible(one)}", TextRole.WARNING), hang=2, prose=True) for one in warnings]


def key_lines(
    case: ConfirmationCase, keys: KeyView, phase: ConfirmationPhase, scope: RememberScope, *, tight: bool
) -> tuple[list[StyledLine], list[ClickTarget]]:
    """Return the keys with their effects; disabled ones with the reason."""
    match phase:
        case _ if not case.item.pending:
            return [_ended_keys(case, phase)], []
        case ConfirmationPhase.EDITING:
            return [line(("The policy judges changed arguments anew, and they need a fresh y.", TextRole.MUTED))], []
        case ConfirmationPhase.REASON:
            role = TextRole.ACCENT if keys.deny is Readiness.READY else TextRole.MUTED
            return [line(("Enter", role), " denies with this reason   ", ("Esc", TextRole.ACCENT), " back")], []
        case ConfirmationPhase.REMEMBER:
            return _remember_lines(case, keys, scope), []
        case ConfirmationPhase.READING:
            return _tight_keys(case, keys) if tight else _key_grid(case, keys)


def _ended_keys(case: ConfirmationCase, phase: ConfirmationPhase) -> StyledLine:
    word = (case.item.state.value.upper(), TextRole.STRONG)
    if phase is ConfirmationPhase.READING:
        return line(word, "   ", ("[ ]", TextRole.ACCENT), " prev / next   ", ("Esc", TextRole.ACCENT), " close")
    return line(word, "   what you type here decides nothing any more   ", ("Esc", TextRole.ACCENT), " leave the form")


def _key_grid(case: ConfirmationCase, keys: KeyView) -> tuple[list[StyledLine], list[ClickTarget]]:
    yes = case.open and keys.approve is Readiness.READY
    no = case.open and keys.deny is Readiness.READY
    session, saved = case.offer(RememberScope.SESSION), case.offer(RememberScope.WORKSPACE)
    deny_all = f"Press D again: deny {keys.waiting}" if keys.all_again else f"Deny all {keys.waiting}"
    grid = (
        (
            ("[y]", _approve_words(case, keys), yes, "approve"),
            ("[a]", "Always this session", yes and session is not None, "remember('session')"),
            ("[A]", "Always (save rule)", yes and saved is not None, "remember('workspace')"),
        ),
        (
            ("[n]", "Deny", no, "deny"),
            ("[r]", "Deny with reason", no, "reason"),
            ("[e]", "Edit arguments", no and not case.item.source, "edit"),
        ),
        (
            ("[ / ]", "prev / next", True, "screen.step(1)"),
            ("[D]", deny_all, no, "screen.deny_all"),
            ("Esc", "Later (stays queued)", True, "screen.back"),
        ),
    )
    rows: list[StyledLine] = []
    spots: list[ClickTarget] = []
    for row, cells in enumerate(grid):
        parts: list[str | tuple[str, TextRole]] = []
        for column, (key, words, alive, action) in enumerate(cells):
            urgent = (action == "approve" and keys.again) or (action == "screen.deny_all" and keys.all_again)
            role = TextRole.ERROR if urgent else TextRole.PLAIN if alive else TextRole.MUTED
            parts.append((key, TextRole.ACCENT if alive else TextRole.MUTED))
            parts.append((f" {words:<{COLUMN - len(key) - 1}}", role))
            spots.append(ClickTarget(row, column * COLUMN, column * COLUMN + len(key) + 1 + len(words), action))
        rows.append(line(*parts))
    if case.item.source:
        rows.append(
            line(("From here it takes a yes or a no alone, with a reason; so a, A and e are off.", TextRole.MUTED))
        )
    if (problem := case.item.details.cage_problem) is not None:
        words = "Approve once in the cage: it writes in the workspace alone"
        words = f"(not in the cage: {visible(problem)})" if problem else words
        words = "Press c again: approve in the cage" if keys.caged_again else words
        alive = yes and not problem
        role = TextRole.ERROR if keys.caged_again else TextRole.PLAIN if alive else TextRole.MUTED
        rows.append(line(("[c]", TextRole.ACCENT if alive else TextRole.MUTED), " ", (words, role)).cut(WIDTH))
        spots.append(ClickTarget(len(rows) - 1, 0, min(WIDTH, 4 + len(words)), "approve(True)"))
    return rows, spots


def _tight_keys(case: ConfirmationCase, keys: KeyView) -> tuple[list[StyledLine], list[ClickTarget]]:
    ready = case.open and keys.approve is Readiness.READY
    words = "y again" if keys.again else "c again" if keys.caged_again else "y yes"
    if not ready:
        words = "sent" if case.sent else "PgDn first" if keys.approve is Readiness.UNREAD else words
    role = TextRole.MUTED if not ready else TextRole.ERROR if keys.again or keys.caged_again else TextRole.ACCENT
    caged = "  c caged" if case.item.details.cage_problem == "" else ""
    return [line((words, role), f"  n no{caged}  r why  e edit  [ ]  Esc")], [
        ClickTarget(0, 0, len(words), "approve"),
        ClickTarget(0, len(words) + 2, len(words) + 6, "deny"),
    ]


def _approve_words(case: ConfirmationCase, keys: KeyView) -> str:
    if case.sent:
        return "(sent)"
    if keys.again:
        return "Press y again"
    return "(scroll to the end)" if keys.approve is Readiness.UNREAD else "Approve once"


def _remember_lines(case: ConfirmationCase, keys: KeyView, scope: RememberScope) -> list[StyledLine]:
    offer = case.offer(scope)
    if offer is None:
        return []
    session = scope is RememberScope.SESSION
    until = {
        RememberScope.SESSION: "Until this session ends",
        RememberScope.WORKSPACE: "From now on in this workspace",
        RememberScope.USER: "From now on in every workspace of yours",
    }[scope]
    role = TextRole.ACCENT if keys.approve is Readiness.READY else TextRole.MUTED
    rule = [] if keys.rule_edited else offer.text.split("\n")
    key = "^S" if keys.rule_edited else "a" if session else "A"
    words = " approve and save it   " if keys.rule_edited else " again: approve and remember   "
    edit = offer.editable and not session and not keys.rule_edited
    return [
        line((f"{until} this runs without a question{':' if rule else ' (you can change it above).'}", TextRole.MUTED)),
        *(line("  ", (visible(one), TextRole.STRONG), hang=2) for one in rule),
        *_also_lines(offer),
        *([line((f"! {visible(keys.refusal)}", TextRole.ERROR), hang=2, prose=True)] if keys.refusal else []),
        line(
            (key, role),
            words,
            *((("e", TextRole.ACCENT), " change the rule   ") if edit else ()),
            *_wider(scope),
            ("Esc", TextRole.ACCENT),
            " back",
        ),
    ]


def _wider(scope: RememberScope) -> tuple[str | tuple[str, TextRole], ...]:
    """Return the key hint that changes how far a rule reaches."""
    match scope:
        case RememberScope.SESSION:
            return ()
        case RememberScope.WORKSPACE:
            return (("Tab", TextRole.ACCENT), " for every workspace   ")
        case RememberScope.USER:
            return (("Tab", TextRole.ACCENT), " for this workspace only   ")


def _also_lines(offer: RememberOffer) -> list[StyledLine]:
    """Return earlier questions the rule would have allowed, to show its width."""
    if not offer.also_allows:
        return []
    more = f" and {len(offer.also_allows) - ALSO_SHOWN} more" if len(offer.also_allows) > ALSO_SHOWN else ""
    shown = "; ".join(visible(one) for one in offer.also_allows[:ALSO_SHOWN])
    return [line((f"It would also have allowed: {shown}{more}", TextRole.WARNING), hang=2, prose=True)]


def _fact(name: str, text: str) -> StyledLine:
    return line((f"{name:<6} ", TextRole.MUTED), visible(text), hang=7, prose=True)
