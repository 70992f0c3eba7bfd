"""Images of messages: what may be sent, and their bytes as they were when they were attached."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace

from ollm_tui.agent.providers.provider import Image, Message, UserMessage
from ollm_tui.agent.providers.provider_errors import shown
from ollm_tui.core.files.text_files import looks_like

MAX_IMAGE_BYTES = 5_000_000
MEDIA_TYPES = {
    "a PNG image": "image/png",
    "a JPEG image": "image/jpeg",
    "a GIF image": "image/gif",
    "a WebP image": "image/webp",
}
"""By what `read_file` says that a file looks like."""


class ImageRefusedError(Exception):
    """An image that cannot be sent; the message says why."""


def read_image(descriptor: int, path: str) -> tuple[Image, int]:
    """Return an image as it is now, with its size in bytes; closes its file. Blocks; raises ImageRefusedError."""
    content = _bytes_of(descriptor, path)
    media_type = MEDIA_TYPES.get(looks_like(content))
    if media_type is None:
        raise ImageRefusedError(f"{path} is no PNG, JPEG, GIF or WebP image")
    return Image(path, media_type, hashlib.sha256(content).hexdigest()), len(content)


def has_images(messages: Iterable[Message]) -> bool:
    """Return whether there is an image in the messages."""
    return any(isinstance(message, UserMessage) and message.images for message in messages)


def with_bytes(messages: Iterable[Message]) -> tuple[tuple[Message, ...], list[str]]:
    """Return the messages with the bytes of their images, and notices of those left out. Blocks."""
    left_out: list[str] = []
    read = tuple(_with_bytes(message, left_out) for message in messages)
    return read, [f"An image is left out: {shown(why)}." for why in left_out]


def without_images(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages without their images."""
    return tuple(replace(one, images=()) if isinstance(one, UserMessage) and one.images else one for one in messages)


def _with_bytes(message: Message, left_out: list[str]) -> Message:
    if not isinstance(message, UserMessage) or not message.images:
        return message
    found: list[Image] = []
    for image in message.images:
        try:
            # The name may be a link or a pipe by now: neither is followed or waited for.
            descriptor = os.open(image.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            content = _bytes_of(descriptor, image.path)
        except OSError as error:
            left_out.append(f"{image.path} cannot be read: {error.strerror}")
            continue
        except ImageRefusedError as error:
            left_out.append(str(error))
            continue
        if hashlib.sha256(content).hexdigest() == image.digest:
            found.append(replace(image, data=base64.b64encode(content).decode()))
        else:
            left_out.append(f"{image.path} is not what it was when it was attached: attach it again")
    return replace(message, images=tuple(found))


def _bytes_of(descriptor: int, path: str) -> bytes:
    try:
        with open(descriptor, "rb") as file:
            content = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise ImageRefusedError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_IMAGE_BYTES:
        raise ImageRefusedError(f"{path} is larger than {MAX_IMAGE_BYTES:,} bytes, the most for an image")
    return content
