"""The models of all servers that can be reached, and in files: listing them, and taking one for the session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.agent.events import NoticeEvent
from ollm_tui.agent.providers.http_connection import HttpConnection
from ollm_tui.agent.providers.json_values import as_list, as_text, member, parse_json
from ollm_tui.agent.providers.ollama import ModelDetails, OllamaProvider
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.provider import ModelInfo, Provider, ProviderError, ServerProvider
from ollm_tui.agent.providers.server_address import ServerAddress, ollama_address, openai_address
from ollm_tui.config import Settings
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject
from ollm_tui.runtime.model_provider import (
    USUAL_TARGETS,
    FoundServer,
    ProbeTarget,
    ServerKind,
    embedded,
    key_of,
    ollama_host,
    probe_servers,
    probe_targets,
    probing_allowed,
)
from ollm_tui.runtime.runtime import Runtime

ASKED_SECONDS = 3.0
"""How long a server may take to answer a person who asks for its models: one that writes an answer is slow."""

LOOKED_AT = 40
"""Models of a server whose window and abilities are asked for one by one."""


class ModelNotFoundError(Exception):
    """No model, or more than one, has the name; the message says which there are."""


@dataclass(frozen=True)
class OfferedModel:
    """A model of a server; None is what the server did not tell."""

    server: FoundServer
    info: ModelInfo
    details: ModelDetails | None = None
    loaded: bool = False
    """Whether it is in memory now."""

    @property
    def calls_tools(self) -> bool | None:
        """Whether it takes tools of its own."""
        known = self.details is not None and self.details.capabilities is not None
        return not self.details.lacks("tools") if known and self.details else None

    def facts(self) -> JsonObject:
        """Return what is known of it as JSON, for programs."""
        details = self.details or ModelDetails()
        able: list[JsonValue] | None = None if details.capabilities is None else [*sorted(details.capabilities)]
        return {
            "name": self.info.name,
            "server": self.server.base_url,
            "kind": self.server.kind.value,
            "size": self.info.size,
            "parameterSize": self.info.parameter_size,
            "quantization": self.info.quantization,
            "family": self.info.family,
            "contextWindow": self.info.context_window,
            "longestWindow": details.longest_window,
            "capabilities": able,
            "callsTools": self.calls_tools,
            "loaded": self.loaded,
        }

    @property
    def short(self) -> str:
        """Size, window, what it cannot do, and whether it is loaded, in a few words."""
        facts = [self.info.parameter_size or "", _gigabytes(self.info.size), _window(self.info.context_window)]
        facts += ["no tools" if self.calls_tools is False else "", "loaded" if self.loaded else ""]
        return "  ".join(filter(None, facts))

    def __str__(self) -> str:
        """Return it on one line: name, size, window, what it cannot do, where it is."""
        words = (self.info.name, self.short, f"({self.server.label} at {self.server.base_url})")
        return visible("  ".join(filter(None, words)))


async def offered_models(settings: Settings, usual: Sequence[ProbeTarget] = USUAL_TARGETS) -> tuple[OfferedModel, ...]:
    """Return the models of the servers that answer: the one that is set, OLLAMA_HOST and the usual ports."""
    targets = probe_targets(ollama_host(), usual if probing_allowed() else ())
    if settings.base_url is not None:
        kind = ServerKind.OLLAMA if settings.provider == "ollama" else ServerKind.OPENAI
        own = ProbeTarget("your server", kind, given=_address(kind, settings.base_url))
        targets = (own, *(target for target in targets if target.address.url != own.address.url))
    servers = await probe_servers(ASKED_SECONDS, targets)
    key = await key_of(settings)
    found = await asyncio.gather(*(_models_of(server, settings, key) for server in servers))
    return (*(model for models in found for model in models), *await asyncio.to_thread(_in_files))


async def find_model(provider: Provider) -> list[str]:
    """Learn the model in use and its window before anything is asked; return what the person is to know of it.

    Raises:
        ProviderError: The server is not there, or has no model.
    """
    if not isinstance(provider, ServerProvider):
        return []
    described = provider.describe()
    known = described.model is not None and described.context_window is not None
    return [] if known else await provider.find_window()


def choose(models: Sequence[OfferedModel], name: str) -> OfferedModel:
    """Return the one model of that name, or whose name begins so. Raises ModelNotFoundError."""
    found = [model for model in models if model.info.name == name]
    found = found or [model for model in models if model.info.name.startswith(name)]
    if not found:
        there = ", ".join(visible(model.info.name) for model in models[:8]) or "no server answers"
        raise ModelNotFoundError(f"There is no model {visible(name)}: {there}.")
    if len({model.info.name for model in found}) > 1:
        names = ", ".join(visible(model.info.name) for model in found)
        raise ModelNotFoundError(f"Several models begin with {visible(name)}: {names}. Write more of the name.")
    return found[0]


async def switch_model(runtime: Runtime, model: OfferedModel) -> None:
    """Take another model for the session, between two turns. Raises RuntimeError while one runs."""
    settings = runtime.core.configuration.settings
    key = await key_of(settings)
    if runtime.agent.busy:
        raise RuntimeError("A turn is running. Stop it first (Esc twice), then choose the model.")
    before = runtime.agent.provider
    runtime.agent.use(_provider(model.server, settings, model.info.name, key))
    await before.aclose()
    words = f"The model is now {visible(model.info.name)} ({model.server.label} at {model.server.base_url})."
    if model.calls_tools is False:
        words += " It cannot call tools: it can talk, but do nothing."
    runtime.stream.publish(NoticeEvent(text=words))


def _in_files() -> list[OfferedModel]:
    """Return the models in files, where they can be run. Blocks."""
    from ollm_tui.agent.providers.embedded import embedded_is_installed

    files = gguf_files() if embedded_is_installed() else ()
    servers = ((FoundServer("file", ServerKind.EMBEDDED, str(file.path), (file.name,)), file) for file in files)
    return [OfferedModel(server, ModelInfo(file.name, size=file.size)) for server, file in servers]


async def _models_of(server: FoundServer, settings: Settings, key: str | None) -> list[OfferedModel]:
    provider = _provider(server, settings, None, key)
    try:
        infos = await provider.list_models()
        if not isinstance(provider, OllamaProvider):
            return [OfferedModel(server, info) for info in infos]
        facts = await asyncio.gather(*(_with_facts(provider, server, info) for info in infos[:LOOKED_AT]))
        loaded = await _loaded(server)
        rest = [OfferedModel(server, info) for info in infos[LOOKED_AT:]]
        return [replace(model, loaded=model.info.name in loaded) for model in (*facts, *rest)]
    except ProviderError:
        return []  # it answered a moment ago
    finally:
        await provider.aclose()


async def _with_facts(provider: OllamaProvider, server: FoundServer, info: ModelInfo) -> OfferedModel:
    try:
        facts = await provider.model_facts(info.name)
    except ProviderError:
        return OfferedModel(server, info)
    window = facts.own_window or facts.longest_window
    return OfferedModel(server, replace(info, context_window=window), facts)


async def _loaded(server: FoundServer) -> frozenset[str]:
    connection = HttpConnection(_address(server.kind, server.base_url))
    try:
        rows = member(await connection.query("api/ps"), "models")
    except ProviderError:
        return frozenset()
    finally:
        await connection.aclose()
    if not isinstance(rows, list):
        return frozenset()
    return frozenset(name for row in rows if (name := as_text(member(row, "name"))))


def _address(kind: ServerKind, url: str) -> ServerAddress:
    return ollama_address(url) if kind is ServerKind.OLLAMA else openai_address(url)


def _provider(server: FoundServer, settings: Settings, model: str | None, key: str | None) -> Provider:
    """Return the provider of a server; the person's key goes to the server they named alone."""
    if server.kind is ServerKind.EMBEDDED:
        return embedded(Path(server.base_url), settings)
    given = None if settings.base_url is None else _address(server.kind, settings.base_url).url
    own_key, options = key if given == server.base_url else None, settings.model_options
    if server.kind is ServerKind.OLLAMA:
        host = ollama_host()
        address = host if host and ollama_address(host).url == server.base_url else server.base_url
        return OllamaProvider(address, model, settings.num_ctx, api_key=own_key, options=options)
    return OpenAIProvider(server.base_url, model, own_key, context_window=settings.num_ctx, options=options)


