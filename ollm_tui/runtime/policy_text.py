"""The policy in force as a text: every source, rule and approval in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import tomlkit

from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.policy.approval_patterns import ApprovalKey
from ollm_tui.core.policy.approvals import ApprovalUse, ApprovalUses
from ollm_tui.core.policy.policy_file import DEFAULT_PRESET, PRESETS, LoadedPolicy
from ollm_tui.core.policy.rules import PolicyRule, ToolPolicy
from ollm_tui.core.storage.store import Store
from ollm_tui.runtime.configuration import Configuration


def policy_lines(configuration: Configuration, warn: Callable[[str], None]) -> Iterator[str]:
    """Yield the policy in force in the order of evaluation, sources in comments; `warn` hears what cannot be read."""
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
    yield from _commands(configuration, ordered, warn)
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
            yield from rule_lines(rule, str(location))
    if files.repository is not None:
        yield from (
            "",
            f"# -- rules of {_source(files.repository)}: only their asks and denies count, beside all others",
        )
        for rule, location in files.repository.rules_with_sources:
            yield from (f"# {line}" for line in rule_lines(rule, str(location)))


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


def _commands(configuration: Configuration, ordered: list[LoadedPolicy], warn: Callable[[str], None]) -> Iterator[str]:
    commands = configuration.sources.commands
    yield from ("", "[exec]", _value("mode", commands.mode.value), _value("on_miss", commands.on_miss.value))
    yield _value("read_only_commands", commands.read_only_commands, "read-only commands run without asking")
    rows = [(approval, each) for each in ordered for approval in each.document.exec.approvals]
    if not rows:
        yield "approvals = []"
        return
    yield "approvals = ["
    uses = approval_uses(warn)
    for approval, each in rows:
        use = uses.get(ApprovalKey(each.file or each.source, approval.pattern))
        shown = approval.model_copy(update={"last_used": use.last_used}) if use else approval
        counted = f"used {use.uses:,} {'time' if use.uses == 1 else 'times'}" if use else "not used so far"
        yield f"    {_inline(shown.model_dump(mode='json', exclude_none=True))},  # {_source(each)}; {counted}"
    yield "]"


def approval_uses(warn: Callable[[str], None]) -> dict[ApprovalKey, ApprovalUse]:
    """Return how often each approval was used; nothing, with a warning, where that cannot be read."""
    path = data_dir() / "ollm.db"
    if not path.exists():
        return {}
    store = Store(path)
    try:
        return ApprovalUses(store, lambda failure: warn(failure.message)).read()
    except StorageFailed as failure:
        warn(failure.message)
        return {}
    finally:
        store.close()


def rule_lines(rule: PolicyRule, location: str) -> Iterator[str]:
    """Yield a rule as it stands in a file, with its place in a comment."""
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
