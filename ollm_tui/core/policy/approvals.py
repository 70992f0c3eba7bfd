"""Remember approvals: the narrowest rule that would have allowed a call, and how often it was used."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.states import RememberScope, Risk
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approval_patterns import ApprovalKey, ApprovalPattern, suggest_pattern
from ollm_tui.core.policy.engine import Explanation, JudgedCall, PolicyEngine, PolicySources
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision, Mode, Operator, PolicyCondition, PolicyRule, RuleSource
from ollm_tui.core.policy.shell.command_paths import CommandPaths
from ollm_tui.core.policy.shell.read_only import path_in
from ollm_tui.core.policy.shell.shell_line import analyse
from ollm_tui.core.policy.shell.words import SimpleCommand
from ollm_tui.core.storage.background import BackgroundWriter
from ollm_tui.core.storage.store import Schema, Store
from ollm_tui.core.tools.base import Effect, ToolGroup

FILE_PARAMETERS = {"edit_file": ("path",), "write_file": ("path",), "move_file": ("from", "to")}
"""Tools whose calls can be remembered, and the parameters that name what they touch."""


MAX_HISTORY = 100
"""Questions of a session that an offer is held against; older ones are forgotten."""

_SOURCES = ("session", "workspace", "user", "policy file", "preset")
"""Where rules come from, in the order of asking."""

_WORDED = re.compile(r'(\w+) (=|startsWith|contains|matches) ("(?:[^"\\]|\\.)*")')
_OPERATORS = {"=": Operator.EQUALS, **{each.value: each for each in Operator if each is not Operator.EQUALS}}


@dataclass(frozen=True)
class RememberOffer:
    """What remembering would save; `text` is the exact wording, one line each.

    Command patterns, a rule about files, or what a tool itself allows for the session.
    """

    patterns: tuple[str, ...] = ()
    rule: PolicyRule | None = None
    session_only: str = ""
    """What a tool would go on allowing until the session ends."""
    also_allows: tuple[str, ...] = ()
    """What else was asked in this session and would have run unasked, newest first, as a person reads it."""

    @property
    def text(self) -> str:
        """The wording of the offer."""
        if self.rule is None:
            return self.session_only or "\n".join(self.patterns)
        if not self.rule.conditions:
            return f"every call of {self.rule.tool}"
        signs = {operator: sign for sign, operator in _OPERATORS.items()}
        named = " and ".join(
            f"{condition.param} {signs[condition.operator]} {json.dumps(condition.value, ensure_ascii=False)}"
            for condition in self.rule.conditions
        )
        return f"{self.rule.tool} where {named}"

    @property
    def editable(self) -> bool:
        """Whether a person may change the wording: a rule about files or a single pattern."""
        return bool(self.rule.conditions) if self.rule is not None else len(self.patterns) == 1

    def reworded(self, wording: str) -> RememberOffer:
        """Return the offer in the person's wording; raises ValueError where it is invalid."""
        if not self.editable:
            raise ValueError("this rule cannot be reworded")
        if self.rule is None:
            return RememberOffer(patterns=(ApprovalPattern.parse(wording).text,))
        tool, _, conditions = wording.partition(" where ")
        pieces = [piece.group(1, 2, 3) for piece in _WORDED.finditer(conditions)]
        if tool != self.rule.tool or " and ".join(" ".join(piece) for piece in pieces) != conditions or not pieces:
            raise ValueError(
                f'{wording!r} can not be read; write it like: {self.rule.tool} where path startsWith "src/"'
            )
        worded = [
            PolicyCondition(param=param, operator=_OPERATORS[sign], value=str(json.loads(value)))
            for param, sign, value in pieces
        ]
        return RememberOffer(rule=self.rule.model_copy(update={"conditions": worded}))


@dataclass
class PastConfirmation:
    """A call that was asked about in this session."""

    call: JudgedCall
    denied: bool = False

    @property
    def shown(self) -> str:
        """The call in one line, for a person."""
        arguments = self.call.arguments
        names = FILE_PARAMETERS.get(self.call.tool.name, ())
        line = self.call.line
        what = visible(line) if line is not None else " ".join(visible(str(arguments[name])) for name in names)
        text = what if line is not None else f"{self.call.tool.name} {what}".strip()
        return f"{text} (you denied it)" if self.denied else text


