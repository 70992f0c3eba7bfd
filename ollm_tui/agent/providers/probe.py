"""Probe the usual ports and OLLAMA_HOST for model servers, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts
from ollm_tui.agent.providers.json_values import as_text, member
from ollm_tui.agent.providers.provider import ProviderError
from ollm_tui.agent.providers.server_address import ServerAddress, ollama_address


class ServerKind(StrEnum):
    """The wire format of a server; the value is the provider's name."""

    OLLAMA = "ollama"
    OPENAI = "openai"


@dataclass(frozen=True)
class ProbeTarget:
    """An address where a model server may be; `given` is one that the person named."""

    label: str
    kind: ServerKind
    port: int = 0
    host: str = "127.0.0.1"
    given: ServerAddress | None = None

    @property
    def address(self) -> ServerAddress:
        """The address as the provider of this kind wants it."""
        path = "" if self.kind is ServerKind.OLLAMA else "/v1"
        return self.given or ServerAddress(f"http://{self.host}:{self.port}{path}", loopback=True)


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


REMOTE_SECONDS = 1.0
"""How long an address beyond this machine is waited for, at least."""


def probe_targets(ollama_host: str | None) -> tuple[ProbeTarget, ...]:
    """Return the usual targets, led by OLLAMA_HOST where it is set.

    Raises:
        ServerAddressError: It is set to something that is not an address.
    """
    if not ollama_host:
        return USUAL_TARGETS
    own = ProbeTarget("Ollama", ServerKind.OLLAMA, given=ollama_address(ollama_host))
    return (own, *(target for target in USUAL_TARGETS if target.address.url != own.address.url))


async def probe_servers(timeout: float = 0.3, targets: Sequence[ProbeTarget] | None = None) -> tuple[FoundServer, ...]:
    """Return the servers that answer within `timeout` seconds, in the order of `targets`."""
    found = await asyncio.gather(
        *(_probe(target, timeout) for target in (USUAL_TARGETS if targets is None else targets))
    )
    return tuple(server for server in found if server is not None)


async def _probe(target: ProbeTarget, timeout: float) -> FoundServer | None:
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
