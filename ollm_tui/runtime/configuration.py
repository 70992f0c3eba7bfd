"""Read settings and policy sources from files, trust and flags."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ollm_tui.agent.bundles import Bundles, added_bundles
from ollm_tui.agent.hooks.entries import HookSettings, read_hooks, with_scripts_checked
from ollm_tui.config import ConfigError, ConfigFile, LoadedConfig, Settings, load_settings, user_config_path
from ollm_tui.core.base.app_dirs import config_dir, may_be_there
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
    SandboxPolicy,
    load_policy,
    load_preset,
    read_checked,
    read_policy_file,
)
from ollm_tui.core.policy.repository_trust import TrustState, TrustStore
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision, ExecMode, PolicyRule, RuleSource, ToolPolicy, strictest
from ollm_tui.core.sandbox.engines import SandboxMode, SandboxSettings
from ollm_tui.core.sandbox.layout import IMAGE, CageLimits
from ollm_tui.options import Options

if TYPE_CHECKING:
    from ollm_tui.agent.mcp.settings import McpSettings

_EXEC_STRICTNESS = {ExecMode.FULL: 0, ExecMode.ALLOWLIST: 1, ExecMode.DENY: 2}


class ConfigurationError(Exception):
    """A configuration that cannot be used (exit 2); the message says where, what, and what to do."""


@dataclass(frozen=True)
class PolicyFiles:
    """The policy documents in force, strongest first, and where approvals are saved."""

    documents: tuple[LoadedPolicy, ...] = ()
    preset: LoadedPolicy = field(default_factory=lambda: load_preset(DEFAULT_PRESET))
    repository: LoadedPolicy | None = None
    remember_in: dict[RememberScope, tuple[Path, tuple[str, ...]]] = field(
        default_factory=dict[RememberScope, tuple[Path, tuple[str, ...]]]
    )


@dataclass(frozen=True)
class Configuration:
    """What files, variables and flags say; with a `policy_error` everything is denied."""

    options: Options
    workspace: Workspace
    loaded: LoadedConfig
    trust: TrustState
    files: PolicyFiles
    sources: PolicySources
    policy_error: PolicyFileError | None = None
    allow_domains: tuple[str, ...] = ()
    """Hosts that may be fetched without a question; a repository can add none."""
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    """Where commands run that were allowed; a repository has no say in it."""
    hooks: HookSettings = field(default_factory=HookSettings)
    mcp: McpSettings | None = None
    """The person's MCP servers; None where they have none."""
    bundles: Bundles = field(default_factory=Bundles)
    """What plug-ins that are folders bring."""

    @property
    def settings(self) -> Settings:
        """The effective settings."""
        return self.loaded.settings

    @property
    def errors(self) -> list[ConfigError]:
        """What is wrong in config files and variables."""
        return self.loaded.errors

    def with_readable(self, folders: Sequence[Path]) -> Configuration:
        """Return a copy in which tools may also read `folders`."""
        workspace = self.workspace.varied(readable=folders)
        commands = replace(self.sources.commands, workspace=workspace)
        return replace(self, workspace=workspace, sources=replace(self.sources, commands=commands))

    def require_valid(self) -> None:
        """Raise ConfigurationError naming every error, for commands, which then do nothing."""
        messages = [str(error) for error in self.errors]
        if self.policy_error is not None:
            messages.append(str(self.policy_error))
        if messages:
            raise ConfigurationError("\n".join(dict.fromkeys(messages)))


def configure(options: Options) -> Configuration:
    """Read everything, changing nothing on disk.

    Raises:
        ConfigurationError: There is no workspace, or its trust cannot be read.
    """
    workspace = _workspace(options)
    try:
        trusted = TrustStore.of_user()
        own = trusted.check(workspace.root)
        bundles = added_bundles(trusted)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    loaded = load_settings(options, own if own.trust is TrustState.TRUSTED else None)
    policy_error: PolicyFileError | None = None
    files = PolicyFiles()
    workspace = workspace.varied(protected_patterns=loaded.settings.tools.protected)
    try:
        _check_protection(workspace, loaded)
        if loaded.unreadable is not None:
            raise PolicyFileError(
                loaded.unreadable.source, loaded.unreadable.message, loaded.unreadable.remedy, loaded.unreadable.line
            )
        files = _policy_files(options, workspace, loaded)
        sources = _sources(files, workspace, [RuleSet(each.rules().rules_with_sources) for each in bundles.counting])
    except PolicyFileError as error:
        policy_error = error
        sources = deny_everything()
    domains = tuple(domain for each in files.documents for domain in each.document.web.allow_domains)
    sandbox = _sandbox([each.document.sandbox for each in files.documents])
    hooks = _hooks(loaded, workspace.root, trusted, bundles)
    mcp = _mcp(loaded, workspace, trusted, bundles)
    return Configuration(
        *(options, workspace, loaded, own.trust, files, sources, policy_error, domains, sandbox, hooks, mcp, bundles)
    )


def deny_everything() -> PolicySources:
    """Return the sources that hold while the policy is unknown."""
    rule = PolicyRule(tool="*", action=Decision.DENY, message="the policy could not be read")
    return PolicySources(
        (RuleSet([(rule, RuleSource("unreadable policy", 1))]),),
        Decision.DENY,
        commands=CommandPolicy(mode=ExecMode.DENY),
    )


