"""Choose the provider: as configured, else a server that answers here, else the offline one.

Each is loaded when it is chosen: together they take as much memory as the rest of the agent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ollm_tui.agent.providers.provider import Provider
from ollm_tui.config import Settings
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import ConfigurationError


@dataclass(frozen=True)
class ChosenProvider:
    """A provider, and what a person should know about the choice."""

    provider: Provider
    notice: str | None = None


async def choose_provider(settings: Settings, options: Options) -> ChosenProvider:
    """Return the provider; raise ConfigurationError where what was asked for cannot be had."""
    key = settings.api_key.get_secret_value() if settings.api_key else None
    try:
        match settings.provider:
            case "ollama":
                return ChosenProvider(_ollama(settings.base_url or ollama_host(), settings, key))
            case "openai":
                if settings.base_url is None:
                    raise ConfigurationError("Provider openai needs an address: give --base-url or set base_url.")
                return ChosenProvider(_openai(settings.base_url, settings, key))
            case "offline":
                return ChosenProvider(_offline())
            case "scripted":
                return ChosenProvider(_scripted(options))
            case None:
                return await _probed(settings, key)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def ollama_host() -> str | None:
    """Return where OLLAMA_HOST says that Ollama is; None where it says nothing."""
    return os.environ.get("OLLAMA_HOST") or None


def probing_allowed() -> bool:
    """Return whether model servers may be looked for; `OLLM_PROBE=0` says no."""
    return os.environ.get("OLLM_PROBE") != "0"


async def _probed(settings: Settings, key: str | None) -> ChosenProvider:
    if settings.base_url is not None:
        return ChosenProvider(_openai(settings.base_url, settings, key))
    if not probing_allowed():
        return ChosenProvider(_offline())
    from ollm_tui.agent.providers.probe import probe_servers, probe_targets

    targets = probe_targets(ollama_host())
    servers = await probe_servers(targets=targets)
    given = targets[0].given
    absent = f"OLLAMA_HOST is {given}, where nothing answers." if given else None
    if not servers:
        return ChosenProvider(_offline(), absent)
    server = servers[0]
    notice = f"Found {server.label} at {server.base_url}."
    if given and server.base_url == given.url:
        return ChosenProvider(_ollama(ollama_host(), settings, key), notice)  # with the credentials in it
    made = _ollama if server.kind == "ollama" else _openai
    return ChosenProvider(made(server.base_url, settings, key), f"{absent} {notice}" if absent else notice)


def _ollama(base_url: str | None, settings: Settings, key: str | None) -> Provider:
    from ollm_tui.agent.providers.ollama import OllamaProvider

    return OllamaProvider(base_url, settings.model, settings.num_ctx, api_key=key)


def _openai(base_url: str, settings: Settings, key: str | None) -> Provider:
    from ollm_tui.agent.providers.openai import OpenAIProvider

    return OpenAIProvider(base_url, settings.model, key, context_window=settings.num_ctx)


def _offline() -> Provider:
    from ollm_tui.agent.providers.offline import OfflineProvider

    return OfflineProvider()


def _scripted(options: Options) -> Provider:
    from ollm_tui.agent.providers.scripted import ScriptedProvider

    if options.script is not None:
        return ScriptedProvider.from_file(options.script)
    from ollm_tui.agent.providers.scripted import tour_script

    return ScriptedProvider(tour_script(), model="tour")
