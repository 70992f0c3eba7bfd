"""GGUF files of LM Studio, Ollama and `~/models`, found without a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ollm_tui.agent.providers.json_values import as_list, as_text, member, parse_json

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