@dataclass
class ApprovalStore:
    """Saves approvals; `files` holds the file and table path of each lasting scope."""

    files: dict[RememberScope, tuple[Path, tuple[str, ...]]] = field(
        default_factory=dict[RememberScope, tuple[Path, tuple[str, ...]]]
    )
    on_saved: Callable[[RememberScope, str], None] | None = None
    on_used: Callable[[Sequence[ApprovalKey]], None] | None = None
    """Told of the lasting approvals because of which a command line runs unasked; must not block."""
    _saved_rules: int = 0
    _history: deque[PastConfirmation] = field(default_factory=lambda: deque[PastConfirmation](maxlen=MAX_HISTORY))

    def record_question(self, call: JudgedCall) -> PastConfirmation:
        """Keep a question in the session's history; the caller records the answer in it."""
        question = PastConfirmation(call)
        self._history.append(question)
        return question

    def record_use(self, explanation: Explanation) -> None:
        """Count the approvals by which a call runs."""
        if explanation.decision is Decision.ALLOW and explanation.approvals and self.on_used is not None:
            self.on_used(explanation.approvals)

    def offer(self, engine: PolicyEngine, call: JudgedCall, explanation: Explanation) -> RememberOffer | None:
        """Return what remembering this call would save.

        None for deletions, floors, and lines not fully understood. Only what would have allowed this very call is
        offered. Judges up to MAX_HISTORY calls, so call it in a thread.
        """
        offer = self._proposal(engine, call, explanation)
        if offer is None or not _would_allow(self._with(engine.sources, offer, RememberScope.SESSION), call):
            return None
        return replace(offer, also_allows=self.also_allowed(engine, call, offer))

    def also_allowed(self, engine: PolicyEngine, call: JudgedCall, offer: RememberOffer) -> tuple[str, ...]:
        """Return the earlier questions that the offer would have made unnecessary, newest first."""
        changed = self._with(engine.sources, offer, RememberScope.SESSION)
        found: dict[str, None] = {}
        looked_at = [call]
        for question in reversed(self._history):
            if any(_same(question.call, other) for other in looked_at):
                continue
            looked_at.append(question.call)
            if not _would_allow(engine, question.call) and _would_allow(changed, question.call):
                found[question.shown] = None
        return tuple(found)

    def _proposal(self, engine: PolicyEngine, call: JudgedCall, explanation: Explanation) -> RememberOffer | None:
        if explanation.decision is not Decision.ASK or call.floors or call.tool.dangerous:
            return None
        if call.tool.group is ToolGroup.MCP:  # bound to its definition: a changed one asks all the same
            return RememberOffer(rule=PolicyRule(tool=call.tool.name, action=Decision.ALLOW))
        if call.tool.plugin:
            return None
        if not call.inside_workspace:
            return None
        if call.line is not None:
            return _command_offer(call, explanation, engine.sources.commands.workspace)
        if call.effect is not Effect.WRITES or call.tool.name not in FILE_PARAMETERS:
            return None
        conditions = [
            PolicyCondition(param=name, operator=Operator.EQUALS, value=str(call.arguments[name]))
            for name in FILE_PARAMETERS[call.tool.name]
        ]
        return RememberOffer(rule=PolicyRule(tool=call.tool.name, action=Decision.ALLOW, conditions=conditions))

    def remember(
        self,
        engine: PolicyEngine,
        call: JudgedCall,
        explanation: Explanation,
        scope: RememberScope,
        wording: str | None,
    ) -> tuple[PolicyEngine, str]:
        """Save an approval; return the engine that knows it and a message. Blocks.

        Raises ValueError where the rule would not have allowed this call or cannot be saved; nothing is, then.
        """
        if explanation.risk is Risk.HIGH and scope is not RememberScope.SESSION:
            raise ValueError("calls of high risk are remembered for the session only")
        offer, changed = self._changed(engine, call, explanation, scope, wording)
        if scope is not RememberScope.SESSION:
            self._save(scope, offer)
        self._saved_rules += offer.rule is not None
        if self.on_saved is not None:
            self.on_saved(scope, offer.text)
        return changed, f"remembered for this {scope.value}: {offer.text}"

    def newly_allowed(
        self,
        engine: PolicyEngine,
        call: JudgedCall,
        explanation: Explanation,
        wording: str,
        others: Sequence[JudgedCall],
    ) -> list[bool]:
        """Return which other calls a rule would allow that now ask; raises ValueError as `remember`. Blocks."""
        _, changed = self._changed(engine, call, explanation, RememberScope.SESSION, wording)
        return [not _would_allow(engine, other) and _would_allow(changed, other) for other in others]

    def _changed(
        self,
        engine: PolicyEngine,
        call: JudgedCall,
        explanation: Explanation,
        scope: RememberScope,
        wording: str | None,
    ) -> tuple[RememberOffer, PolicyEngine]:
        """Return the offer in this wording with the engine that knows it; raises ValueError."""
        offer = self._proposal(engine, call, explanation)
        if offer is None:
            raise ValueError("calls like this one are asked every time")
        if wording is not None and wording.strip() != offer.text:
            offer = offer.reworded(wording.strip())
        changed = self._with(engine.sources, offer, scope)
        again = changed.explain(call, Mode.ASK)
        if again.decision is not Decision.ALLOW:
            raise ValueError(f"{offer.text!r} would not have allowed this call: {again.reason}")
        return offer, changed

    def _with(self, sources: PolicySources, offer: RememberOffer, scope: RememberScope) -> PolicyEngine:
        """Return an engine with the offer among the scope's rules."""
        if offer.rule is None:
            file = str(self.files[scope][0]) if scope in self.files else ""
            patterns = tuple(ApprovalPattern.parse(pattern, file) for pattern in offer.patterns)
            commands = replace(sources.commands, approvals=(*sources.commands.approvals, *patterns))
            return PolicyEngine(replace(sources, commands=commands))
        own = RuleSet([(offer.rule, RuleSource(scope.value, self._saved_rules + 1))])
        rank = _SOURCES.index(scope.value)
        before = [rules for rules in sources.rule_sets if _rank_of(rules) < rank]
        behind = [rules for rules in sources.rule_sets if _rank_of(rules) >= rank]
        return PolicyEngine(replace(sources, rule_sets=(*before, own, *behind)))

    def _save(self, scope: RememberScope, offer: RememberOffer) -> None:
        """Add to the scope's file, keeping comments and order; raises ValueError."""
        try:
            path, table_path = self.files[scope]
        except KeyError:
            raise ValueError(
                f"there is no file to keep it in for the {scope.value} (with --policy, rules last for the session)"
            ) from None
        from ollm_tui.core.policy.saved_rules import add_to_file  # loads tomlkit, which only saving needs

        add_to_file(path, table_path, offer.patterns, offer.rule)