def _gigabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e9:.1f} GB"


def _window(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens // 1024}k window" if tokens >= 1024 else f"{tokens} tokens window"


FOLDERS = (".lmstudio/models", ".cache/lm-studio/models", "models")
OLLAMA_FOLDERS = (".ollama/models", "/usr/share/ollama/.ollama/models")
MOST_FILES, MOST_LOOKED_AT, MOST_DEPTH = 200, 20_000, 4
MANIFEST_BYTES = 100_000
_MODEL_LAYER = "application/vnd.ollama.image.model"


@dataclass(frozen=True)
class GgufFile:
    """A model in a file."""

    name: str
    path: Path
    size: int


def gguf_files(home: Path | None = None) -> tuple[GgufFile, ...]:
    """Return the models found, each file once. Blocks."""
    home = home or Path.home()
    given = os.environ.get("OLLAMA_MODELS")
    ollama = [Path(given)] if given else [home / folder for folder in OLLAMA_FOLDERS]
    found: dict[Path, GgufFile] = {}
    paths = (path for folder in FOLDERS for path in _below(home / folder) if path.suffix.lower() == ".gguf")
    named = ((path.stem, path) for path in paths if "mmproj" not in path.name and "-of-" not in path.stem)
    for name, path in (*islice(named, MOST_FILES), *(one for folder in ollama for one in _of_ollama(folder))):
        if (size := _size_of(path)) and path.resolve() not in found:
            found[path.resolve()] = GgufFile(name, path, size)
    return tuple(found.values())


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, links to folders left out, a bounded number."""
    looked = 0
    for top, folders, files in os.walk(folder):
        if len(Path(top).relative_to(folder).parts) >= MOST_DEPTH:
            folders.clear()
        for name in sorted(files):
            looked += 1
            if looked > MOST_LOOKED_AT:
                return
            yield Path(top) / name


def _of_ollama(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of the models that Ollama has, by their manifests."""
    manifests = folder / "manifests"
    for path in islice(_below(manifests), MOST_FILES):
        _, *owner, model, tag = ("", *path.relative_to(manifests).parts)[-4:]
        try:
            with path.open("rb") as file:
                layers = as_list(member(parse_json(file.read(MANIFEST_BYTES)), "layers"))
        except (OSError, ValueError):
            continue
        for layer in layers:
            digest = as_text(member(layer, "digest")) or ""
            if member(layer, "mediaType") == _MODEL_LAYER and digest.replace(":", "").isalnum():
                name = f"{model}:{tag}" if owner in ([], ["library"]) else f"{'/'.join(owner)}/{model}:{tag}"
                yield name, folder / "blobs" / digest.replace(":", "-")


def _size_of(path: Path) -> int:
    """Return the size of a GGUF file; 0 for anything else."""
    try:
        if not path.is_file():
            return 0
        with path.open("rb") as file:
            return path.stat().st_size if file.read(4) == b"GGUF" else 0
    except OSError:
        return 0
