"""Pictures that tools of MCP servers return: kept as files, the first one shown where it is small."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ollm_tui.agent.providers.images import MEDIA_TYPES
from ollm_tui.core.base.errors import FileWriteFailed, from_os_error
from ollm_tui.core.base.results import Artifact, ToolData, ToolResult
from ollm_tui.core.files.atomic import replace_file
from ollm_tui.core.files.text_files import looks_like
from ollm_tui.mcp_host.frames import Picture

SHOWN_DATA = 300_000
"""Characters of the largest picture that the conversation keeps to show, in base64."""


class PictureData(ToolData):
    """What a program gets of them."""

    picture: str | None = None
    """The first one, as PNG in base64, where it is small."""


def with_pictures(result: ToolResult, pictures: Iterable[Picture], folder: Path) -> ToolResult:
    """Return the result with its pictures kept as files in the folder. Blocking. Raises FileWriteFailed."""
    notes: list[str] = []
    artifacts: list[Artifact] = []
    shown: str | None = None
    for picture in pictures:
        try:
            content = base64.b64decode(picture.data, validate=True)
        except binascii.Error:
            notes.append("a picture is left out: it is not base64")
            continue
        kind = MEDIA_TYPES.get(looks_like(content))
        if kind is None:
            notes.append("a picture is left out: it is no PNG, JPEG, GIF or WebP image")
            continue
        path = _kept(content, kind.rpartition("/")[2], folder)
        artifacts.append(Artifact(kind="picture", path=path))
        notes.append(f"picture, {len(content):,} bytes: {path}")
        if shown is None and kind == "image/png" and len(picture.data) <= SHOWN_DATA:
            shown = picture.data
    data = PictureData(picture=shown) if shown else None
    return result.model_copy(update={"data": data, "artifacts": tuple(artifacts), "notes": (*result.notes, *notes)})


def _kept(content: bytes, ending: str, folder: Path) -> str:
    """Write to a name that goes by the content, so that the same picture is kept once."""
    path = folder / f"picture-{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            replace_file(inside, path.name, [content], mode=0o600, sync=False)
        finally:
            os.close(inside)
    except FileExistsError:
        pass  # the same picture came before
    except OSError as error:
        raise from_os_error(error, str(path), FileWriteFailed) from None
    return str(path)