def with_approvals_since(start: PolicySources, now: PolicySources, fresh: PolicySources) -> PolicySources:
    """Return `fresh` with what was remembered for the session between `start` and `now`."""
    rules = tuple(each for each in now.rule_sets if each.source == RememberScope.SESSION)
    # Those of a file are in `fresh`, or the person took them out of it.
    given = tuple(each for each in now.commands.approvals if not each.file and each not in start.commands.approvals)
    commands = replace(fresh.commands, approvals=(*fresh.commands.approvals, *given))
    return replace(fresh, rule_sets=(*rules, *fresh.rule_sets), commands=commands)


def workspace_policy_path(root: Path) -> Path:
    """Return the file with one workspace's approvals; it is never inside the workspace."""
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
    """Raise PolicyFileError for the first file that cannot be used."""
    if options.policy_file is not None:
        given = read_policy_file(options.policy_file, "policy file")
        return PolicyFiles((given,), load_preset(given.document.preset or DEFAULT_PRESET))
    documents: list[LoadedPolicy] = []
    own = workspace_policy_path(workspace.root)
    if may_be_there(own):
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


def _hooks(loaded: LoadedConfig, root: Path, trusted: TrustStore, bundles: Bundles) -> HookSettings:
    """Return the person's hooks, then those of plug-ins and of a trusted workspace."""
    every: list[HookSettings] = []
    if (file := loaded.user_file) is not None:
        every.append(read_hooks(file.tables, file.text, str(file.path)))
    every.append(bundles.hooks)
    if (file := loaded.repository_file) is not None:
        every.append(with_scripts_checked(read_hooks(file.tables, file.text, str(file.path)), root, trusted))
    hooks = tuple(hook for each in every for hook in each.hooks)
    return HookSettings(hooks, tuple(words for each in every for words in each.findings))


def _mcp(loaded: LoadedConfig, workspace: Workspace, trusted: TrustStore, bundles: Bundles) -> McpSettings | None:
    of_bundles = [(bundle.servers(), bundle.path) for bundle in bundles.counting if bundle.manifest.mcp]
    file = loaded.user_file if loaded.user_file is not None and "mcp" in loaded.user_file.tables else None
    if file is None and not of_bundles and not may_be_there(workspace.root / ".mcp.json"):
        return None
    # Without servers nobody waits for it.
    from ollm_tui.agent.mcp.settings import McpSettings, joined, read_mcp, read_servers, with_workspace

    own = read_mcp(file.tables, file.text, str(file.path)) if file is not None else McpSettings()
    for tables, path in of_bundles:
        own = joined(own, read_servers(tables, path, {}), path)
    return with_workspace(own, workspace, trusted)


def _sources(files: PolicyFiles, workspace: Workspace, stricter: Sequence[RuleSet]) -> PolicySources:
    """Return what the policy goes by; `stricter` are rules of plug-ins, which loosen nothing."""
    ordered = [*files.documents, files.preset]
    documents = [each.document for each in ordered]
    default_action = next((each.default_action for each in documents if each.default_action), Decision.ASK)
    mode = next((each.exec.mode for each in documents if each.exec.mode), ExecMode.ALLOWLIST)
    on_miss = next((each.exec.on_miss for each in documents if each.exec.on_miss), Decision.ASK)
    tools: list[ToolPolicy] = [each.tools for each in documents]
    tightening = tuple(stricter)
    if files.repository is not None:
        own = files.repository.document
        tightening = (*tightening, RuleSet(files.repository.rules_with_sources))
        tools.append(own.tools)
        mode = max(mode, own.exec.mode or mode, key=_EXEC_STRICTNESS.__getitem__)
        on_miss = Decision.DENY if own.exec.on_miss is Decision.DENY else on_miss
        default_action = strictest(default_action, own.default_action or default_action)
    read_only = [each.exec.read_only_commands for each in documents if each.exec.read_only_commands is not None]
    closed = files.repository is not None and files.repository.document.exec.read_only_commands is False
    commands = CommandPolicy(
        mode=mode,
        on_miss=on_miss,
        approvals=tuple(_patterns(ordered)),
        read_only_commands=bool(read_only and read_only[0]) and not closed,
        workspace=workspace,
    )
    rule_sets = tuple(RuleSet(each.rules_with_sources) for each in ordered)
    return PolicySources(rule_sets, default_action, tuple(tools), commands, tightening)


def _sandbox(tables: list[SandboxPolicy]) -> SandboxSettings:
    """Return the settings, each from the strongest table that gives it."""
    given: dict[str, JsonValue] = {}
    for table in reversed(tables):
        given |= table.model_dump(exclude_none=True)
    limits = {name: given[name] for name in ("memory_mb", "pids", "tmp_mb", "cpu_percent") if name in given}
    merged = SandboxPolicy.model_validate(given)
    return SandboxSettings(
        mode=merged.mode or SandboxMode.OFF,
        network=bool(merged.network),
        git_writable=merged.git == "rw",
        bind=tuple(merged.bind or ()),
        limits=replace(CageLimits(), **limits),
        image=merged.image or IMAGE,
    )


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
