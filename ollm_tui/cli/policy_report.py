"""`ollm-tui policy show` and `policy log`; loaded only for these two, for start-up."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

import tomlkit

from ollm_tui.cli.command_line import ExitCode
from ollm_tui.cli.streams import print_json, say, say_notice, valid_configuration
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.policy.approval_patterns import ApprovalKey
from ollm_tui.core.policy.approvals import ApprovalUse, ApprovalUses
from ollm_tui.core.policy.audit import AuditLine, AuditLog, CallEnd, unfinished_calls
from ollm_tui.core.policy.audit_chain import EndFile
from ollm_tui.core.policy.policy_file import DEFAULT_PRESET, PRESETS, LoadedPolicy, preset_text
from ollm_tui.core.policy.rules import PolicyRule, ToolPolicy
from ollm_tui.core.storage.store import Store
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import Configuration, PolicyFiles

_NO_END = {
    CallEnd.RUNNING: "no end yet: it still runs",
    CallEnd.LOST: "no end: its process was killed, whether it took effect is not known",
}


def show_log(*, as_json: bool, last: int | None) -> int:
    """Print the audit log, oldest line first; a call whose end is missing says so."""
    try:
        with _log() as log:
            lines = log.read(last)
            open_ends = unfinished_calls(lines)
            for line in lines:
                end = open_ends.get(line.number)
                if as_json:
                    fields = line.model_dump(mode="json", by_alias=True, exclude_none=True)
                    print_json({**fields, "noEnd": end.value} if end else fields)
                else:
                    print(_shown(line) + (f"  ({_NO_END[end]})" if end else ""))
    except StorageFailed as failure:
        say(failure.message)
        return ExitCode.FAILED
    return ExitCode.DONE


def verify_log() -> int:
    """Check the audit log; exit 1 where a line was changed, removed or inserted."""
    try:
        with _log() as log:
            broken = log.verify()
    except StorageFailed as failure:
        say(failure.message)
        return ExitCode.FAILED
    if broken is None:
        print_json({"ok": True})
        return ExitCode.DONE
    print_json({"ok": False, "line": broken.number, "reason": broken.reason})
    say(broken.message)
    return ExitCode.FAILED


@contextmanager
def _log() -> Generator[AuditLog]:
    store = Store(data_dir() / "ollm.db")
    try:
        say_notice(store)
        yield AuditLog(store, end_file=EndFile.of_store(store.path))
    finally:
        store.close()


def _shown(line: AuditLine) -> str:
    entry = line.entry
    if entry is None:
        return f"{line.number}  cannot be read; see --verify"
    parts = [f"{line.number}", line.time, entry.event.value, visible(entry.tool)]
    match entry.outcome, entry.decision:
        case None, None:
            pass
        case None, decision:
            parts.append(decision.value if decision else "")
        case outcome, _:
            parts.append(outcome)
    if entry.by:
        parts.append(f"by {visible(entry.by)}")
    if entry.layer is not None and entry.outcome is None:
        rule = f" rule {entry.rule}" if entry.rule else ""
        location = f" ({visible(entry.file)}:{entry.line})" if entry.file and entry.line else ""
        parts.append(f"[{entry.layer.value}{rule}{location}]")
    if entry.latency_ms is not None:
        parts.append(f"{entry.latency_ms} ms")
    if entry.place is not None:
        parts.append(entry.place.value)
    return "  ".join([*parts, entry.call_id])


def show_preset(name: str) -> int:
    """Print a shipped preset as its file has it."""
    print(preset_text(name), end="")
    return ExitCode.DONE


def show_policy(options: Options) -> int:
    """Print the policy in force in the order of evaluation, with sources in comments."""
    configuration = valid_configuration(options)
    print("\n".join(_lines(configuration)))
    return ExitCode.DONE


def _lines(configuration: Configuration) -> Iterator[str]:
    files, sources = configuration.files, configuration.sources
    ordered = [*files.documents, files.preset]
    everything = [*ordered, *([files.repository] if files.repository else [])]
    preset = files.preset.source.removeprefix("preset ")
    named = next((each for each in files.documents if each.document.preset), None)
    yield f"# Presets: {', '.join(PRESETS)}; `ollm-tui policy show NAME` prints one."
    yield _value("preset", preset, _source(named) if named else f"not set, so {DEFAULT_PRESET}")
    deciding = next((each for each in ordered if each.document.default_action), None)
    yield _value("default_action", sources.default_action.value, _source(deciding) if deciding else "default")
    yield from _tools(everything)
    yield from _commands(configuration, files, ordered)
    yield from ("", "[sandbox]", _value("mode", configuration.sandbox.mode.value, "the strongest source that gives it"))
    domains = [domain for each in ordered for domain in each.document.web.allow_domains]
    yield from ("", "[web]", _value("allow_domains", domains, "all sources"))
    for number, loaded in enumerate(ordered):
        later = "; asked when no rule above matches" if number and loaded.document.rules else ""
        yield from (
            "",
            f"# -- rules of {_source(loaded)}{later}" if loaded.document.rules else f"# {_source(loaded)}: no rules",
        )
        for rule, location in loaded.rules_with_sources:
            yield from _rule(rule, str(location))
    if files.repository is not None:
        yield from (
            "",
            f"# -- rules of {_source(files.repository)}: only their asks and denies count, beside all others",
        )
        for rule, location in files.repository.rules_with_sources:
            yield from (f"# {line}" for line in _rule(rule, str(location)))


def _tools(documents: list[LoadedPolicy]) -> Iterator[str]:
    """Yield layer 1: what one source denies is denied; several allow lists leave what all allow."""
    yield from ("", "[tools]")
    closed = [each for each in documents if each.document.tools.allow or each.document.tools.groups.allow]
    for each in closed[1:]:
        tools = each.document.tools
        yield f"# and only what {_source(each)} allows: {', '.join([*tools.allow, *tools.groups.allow])}"
    first = closed[0].document.tools if closed else ToolPolicy()
    yield _value("allow", first.allow, _source(closed[0]) if closed else "not set, so all")
    denying = [each for each in documents if each.document.tools.deny]
    denied = [name for each in denying for name in each.document.tools.deny]
    yield _value("deny", list(dict.fromkeys(denied)), ", ".join(map(_source, denying)) or "not set, so none")
    groups = [name for each in documents for name in each.document.tools.groups.deny]
    yield from ("", "[tools.groups]", _value("allow", first.groups.allow), _value("deny", list(dict.fromkeys(groups))))


def _commands(configuration: Configuration, files: PolicyFiles, ordered: list[LoadedPolicy]) -> Iterator[str]:
    commands = configuration.sources.commands
    yield from ("", "[exec]", _value("mode", commands.mode.value), _value("on_miss", commands.on_miss.value))
    yield _value("read_only_commands", commands.read_only_commands, "read-only commands run without asking")
    rows = [(approval, each) for each in ordered for approval in each.document.exec.approvals]
    if not rows:
        yield "approvals = []"
        return
    yield "approvals = ["
    uses = _uses()
    for approval, each in rows:
        use = uses.get(ApprovalKey(each.file or each.source, approval.pattern))
        shown = approval.model_copy(update={"last_used": use.last_used}) if use else approval
        counted = f"used {use.uses:,} {'time' if use.uses == 1 else 'times'}" if use else "not used so far"
        yield f"    {_inline(shown.model_dump(mode='json', exclude_none=True))},  # {_source(each)}; {counted}"
    yield "]"


def _uses() -> dict[ApprovalKey, ApprovalUse]:
    """Return how often each approval was used; nothing, with a warning, where that cannot be read."""
    path = data_dir() / "ollm.db"
    if not path.exists():
        return {}
    store = Store(path)
    try:
        return ApprovalUses(store, lambda failure: say(failure.message)).read()
    except StorageFailed as failure:
        say(failure.message)
        return {}
    finally:
        store.close()


def _rule(rule: PolicyRule, location: str) -> Iterator[str]:
    yield from ("", "[[rules]]" + f"  # {location}")
    for key, value in rule.model_dump(mode="json", exclude_none=True, exclude={"conditions"}).items():
        yield _value(key, value)
    if rule.conditions:
        rows = [_inline(condition.model_dump(mode="json")) for condition in rule.conditions]
        yield f"conditions = [{', '.join(rows)}]"


def _inline(values: Mapping[str, str | list[str]]) -> str:
    return f"{{ {', '.join(_value(key, value) for key, value in values.items())} }}"


def _value(key: str, value: str | bool | list[str], source: str = "") -> str:
    return f"{key} = {tomlkit.item(value).as_string()}" + (f"  # {source}" if source else "")


def _source(loaded: LoadedPolicy) -> str:
    if loaded.file is None or loaded.file == loaded.source:
        return loaded.source
    return f"{loaded.source} ({loaded.file})"
