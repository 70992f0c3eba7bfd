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
from ollm_tui.core.policy.policy_file import LoadedPolicy
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.sandbox.engines import Sandbox
from ollm_tui.runtime import Core
from ollm_tui.tui.controllers.trust_controller import TrustController
from ollm_tui.tui.protocol import PostUpdate, updates
from ollm_tui.tui.protocol.policy import (
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

            tables = {str(path): table for path, table in core.configuration.files.remember_in.values()}
            try:
                await asyncio.to_thread(remove_approval, Path(file), tables.get(file, ()), pattern)
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
        sources, commands = configuration.sources, configuration.sources.commands
        named = next((each for each in ordered if each.document.preset), None)
        deciding = next((each for each in ordered if each.document.default_action), None)
        own = str(user_config_path(configuration.options))
        mode, miss, reads = commands.mode, commands.on_miss, commands.read_only_commands
        cage = configuration.sandbox.mode
        asked = [*ordered, *([configuration.files.repository] if configuration.files.repository else [])]
        mode_of = next((each for each in asked if each.document.exec.mode is mode), None)
        miss_of = next((each for each in asked if each.document.exec.on_miss is miss), None)
        reads_of = next((each for each in asked if each.document.exec.read_only_commands is reads), None)
        cage_of = next((each for each in asked if each.document.sandbox.mode is cage), None)
        rows = (
            ("preset", configuration.files.preset.source.removeprefix("preset "), named, "which rules come last"),
            ("default_action", sources.default_action.value, deciding, "where no rule matches"),
            ("exec.mode", mode.value, mode_of, "allowlist: what nothing covers does as exec.on_miss says"),
            ("exec.on_miss", miss.value, miss_of, "what an uncovered command does"),
            ("exec.read_only_commands", str(reads).lower(), reads_of, "commands that only read run"),
            ("sandbox.mode", cage.value, cage_of, "where allowed commands run"),
        )
        for name, value, source, meaning in rows:
            where = (source.file or source.source) if source is not None else "as it comes"
            table, _, key = f"policy.{name}".rpartition(".")
            details = f"{meaning[:1].upper()}{meaning[1:]}.\n\nTo change it: [{table}], {key} = ..., in {own}"
            file = _own_file(source.file if source is not None else None) or own
            section, title = PolicySection.SETTINGS, f"{name} = {value}"
            yield PolicyRow(f"s{name}", section, title, where, details=details, file=file)

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
