"""Choose the provider: as configured, else a server that answers here, else the offline one.

Each is loaded when it is chosen: together they take as much memory as the rest of the agent.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.agent.providers.json_values import as_text, member
from ollm_tui.agent.providers.provider import Provider, ProviderError
from ollm_tui.agent.providers.server_address import ServerAddress, ollama_address
from ollm_tui.config import Settings
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import ConfigurationError

log = logging.getLogger(__name__)

KEYRING_SERVICE = "ollm-tui"
KEYRING_SECONDS = 10.0
"""How long the keyring is waited for; a locked one asks the person in a window."""

REMOTE_SECONDS = 1.0
"""How long an address beyond this machine is waited for, at least."""


@dataclass(frozen=True)
class ChosenProvider:
    """A provider, and what a person should know about the choice."""

    provider: Provider
    notice: str | None = None


class ServerKind(StrEnum):
    """The wire format of a server; the value is the provider's name."""

    OLLAMA = "ollama"
    OPENAI = "openai"
    EMBEDDED = "embedded"
    """A file, run by a process of ours; its address is the path."""


@dataclass(frozen=True)
class ProbeTarget:
    """An address where a model server may be; `given` is one that the person named."""

    label: str
    kind: ServerKind
    port: int = 0
    given: ServerAddress | None = None

    @property
    def address(self) -> ServerAddress:
        """The address as the provider of this kind wants it."""
        path = "" if self.kind is ServerKind.OLLAMA else "/v1"
        return self.given or ServerAddress(f"http://127.0.0.1:{self.port}{path}", loopback=True)


@dataclass(frozen=True)
class FoundServer:
    """A server that answered, and the models it listed."""

    label: str
    kind: ServerKind
    base_url: str
    models: tuple[str, ...]


USUAL_TARGETS: tuple[ProbeTarget, ...] = (
    ProbeTarget("Ollama", ServerKind.OLLAMA, 11434),
    ProbeTarget("LM Studio", ServerKind.OPENAI, 1234),
    ProbeTarget("llama.cpp", ServerKind.OPENAI, 8080),
    ProbeTarget("vLLM", ServerKind.OPENAI, 8000),
)


async def choose_provider(
    settings: Settings, options: Options, usual: Sequence[ProbeTarget] = USUAL_TARGETS
) -> ChosenProvider:
    """Return the provider; raise ConfigurationError where what was asked for cannot be had."""
    key = await key_of(settings)
    try:
        match settings.provider:
            case "ollama":
                return ChosenProvider(_ollama(settings.base_url or ollama_host(), settings, key))
            case "openai":
                if settings.base_url is None:
                    raise ConfigurationError("Provider openai needs an address: give --base-url or set base_url.")
                return ChosenProvider(_openai(settings.base_url, settings, key))
            case "embedded":
                return ChosenProvider(embedded(Path(settings.model or "").expanduser(), settings))
            case "offline":
                return ChosenProvider(_offline())
            case "scripted":
                return ChosenProvider(_scripted(options))
            case None:
                return await _probed(settings, key, usual)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


async def key_of(settings: Settings) -> str | None:
    """Return the key for the server that the person named: as set, else as the system's keyring has it.

    The keyring is asked by a process of its own without a terminal, as some ask for a password there, and not in the
    workspace, whose files must not be taken for the package.
    """
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    if settings.base_url is None or importlib.util.find_spec("keyring") is None:
        return None
    command = (sys.executable, "-P", "-m", "keyring", "get", KEYRING_SERVICE, settings.base_url)
    child = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, cwd="/", start_new_session=True
    )
    try:
        async with asyncio.timeout(KEYRING_SECONDS):
            answer, _ = await child.communicate()
    except TimeoutError:
        log.warning("the keyring did not answer within %s s", KEYRING_SECONDS)
        return None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return answer.decode("utf-8", "replace").strip() or None if child.returncode == 0 else None


def ollama_host() -> str | None:
    """Return where OLLAMA_HOST says that Ollama is; None where it says nothing."""
    return os.environ.get("OLLAMA_HOST") or None


def probing_allowed() -> bool:
    """Return whether model servers may be probed; `OLLM_PROBE=0` says no."""
    return os.environ.get("OLLM_PROBE") != "0"


