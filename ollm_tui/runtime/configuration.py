"""From files, trust and flags to settings and policy sources (contract sections 0 and 2)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.config import ConfigError, ConfigFile, LoadedConfig, Settings, load_settings, user_config_path
from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.bus.states import RememberScope
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.command_rules import CommandPolicy
from ollm_tui.core.policy.engine import PolicySources
from ollm_tui.core.policy.policy_file import (
    DEFAULT_PRESET,
    LoadedPolicy,
    PolicyFileError,
    load_policy,
    load_preset,
    read_checked,
    read_policy_file,
)
from ollm_tui.core.policy.repository_trust import TrustState, TrustStore
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision, ExecMode, PolicyRule, RuleSource, ToolPolicy, strictest
from ollm_tui.options import Options

_EXEC_STRICTNESS = {ExecMode.FULL: 0, ExecMode.ALLOWLIST: 1, ExecMode.DENY: 2}


class ConfigurationError(Exception):
    """Nothing can be done before this is put right (exit 2); the message says what, where, and what to do."""


@dataclass(frozen=True)
class PolicyFiles:
    """The policy documents that count, strongest first, and the files that remembered approvals go to."""

    documents: tuple[LoadedPolicy, ...] = ()
    preset: LoadedPolicy = field(default_factory=lambda: load_preset(DEFAULT_PRESET))
    repository: LoadedPolicy | None = None
    remember_in: dict[RememberScope, tuple[Path, tuple[str, ...]]] = field(
        default_factory=dict[RememberScope, tuple[Path, tuple[str, ...]]]
    )


@dataclass(frozen=True)
class Configuration:
    """Everything that files, variables and flags say. With a `policy_fault` nothing is allowed."""

    options: Options
    workspace: Workspace
    loaded: LoadedConfig
    trust: TrustState
    files: PolicyFiles
    sources: PolicySources
    policy_fault: str | None = None
    allow_domains: tuple[str, ...] = ()
    """Hosts that may be fetched unasked; a repository can add none."""

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def faults(self) -> list[ConfigError]:
        return self.loaded.faults

    def reading_also(self, folder: Path) -> Configuration:
        """The same, with `folder` as a further place that tools may read."""
        workspace = self.workspace.varied(readable=(folder,))
        commands = replace(self.sources.commands, workspace=workspace)
        return replace(self, workspace=workspace, sources=replace(self.sources, commands=commands))

    def require_sound(self) -> None:
        """For commands, which do nothing under a faulty configuration. Raises ConfigurationError naming every fault."""
        said = [str(fault) for fault in self.faults]
        if self.policy_fault is not None:
            said.append(self.policy_fault)
        if said:
            raise ConfigurationError("\n".join(dict.fromkeys(said)))


def configure(options: Options) -> Configuration:
    """Read everything; changes nothing on disk. Raises ConfigurationError where there is no workspace."""
    workspace = _workspace(options)
    try:
        own = TrustStore.of_user().check(workspace.root)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    loaded = load_settings(options, own if own.trust is TrustState.TRUSTED else None)
    fault: str | None = None
    files = PolicyFiles()
    workspace = workspace.varied(protected_patterns=loaded.settings.tools.protected)
    try:
        _check_protection(workspace, loaded)
        if loaded.unreadable is not None:
            raise PolicyFileError(
                loaded.unreadable.source, loaded.unreadable.message, loaded.unreadable.remedy, loaded.unreadable.line
            )
        files = _policy_files(options, workspace, loaded)
        sources = _sources(files, workspace)
    except PolicyFileError as error:
        fault = str(error)
        sources = deny_everything()
    domains = tuple(domain for each in files.documents for domain in each.document.web.allow_domains)
    return Configuration(options, workspace, loaded, own.trust, files, sources, fault, domains)


def deny_everything() -> PolicySources:
    """What holds while the policy is unknown."""
    rule = PolicyRule(tool="*", action=Decision.DENY, message="the policy could not be read")
    return PolicySources(
        (RuleSet([(rule, RuleSource("faulty policy", 1))]),), Decision.DENY, commands=CommandPolicy(mode=ExecMode.DENY)
    )


def with_approvals_since(start: PolicySources, now: PolicySources, fresh: PolicySources) -> PolicySources:
    """`fresh`, read anew, with what was remembered for the session between `start` and `now`."""
    rules = tuple(each for each in now.rule_sets if each.source == RememberScope.SESSION)
    given = tuple(each for each in now.commands.approvals if each not in start.commands.approvals)
    commands = replace(fresh.commands, approvals=(*fresh.commands.approvals, *given))
    return replace(fresh, rule_sets=(*rules, *fresh.rule_sets), commands=commands)


def workspace_policy_path(root: Path) -> Path:
    """Where approvals for one workspace are kept: never inside it."""
    digest = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return config_dir() / "workspaces" / f"{root.name or 'root'}-{digest}.toml"


def _workspace(options: Options) -> Workspace:
    try:
        return Workspace(options.workspace or Path.cwd(), options.add_dirs)
    except ToolFailure as failure:
        raise ConfigurationError(f"{failure.message} Name an existing folder with -C or --add-dir.") from None
    except OSError as error:
        raise ConfigurationError(f"There is no workspace: {error}. Name an existing folder with -C.") from None


def _check_protection(workspace: Workspace, loaded: LoadedConfig) -> None:
    try:
        workspace.own_protection.check()
    except ValueError as error:
        source = loaded.sources.get("tools.protected", "settings")
        raise PolicyFileError(source, str(error), "Correct the pattern; until then nothing is allowed.") from None


def _policy_files(options: Options, workspace: Workspace, loaded: LoadedConfig) -> PolicyFiles:
    """Raises PolicyFault for the first file that cannot be used."""
    if options.policy_file is not None:
        given = read_policy_file(options.policy_file, "policy file")
        return PolicyFiles((given,), load_preset(given.document.preset or DEFAULT_PRESET))
    documents: list[LoadedPolicy] = []
    own = workspace_policy_path(workspace.root)
    if own.exists():
        documents.append(read_policy_file(own, "workspace"))
    if loaded.user_file is not None:
        documents.append(_embedded(loaded.user_file, "user"))
    repository = _embedded(loaded.repository_file, "repository") if loaded.repository_file else None
    preset = next((each.document.preset for each in documents if each.document.preset), DEFAULT_PRESET)
    remember_in = {
        RememberScope.WORKSPACE: (own, ()),
        RememberScope.USER: (user_config_path(options), ("policy",)),
    }
    return PolicyFiles(tuple(documents), load_preset(preset), repository, remember_in)


def _embedded(file: ConfigFile, source: str) -> LoadedPolicy:
    read_checked(file.path)
    table: JsonValue = file.tables.get("policy", {})
    return load_policy(table, file.text, str(file.path), source)


def _sources(files: PolicyFiles, workspace: Workspace) -> PolicySources:
    ordered = [*files.documents, files.preset]
    documents = [each.document for each in ordered]
    default_action = next((each.default_action for each in documents if each.default_action), Decision.ASK)
    mode = next((each.exec.mode for each in documents if each.exec.mode), ExecMode.ALLOWLIST)
    on_miss = next((each.exec.on_miss for each in documents if each.exec.on_miss), Decision.ASK)
    tools: list[ToolPolicy] = [each.tools for each in documents]
    tightening: tuple[RuleSet, ...] = ()
    if files.repository is not None:
        own = files.repository.document
        tightening = (RuleSet(files.repository.rules_with_sources),)
        tools.append(own.tools)
        mode = max(mode, own.exec.mode or mode, key=_EXEC_STRICTNESS.__getitem__)
        on_miss = Decision.DENY if own.exec.on_miss is Decision.DENY else on_miss
        default_action = strictest(default_action, own.default_action or default_action)
    looking = [each.exec.read_only_commands for each in documents if each.exec.read_only_commands is not None]
    closed = files.repository is not None and files.repository.document.exec.read_only_commands is False
    commands = CommandPolicy(
        mode=mode,
        on_miss=on_miss,
        approvals=tuple(_patterns(ordered)),
        read_only_commands=bool(looking and looking[0]) and not closed,
        workspace=workspace,
    )
    rule_sets = tuple(RuleSet(each.rules_with_sources) for each in ordered)
    return PolicySources(rule_sets, default_action, tuple(tools), commands, tightening)


def _patterns(documents: list[LoadedPolicy]) -> list[ApprovalPattern]:
    patterns: list[ApprovalPattern] = []
    for loaded in documents:
        file = loaded.file or loaded.source
        for approval in loaded.document.exec.approvals:
            try:
                patterns.append(ApprovalPattern.parse(approval.pattern, file))
            except ValueError as error:
                raise PolicyFileError(file, f"approval {approval.pattern!r}: {error}") from None
    return patterns