def _same(one: JudgedCall, other: JudgedCall) -> bool:
    return one.tool.name == other.tool.name and one.arguments == other.arguments


def _would_allow(engine: PolicyEngine, call: JudgedCall) -> bool:
    return engine.explain(call, Mode.ASK).decision is Decision.ALLOW


def _rank_of(rules: RuleSet) -> int:
    """Return the order in which a source is asked; sets without rules never decide."""
    source = "preset" if rules.source.startswith("preset") else rules.source
    return _SOURCES.index(source) if source in _SOURCES else len(_SOURCES)


def _command_offer(call: JudgedCall, explanation: Explanation, workspace: Workspace | None) -> RememberOffer | None:
    cwd = call.arguments.get("cwd")
    line = analyse(call.line or "")
    if line.opaque:
        return None
    paths = CommandPaths(workspace, cwd if isinstance(cwd, str) else "") if workspace is not None else None
    asked = {
        entry.part for entry in explanation.trace if entry.part and entry.decision is Decision.ASK and not entry.rule
    }
    patterns: list[str] = []
    for part in line.parts:
        if part.text not in asked:
            continue
        pattern = suggest_pattern(part)
        if pattern is None or (paths is not None and _touches_guarded(part, paths)):
            return None
        patterns.append(pattern)
    return RememberOffer(patterns=tuple(dict.fromkeys(patterns))) if patterns else None


def _touches_guarded(part: SimpleCommand, paths: CommandPaths) -> bool:
    """Return whether a word, as a path, leads outside or to what always asks."""
    words = filter(None, map(path_in, part.argv[1:]))
    return any(paths.is_outside(word) or paths.reason_to_ask(word) is not None for word in words)


APPROVAL_USES = Schema(
    "approvals",
    (
        (
            """CREATE TABLE approval_uses(
                file TEXT NOT NULL, pattern TEXT NOT NULL, uses INTEGER NOT NULL, last_used TEXT NOT NULL,
                PRIMARY KEY(file, pattern)) WITHOUT ROWID""",
        ),
    ),
    salvaged=("approval_uses",),
)


@dataclass(frozen=True)
class ApprovalUse:
    """How often an approval was used; `last_used` is UTC in ISO 8601."""

    uses: int
    last_used: str


class ApprovalUses:
    """Counts uses in the background; write errors go to `on_failure` from another thread."""

    def __init__(
        self, store: Store, on_failure: Callable[[StorageFailed], None], *, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._on_failure = on_failure
        self._writer = BackgroundWriter("approval-uses", on_failure)

    def record(self, approvals: Sequence[ApprovalKey]) -> None:
        """Count one command line that ran by these approvals; returns at once."""
        try:
            self._writer.submit(self._write, tuple(dict.fromkeys(approvals)), iso_time(self._clock.now()))
        except StorageFailed as failure:
            self._on_failure(failure)

    def read(self) -> dict[ApprovalKey, ApprovalUse]:
        """Return all counts; blocks and raises StorageFailed."""
        with self._store.read(APPROVAL_USES) as db:
            rows = db.execute("SELECT file, pattern, uses, last_used FROM approval_uses").fetchall()
        return {ApprovalKey(file, pattern): ApprovalUse(uses, last) for file, pattern, uses, last in rows}

    def flush(self) -> None:
        """Wait until everything recorded so far is written."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left; blocks. Idempotent."""
        self._writer.close()

    def _write(self, approvals: tuple[ApprovalKey, ...], moment: str) -> None:
        with self._store.write(APPROVAL_USES) as db:
            db.executemany(
                """INSERT INTO approval_uses VALUES(?, ?, 1, ?) ON CONFLICT(file, pattern)
                DO UPDATE SET uses = uses + 1, last_used = max(last_used, excluded.last_used)""",
                [(*key, moment) for key in approvals],
            )
