"""Response bodies: decompressed while they come, with a bound that holds for every step."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

ACCEPT_ENCODING = "gzip, deflate, identity"
"""What we offer: the forms whose unpacking we can bound."""

_STEP = 256 * 1024
"""Bytes unpacked at once: a small piece of a bomb would otherwise become hundreds of megabytes."""


class ResponseBodyError(Exception):
    """A body that cannot be read; the text says why."""


class BodyTooLargeError(ResponseBodyError):
    """A body of more bytes than the limit."""


class Unpacker(Protocol):
    """Undoes one layer of content encoding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Return the unpacked form of the next bytes, in bounded pieces. Raises ResponseBodyError."""
        ...

    def finish(self) -> None:
        """Raise ResponseBodyError where the data ended too early."""
        ...


class BoundedBody:
    """Collects a body of at most `limit` bytes, counted after unpacking and before."""

    def __init__(self, limit: int, content_encoding: str, content_length: str | None) -> None:
        """Raise ResponseBodyError for an encoding we did not offer, or too long a declared length."""
        self._limit = limit
        self._packed_size = 0
        self._whole = bytearray()
        self._unpacker = unpacker_for(content_encoding)
        if content_length is not None and content_length.isascii() and content_length.isdigit():
            declared = int(content_length[:20])
            if declared > limit:
                raise BodyTooLargeError(f"the body has {declared:,} bytes, more than the limit of {limit:,}")

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises ResponseBodyError."""
        self._packed_size += len(data)
        self._check(self._packed_size)  # nothing can be packed without end, too
        for piece in self._unpacker.feed(data):
            self._whole += piece
            self._check(len(self._whole))

    def finish(self) -> bytes:
        """Return the whole body. Raises ResponseBodyError."""
        self._unpacker.finish()
        return bytes(self._whole)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLargeError(f"the body has more than the limit of {self._limit:,} bytes")


def unpacker_for(content_encoding: str) -> Unpacker:
    """Return the unpacker for a Content-Encoding. Raises ResponseBodyError for two layers, or one we did not offer."""
    layers = [layer for part in content_encoding.lower().split(",") if (layer := part.strip()) not in ("", "identity")]
    match layers:
        case []:
            return _Identity()
        case ["gzip" | "x-gzip"]:
            return _Inflater(gzip=True)
        case ["deflate"]:
            return _Inflater(gzip=False)
        case [one]:
            raise ResponseBodyError(f"the body is packed as {one[:40]!r}, which was not asked for")
        case _:
            raise ResponseBodyError("the body is packed more than once")


class _Identity:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        pass


class _Inflater:
    """gzip (several members too), and deflate in both of its readings: with and without zlib's frame."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._engine = zlib.decompressobj(31 if gzip else 15)
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._engine.eof:
                if not self._gzip or not data.startswith(b"\x1f"):
                    return  # padding behind the end, as some servers send
                self._engine = zlib.decompressobj(31)
            piece = self._inflated(data)
            yield piece
            data = self._engine.unconsumed_tail or self._engine.unused_data
            while not data and len(piece) == _STEP and not self._engine.eof:
                piece = self._inflated(b"")  # all input is taken, but not all of its output was
                yield piece

    def finish(self) -> None:
        if self._started and not self._engine.eof:
            raise ResponseBodyError("the packed body ended too early")

    def _inflated(self, data: bytes) -> bytes:
        first, self._started = not self._started, True
        try:
            return self._engine.decompress(data, _STEP)
        except zlib.error as error:
            if first and not self._gzip:
                self._engine = zlib.decompressobj(-15)
                return self._inflated(data)
            raise ResponseBodyError(f"the packed body is damaged: {error}") from None
