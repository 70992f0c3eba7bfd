"""Add approvals and rules to a policy file (imports tomlkit, so loaded only when saving)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tomlkit
from pydantic import JsonValue, ValidationError
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, Table

from ollm_tui.core.files.atomic import replace_text
from ollm_tui.core.policy.policy_file import PolicyDocument, PolicyFileError, load_policy, parse_toml, read_checked
from ollm_tui.core.policy.rules import PolicyRule


def add_to_file(path: Path, table_path: Sequence[str], patterns: Sequence[str], rule: PolicyRule | None) -> None:
    """Add a rule, else patterns, to a TOML file that may be missing; raises ValueError, the file is unchanged then."""
    try:
        text = read_checked(path) if path.exists() else ""
        known = {approval.pattern for approval in _policy_in(text, path, table_path).exec.approvals}
        document = tomlkit.parse(text)
        table: tomlkit.TOMLDocument | Table = document
        for name in table_path:
            if name not in table:
                table[name] = tomlkit.table()
            table = _table(table, name)
        if rule is None:
            _add_approvals(table, [pattern for pattern in patterns if pattern not in known])
        else:
            _add_rule(table, rule)
        written = tomlkit.dumps(document)
        _check_saved(_policy_in(written, path, table_path), path, patterns, rule)
        replace_text(path, written)
    except (OSError, TOMLKitError, ValidationError, PolicyFileError) as error:
        raise ValueError(f"{path} could not be changed: {error}") from None


def remove_approval(path: Path, table_path: Sequence[str], pattern: str) -> None:
    """Take an approval out of a TOML file; raises ValueError, the file is unchanged then."""
    try:
        text = read_checked(path)
        document = tomlkit.parse(text)
        table: tomlkit.TOMLDocument | Table = document
        known = [approval.pattern for approval in _policy_in(text, path, table_path).exec.approvals]
        if pattern not in known:
            raise ValueError(f"{path} has no such approval any more")
        for name in (*table_path, "exec"):
            table = _table(table, name)
        approvals = table["approvals"]
        if not isinstance(approvals, Array | AoT):
            raise ValueError("exec.approvals is no list; take it out by hand")
        for number in reversed([number for number, each in enumerate(known) if each == pattern]):
            del approvals[number]
        written = tomlkit.dumps(document)
        left = {approval.pattern for approval in _policy_in(written, path, table_path).exec.approvals}
        if pattern in left:
            raise ValueError(f"{path} is written in a form that it cannot be taken out of; take it out by hand")
        replace_text(path, written)
    except (OSError, TOMLKitError, ValidationError, PolicyFileError) as error:
        raise ValueError(f"{path} could not be changed: {error}") from None


def set_value(path: Path, table_path: Sequence[str], value: str | bool) -> None:
    """Set what `table_path` leads to in a TOML file that may be missing; raises ValueError, it is unchanged then."""
    *tables, key = table_path
    try:
        document = tomlkit.parse(read_checked(path) if path.exists() else "")
        table: tomlkit.TOMLDocument | Table = document
        for name in tables:
            if name not in table:
                table[name] = tomlkit.table()
            table = _table(table, name)
        table[key] = value
        written = tomlkit.dumps(document)
        found: JsonValue = dict(parse_toml(written, str(path)))
        for name in table_path:
            found = found.get(name) if isinstance(found, dict) else None
        if found != value:
            raise ValueError(f"{path} is written in a form that {key} cannot be set in; set it by hand")
        _policy_in(written, path, ("policy",) if table_path[0] == "policy" else ())
        replace_text(path, written)
    except (OSError, TOMLKitError, ValidationError, PolicyFileError) as error:
        raise ValueError(f"{path} could not be changed: {error}") from None


def _policy_in(text: str, path: Path, table_path: Sequence[str]) -> PolicyDocument:
    """Return the policy in a file's text; raises PolicyFileError."""
    table: JsonValue = dict(parse_toml(text, str(path)))
    for name in table_path:
        table = table.get(name, {}) if isinstance(table, dict) else {}
    return load_policy(table, text, str(path), "saved").document


def _check_saved(document: PolicyDocument, path: Path, patterns: Sequence[str], rule: PolicyRule | None) -> None:
    """Verify that the new text says what was meant, before it replaces the file."""
    saved = {approval.pattern for approval in document.exec.approvals}
    if not saved.issuperset(patterns) or (rule is not None and document.rules[:1] != [rule]):
        raise ValueError(f"{path} is written in a form that the rule cannot be added to; add it by hand")


def _table(parent: tomlkit.TOMLDocument | Table, name: str) -> Table:
    item = parent[name]
    if not isinstance(item, Table):
        raise ValueError(f"[{name}] is written in a form that cannot be added to; add the rule by hand")
    return item


def _add_approvals(table: tomlkit.TOMLDocument | Table, patterns: list[str]) -> None:
    if "exec" not in table:
        table["exec"] = tomlkit.table()
    section = _table(table, "exec")
    if "approvals" not in section:
        section["approvals"] = tomlkit.array().multiline(True)
    approvals = section["approvals"]
    if not isinstance(approvals, Array | AoT):
        raise ValueError("exec.approvals is no list; add the rule by hand")
    inline = isinstance(approvals, Array)
    for pattern in patterns:
        row = tomlkit.inline_table() if inline else tomlkit.table()
        row["pattern"] = pattern
        row["added_by"] = "user"
        approvals.insert(len(approvals), row)


def _add_rule(table: tomlkit.TOMLDocument | Table, rule: PolicyRule) -> None:
    """Insert the rule first: the first match in file order decides."""
    entry = tomlkit.table()
    entry["tool"] = rule.tool
    entry["action"] = rule.action.value
    conditions = tomlkit.array()
    for condition in rule.conditions:
        row = tomlkit.inline_table()
        row["param"] = condition.param
        row["operator"] = condition.operator.value
        row["value"] = condition.value
        conditions.insert(len(conditions), row)
    entry["conditions"] = conditions
    if "rules" not in table:
        table["rules"] = tomlkit.aot()
    rules = table["rules"]
    if not isinstance(rules, AoT):
        raise ValueError("rules is not written as [[rules]]; add the rule by hand")
    rules.insert(0, entry)
