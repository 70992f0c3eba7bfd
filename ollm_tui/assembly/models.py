"""Choosing the provider: as told, else whatever model server answers here, else the offline one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ollm_tui.agent.providers.base import Provider
from ollm_tui.agent.providers.offline import OfflineProvider
from ollm_tui.agent.providers.ollama import OllamaProvider
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.probe import FoundServer, ServerKind, probe_servers
from ollm_tui.agent.providers.scripted import ScriptedProvider, ScriptFault
from ollm_tui.agent.providers.tour import tour_script
from ollm_tui.assembly.configuration import ConfigurationError
from ollm_tui.config import Settings
from ollm_tui.options import Options


@dataclass(frozen=True)
class Chosen:
    """A provider, and what a person should know about the choice."""

    provider: Provider
    notice: str | None = None


async def choose_provider(settings: Settings, options: Options) -> Chosen:
    """Raises ConfigurationError where what was asked for cannot be had."""
    key = settings.api_key.get_secret_value() if settings.api_key else None
    try:
        match settings.provider:
            case "ollama":
                base_url = settings.base_url or os.environ.get("OLLAMA_HOST")
                return Chosen(OllamaProvider(base_url, settings.model, settings.num_ctx, api_key=key))
            case "openai":
                if settings.base_url is None:
                    raise ConfigurationError("Provider openai needs an address: give --base-url or set base_url.")
                return Chosen(_openai(settings.base_url, settings, key))
            case "offline":
                return Chosen(OfflineProvider())
            case "scripted":
                if options.script is None:
                    return Chosen(ScriptedProvider(tour_script(), model="tour"))
                return Chosen(ScriptedProvider.from_file(options.script))
            case None:
                return await _found(settings, key)
    except ScriptFault as fault:
        raise ConfigurationError(str(fault)) from None
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def probing_allowed() -> bool:
    """Whether model servers on this machine may be looked for: `OLLM_PROBE=0` says no."""
    return os.environ.get("OLLM_PROBE") != "0"


async def _found(settings: Settings, key: str | None) -> Chosen:
    if settings.base_url is not None:
        return Chosen(_openai(settings.base_url, settings, key))
    servers: list[FoundServer] = []
    if probing_allowed():
        servers = list(await probe_servers())
    if not servers:
        return Chosen(OfflineProvider())
    server = servers[0]
    notice = f"Found {server.label} at {server.base_url}."
    if server.kind is ServerKind.OLLAMA:
        return Chosen(OllamaProvider(server.base_url, settings.model, settings.num_ctx, api_key=key), notice)
    return Chosen(_openai(server.base_url, settings, key), notice)


def _openai(base_url: str, settings: Settings, key: str | None) -> OpenAIProvider:
    return OpenAIProvider(base_url, settings.model, key, context_window=settings.num_ctx)
