"""Looks for model servers on this machine, all well-known ports at once, and believes only what answers like one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts
from ollm_tui.agent.providers.json_values import as_text, member
from ollm_tui.agent.providers.provider import ProviderError
from ollm_tui.agent.providers.server_address import ServerAddress


class ServerKind(StrEnum):
    """Which of the two wire formats a server speaks; the value is the name of the provider."""

    OLLAMA = "ollama"
    OPENAI = "openai"


@dataclass(frozen=True)
class ProbeTarget:
    """A place where a model server is usually found."""

    label: str
    kind: ServerKind
    port: int
    host: str = "127.0.0.1"

    @property
    def base_url(self) -> str:
        """The address as the provider of this kind wants it."""
        return f"http://{self.host}:{self.port}" + ("" if self.kind is ServerKind.OLLAMA else "/v1")


@dataclass(frozen=True)
class FoundServer:
    """A server that answered, and the models it listed."""

    label: str
    kind: ServerKind
    base_url: str
    models: tuple[str, ...]


USUAL_PLACES: tuple[ProbeTarget, ...] = (
    ProbeTarget("Ollama", ServerKind.OLLAMA, 11434),
    ProbeTarget("LM Studio", ServerKind.OPENAI, 1234),
    ProbeTarget("llama.cpp", ServerKind.OPENAI, 8080),
    ProbeTarget("vLLM", ServerKind.OPENAI, 8000),
)


async def probe_servers(timeout: float = 0.3, targets: Sequence[ProbeTarget] = USUAL_PLACES) -> tuple[FoundServer, ...]:
    """The servers that answer within `timeout` seconds, in the order of `targets`; the others are no error."""
    found = await asyncio.gather(*(_probe(target, timeout) for target in targets))
    return tuple(server for server in found if server is not None)


async def _probe(target: ProbeTarget, timeout: float) -> FoundServer | None:
    connection = HttpConnection(
        ServerAddress(target.base_url, loopback=True), timeouts=Timeouts(connect=timeout, query=timeout)
    )
    try:
        answer = await connection.query("api/tags" if target.kind is ServerKind.OLLAMA else "models")
    except ProviderError:
        # nobody there, or somebody who is no model server: both are the usual case
        return None
    finally:
        await connection.aclose()
    models = _listed_models(answer, target.kind)
    return None if models is None else FoundServer(target.label, target.kind, target.base_url, models)


def _listed_models(answer: JsonValue, kind: ServerKind) -> tuple[str, ...] | None:
    """The names in a list of models, None where the answer is something else."""
    rows, key = (member(answer, "models"), "name") if kind is ServerKind.OLLAMA else (member(answer, "data"), "id")
    if not isinstance(rows, list):
        return None
    names = [as_text(member(row, key)) for row in rows]
    if not names and kind is ServerKind.OPENAI and member(answer, "object") != "list":
        return None
    return None if None in names else tuple(name for name in names if name is not None)
