"""The policy, for its screen: what holds and where it stands, what was decided, what would happen to a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.config import user_config_path
from ollm_tui.core.base.errors import StorageFailed, ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ExecutionPlace
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.execution.calls import Judged
from ollm_tui.core.policy.audit import AuditEvent, AuditLine, AuditLog
from ollm_tui.core.policy.engine import Explanation, PolicyEngine
from ollm_tui.core.policy.policy_file import LoadedPolicy, PolicyDocument
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.sandbox.engines import Sandbox
from ollm_tui.runtime import Configuration, Core
from ollm_tui.tui.controllers.trust_controller import TrustController
from ollm_tui.tui.protocol import PostUpdate, updates
from ollm_tui.tui.protocol.policy import (
    ChangeSetting,
    Choice,
    JudgeCall,
    JudgedUpdate,
    ListPolicy,
    PolicyIntent,
    PolicyRow,
    PolicyRowsUpdate,
    PolicySection,
    ReadPolicyAgain,
    RevokeApproval,
)

DENIED = "Everything is denied until that is corrected."
SETTINGS: dict[str, dict[str, str]] = {
    "preset": {
        "balanced": "looking, new files and planning run; what changes, runs or sends asks",
        "strict": "reading and planning run, all else asks",
        "read-only": "reading and planning run, all else is denied",
        "none": "what your own rules do not name asks",
    },
    "default_action": {
        "allow": "what no rule is about runs",
        "ask": "what no rule is about asks",
        "deny": "what no rule is about is denied",
    },
    "exec.mode": {
        "allowlist": "commands run that an approval or the read-only list covers",
        "full": "every command runs unasked but for what always asks",
        "deny": "no command runs",
    },
    "exec.on_miss": {
        "ask": "an uncovered command asks",
        "deny": "an uncovered command is denied",
    },
    "exec.read_only_commands": {
        "true": "commands that only read run unasked",
        "false": "they ask as others do",
    },
    "sandbox.mode": {
        "off": "commands that were allowed run on this machine",
        "auto": "they run in the best cage that works here",
        "bubblewrap": "they run in bubblewrap",
        "nsjail": "they run in nsjail",
        "landlock": "they run in a landlock domain",
        "docker": "they run in a container",
        "sandbox-exec": "they run in macOS's own cage",
    },
}
"""What the settings can be, and what each means."""
MOST_DECISIONS = 100
"""Lines of the audit log that are listed, the newest first."""


class PolicyController:
    """Handler of the intents about the policy."""

    def __init__(self, core: Core, post: PostUpdate, trust: TrustController) -> None:
        """`trust` has the configuration as it was read last."""
        self._core = core
        self._post = post
        self._trust = trust

    async def handle(self, intent: PolicyIntent) -> None:
        """List or judge; reading is done in a thread."""
        match intent:
            case ListPolicy() | ReadPolicyAgain():
                if isinstance(intent, ReadPolicyAgain):
                    await self._trust.read_again("What your files say")
                rows = await asyncio.to_thread(lambda: tuple(self._rows()))
                self._post(PolicyRowsUpdate(self._core.executor.mode.value, rows))
            case RevokeApproval(pattern, file):
                await self._revoke(pattern, file)
            case ChangeSetting(name, value, file):
                await self._set(name, value, file)
            case JudgeCall(text):
                self._post(await self._judged(text))
            case _:
                pass

    async def _judged(self, text: str) -> JudgedUpdate:
        name, _, rest = text.strip().partition(" ")
        names_tool = any(tool.name == name for tool in self._core.registry.list())
        tool, remark = "shell", ""
        arguments: JsonValue = {"command": text}
        if names_tool and rest.lstrip().startswith("{"):
            try:
                tool, arguments = name, json.loads(rest)
            except ValueError as error:
                return JudgedUpdate(text, "", f"The arguments of {name} are not valid JSON yet: {error}.")
        elif names_tool:
            remark = (
                f"Judged as a command. {name} is a tool as well: `{name} {{...}}` with its arguments asks about that."
            )
        try:
            judged = await self._core.executor.judge_call(tool, arguments, origin=Origin.MODEL)
        except ToolFailure as failure:
            return JudgedUpdate(text, Decision.DENY.value, f"It could not run: {failure.message}")
        place = await asyncio.to_thread(self._place, judged)  # it may have to try a cage
        explanation = judged.explanation
        return JudgedUpdate(text, explanation.decision.value, "\n".join(_told(explanation, place, remark)))

    def _place(self, judged: Judged) -> str:
        place = judged.place_where_it_runs()
        if place is None or judged.explanation.decision is Decision.DENY:
            return ""
        if place is ExecutionPlace.WORK_CAGE and (problem := Sandbox(self._trust.configuration.sandbox).problem):
            return f"It would not run: no sandbox works here ({problem})."
        return f"It would run {place.value}."

    async def _revoke(self, pattern: str, file: str) -> None:
        """Take an approval back, of the session where there is no file; tell and list what holds then."""
        core, name = self._core, visible(pattern)
        if file:
            from ollm_tui.core.policy.saved_rules import remove_approval  # loads tomlkit

            try:
                await asyncio.to_thread(remove_approval, Path(file), self._table_of(file), pattern)
            except ValueError as error:
                self._post(updates.ToastUpdate(f"{name} stays approved: {error}", failed=True))
                return
            await self._trust.read_again("What your files say")
        else:

            def forget(now: PolicyEngine) -> PolicyEngine:
                kept = tuple(each for each in now.sources.commands.approvals if each.file or each.text != pattern)
                return PolicyEngine(replace(now.sources, commands=replace(now.sources.commands, approvals=kept)))

            await core.executor.change_policy(forget, core.executor.workspace)
            self._post(updates.ToastUpdate(f"{name} is not approved any more."))
        await self.handle(ListPolicy())

    async def _set(self, name: str, value: str, file: str) -> None:
        """Write a setting into a file, and tell where another one is stronger."""
        from ollm_tui.core.policy.saved_rules import set_value  # loads tomlkit

        given = value == "true" if value in ("true", "false") else value
        try:
            await asyncio.to_thread(set_value, Path(file), (*self._table_of(file), *name.split(".")), given)
        except ValueError as error:
            self._post(updates.ToastUpdate(f"{name} stays as it was: {error}", failed=True))
            return
        await self._trust.read_again(f"{name} = {value}")
        holds = _values(self._trust.configuration)[name]
        if self._trust.configuration.policy_error is None and holds != value:
            words = f"{name} is {value} in {visible(file)}, but {holds} holds: another file is stronger."
            self._post(updates.ToastUpdate(words, failed=True))
        await self.handle(ListPolicy())

    def _table_of(self, file: str) -> tuple[str, ...]:
        """Return the tables in which a file has its policy."""
        tables = {str(path): table for path, table in self._trust.configuration.files.remember_in.values()}
        return tables.get(file, ())

    # -- the list ----------------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[PolicyRow]:
        files = self._trust.configuration.files
        if (error := self._trust.configuration.policy_error) is not None:
            place = (_own_file(error.file), error.line or 0)
            yield PolicyRow("error", PolicySection.FINDINGS, str(error), DENIED, "", "deny", "", *place)
            yield from self._decisions()
            return
        ordered = [*files.documents, files.preset]
        yield from self._findings()
        yield from self._settings(ordered)
        repository = [files.repository] if files.repository else []
        for loaded in [*ordered, *repository]:
            yield from _rules(loaded, counts="" if loaded in ordered else "only its asks and denies count")
        yield from self._approvals(ordered)
        yield from self._decisions()

    def _findings(self) -> Iterator[PolicyRow]:
        from ollm_tui.core.policy.lint import lint, lint_sources  # neither is needed for a start

        configuration = self._trust.configuration
        files = configuration.files
        documents = [*files.documents, *([files.repository] if files.repository else []), files.preset]
        found = [*lint(documents, self._core.registry.list()), *lint_sources(configuration.sources)]
        for number, finding in enumerate(found):
            fields = finding.model_dump(mode="json", by_alias=True, exclude_none=True)
            details = "\n".join(f"{name}: {value}" for name, value in fields.items())
            section, kind = PolicySection.FINDINGS, finding.kind.value
            place = (_own_file(finding.file), finding.line or 0)
            yield PolicyRow(f"f{number}", section, finding.message, kind, finding.source, "", details, *place)

    def _settings(self, ordered: list[LoadedPolicy]) -> Iterator[PolicyRow]:
        configuration = self._trust.configuration
        given = configuration.options.policy_file
        own = str(given or user_config_path(configuration.options))
        theirs = {own, *(str(path) for path, _ in configuration.files.remember_in.values())}
        repository = configuration.files.repository
        asked = [*ordered, *([repository] if repository else [])]
        for name, value in _values(configuration).items():
            source = next((each for each in asked if _value_in(each.document, name) == value), None)
            table, _, key = f"policy.{name}".rpartition(".")
            file = source.file if source is not None and source.file in theirs else own
            meanings = SETTINGS[name]
            details = [f"{each:<12} {meaning}" for each, meaning in meanings.items()]
            where = "as it comes" if source is None else source.file or source.source
            yield PolicyRow(
                f"s{name}",
                PolicySection.SETTINGS,
                f"{name} = {value}",
                where,
                details="\n".join([*details, "", f"Enter changes it: [{table}], {key} = ..., in {file}"]),
                file=file or own,
                choices=tuple(Choice(each, meaning, each == value) for each, meaning in meanings.items()),
            )

    def _approvals(self, ordered: list[LoadedPolicy]) -> Iterator[PolicyRow]:
        from ollm_tui.core.policy.approval_patterns import ApprovalKey
        from ollm_tui.runtime.policy_text import approval_uses

        uses = approval_uses(lambda _: None)
        for loaded in ordered:
            for number, approval in enumerate(loaded.document.exec.approvals):
                use = uses.get(ApprovalKey(loaded.file or loaded.source, approval.pattern))
                times = "not used so far" if use is None else f"used {use.uses:,}x, last {use.last_used[:16]}"
                beside = "unused" if use is None else f"{use.uses:,}x"
                fields = approval.model_dump(mode="json", exclude_none=True)
                details = "\n".join(f"{name}: {value}" for name, value in fields.items())
                where = f"{loaded.file or loaded.source}  {times}"
                row_id = f"a{loaded.source}{number}"
                section, file = PolicySection.APPROVALS, _own_file(loaded.file)
                yield PolicyRow(
                    row_id, section, approval.pattern, where, beside, "allow", details, file, revocable=bool(file)
                )
        for number, pattern in enumerate(self._core.executor.policy.sources.commands.approvals):
            if not pattern.file:
                section, told = PolicySection.APPROVALS, "this session alone"
                yield PolicyRow(f"t{number}", section, pattern.text, told, "session", "allow", revocable=True)

    def _decisions(self) -> Iterator[PolicyRow]:
        try:
            lines = AuditLog(self._core.store).read(MOST_DECISIONS)
        except StorageFailed as failure:
            yield PolicyRow("d", PolicySection.DECISIONS, "The log cannot be read", failure.message)
            return
        yield from (row for line in reversed(lines) if (row := _decided(line)) is not None)


def _values(configuration: Configuration) -> dict[str, str]:
    """Return the settings that hold, as their files spell them."""
    sources = configuration.sources
    commands = sources.commands
    return {
        "preset": configuration.files.preset.source.removeprefix("preset "),
        "default_action": sources.default_action.value,
        "exec.mode": commands.mode.value,
        "exec.on_miss": commands.on_miss.value,
        "exec.read_only_commands": str(commands.read_only_commands).lower(),
        "sandbox.mode": configuration.sandbox.mode.value,
    }


def _value_in(document: PolicyDocument, name: str) -> str | None:
    """Return what one file says of a setting; None where it says nothing."""
    table, _, key = name.rpartition(".")
    value = getattr(getattr(document, table) if table else document, key)
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _told(explanation: Explanation, place: str, remark: str) -> Iterator[str]:
    yield f"{explanation.reason}. Risk: {explanation.risk.value}."
    yield from filter(None, (place, remark))
    yield ""
    for each in explanation.trace:
        part = f"{each.part}: " if each.part else ""
        where = f" ({each.file}:{each.line})" if each.file and each.line else ""
        yield f"{each.decision.value:<5}  {each.layer.value}  {part}{each.reason}{where}"


def _rules(loaded: LoadedPolicy, counts: str) -> Iterator[PolicyRow]:
    from ollm_tui.runtime.policy_text import rule_lines

    for rule, location in loaded.rules_with_sources:
        told = " ".join(f"{each.param} {each.operator.value} {each.value}" for each in rule.conditions)
        details = "\n".join(line for line in rule_lines(rule, str(location)) if line)
        facts = f"{location}{f'; {counts}' if counts else ''}"
        row_id = f"r{location.source}{location.number}"
        beside = f"{location.source} {location.number}"
        place = (_own_file(location.file), location.line or 0)
        action, section = rule.action.value, PolicySection.RULES
        yield PolicyRow(row_id, section, rule.tool, facts, beside, action, details, *place, conditions=told)


def _decided(line: AuditLine) -> PolicyRow | None:
    """Return the row of a decision or of an answer; None for the other events."""
    entry = line.entry
    if entry is None or (entry.decision is None and entry.event is not AuditEvent.SETTLED):
        return None
    word = entry.decision.value if entry.decision is not None else entry.outcome or ""
    why = f"by {entry.by}" if entry.by else ""
    if entry.layer is not None:
        rule = f" rule {entry.rule}" if entry.rule else ""
        place = f"  {entry.file}:{entry.line}" if entry.file and entry.line else ""
        why = f"{entry.layer.value}{rule}{place}"
    fields = entry.model_dump(mode="json", exclude_none=True)
    details = "\n".join(f"{name}: {value}" for name, value in fields.items())
    facts, beside = f"{line.time[:19]}  {why}", line.time[11:19]
    place = (_own_file(entry.file), entry.line or 0)
    return PolicyRow(f"l{line.number}", PolicySection.DECISIONS, entry.tool, facts, beside, word, details, *place)


def _own_file(name: str | None) -> str:
    """Return the file of a source; empty for what comes with the program."""
    return name if name is not None and Path(name).is_absolute() else ""