def probe_targets(host: str | None, usual: Sequence[ProbeTarget] = USUAL_TARGETS) -> tuple[ProbeTarget, ...]:
    """Return the usual targets, led by OLLAMA_HOST where it is set.

    Raises:
        ServerAddressError: It is set to something that is not an address.
    """
    if not host:
        return tuple(usual)
    own = ProbeTarget("Ollama", ServerKind.OLLAMA, given=ollama_address(host))
    return (own, *(target for target in usual if target.address.url != own.address.url))


async def probe_servers(
    timeout: float = 0.3, targets: Sequence[ProbeTarget] = USUAL_TARGETS
) -> tuple[FoundServer, ...]:
    """Return the servers that answer within `timeout` seconds, in the order of `targets`."""
    found = await asyncio.gather(*(_probe(target, timeout) for target in targets))
    return tuple(server for server in found if server is not None)


async def _probe(target: ProbeTarget, timeout: float) -> FoundServer | None:
    from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts

    address = target.address
    timeout = timeout if address.loopback else max(timeout, REMOTE_SECONDS)
    connection = HttpConnection(address, timeouts=Timeouts(connect=timeout, query=timeout))
    try:
        answer = await connection.query("api/tags" if target.kind is ServerKind.OLLAMA else "models")
    except ProviderError:
        # nothing there, or not a model server: both are the usual case
        return None
    finally:
        await connection.aclose()
    models = _listed_models(answer, target.kind)
    return None if models is None else FoundServer(target.label, target.kind, address.url, models)


def _listed_models(answer: JsonValue, kind: ServerKind) -> tuple[str, ...] | None:
    """Return the names in a list of models; None where the answer is something else."""
    rows, key = (member(answer, "models"), "name") if kind is ServerKind.OLLAMA else (member(answer, "data"), "id")
    if not isinstance(rows, list):
        return None
    names = [as_text(member(row, key)) for row in rows]
    if not names and kind is ServerKind.OPENAI and member(answer, "object") != "list":
        return None
    return None if None in names else tuple(name for name in names if name is not None)


async def _probed(settings: Settings, key: str | None, usual: Sequence[ProbeTarget]) -> ChosenProvider:
    if settings.base_url is not None:
        return ChosenProvider(_openai(settings.base_url, settings, key))
    if not probing_allowed():
        return ChosenProvider(_offline())
    targets = probe_targets(ollama_host(), usual)
    servers = await probe_servers(targets=targets)
    given = targets[0].given if targets else None
    absent = f"OLLAMA_HOST is {given}, where nothing answers." if given else None
    if not servers:
        return ChosenProvider(_offline(), absent)
    server = servers[0]
    notice = f"Found {server.label} at {server.base_url}."
    if given and server.base_url == given.url:
        return ChosenProvider(_ollama(ollama_host(), settings, key), notice)  # with the credentials in it
    made = _ollama if server.kind is ServerKind.OLLAMA else _openai
    return ChosenProvider(made(server.base_url, settings, key), f"{absent} {notice}" if absent else notice)


def _ollama(base_url: str | None, settings: Settings, key: str | None) -> Provider:
    from ollm_tui.agent.providers.ollama import OllamaProvider

    return OllamaProvider(base_url, settings.model, settings.num_ctx, api_key=key, options=settings.model_options)


def _openai(base_url: str, settings: Settings, key: str | None) -> Provider:
    from ollm_tui.agent.providers.openai import OpenAIProvider

    window, options = settings.num_ctx, settings.model_options
    return OpenAIProvider(base_url, settings.model, key, context_window=window, options=options)


def embedded(path: Path, settings: Settings) -> Provider:
    """Return the provider of a GGUF file; raise ConfigurationError where it cannot be run."""
    from ollm_tui.agent.providers.embedded import EmbeddedProvider, embedded_is_installed

    if not embedded_is_installed():
        raise ConfigurationError("Provider embedded needs xllamacpp: pip install 'ollm-tui[embedded]'.")
    if not path.is_file():
        raise ConfigurationError("Provider embedded needs a GGUF file: give its path with --model, or set model.")
    return EmbeddedProvider(path, settings.num_ctx, options=settings.model_options)


def _offline() -> Provider:
    from ollm_tui.agent.providers.offline import OfflineProvider

    return OfflineProvider()


def _scripted(options: Options) -> Provider:
    from ollm_tui.agent.providers.scripted import ScriptedProvider, tour_script

    if options.script is not None:
        return ScriptedProvider.from_file(options.script)
    return ScriptedProvider(tour_script(), model="tour")
