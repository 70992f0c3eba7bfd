"""Response bodies: decompressed while they come, with a bound that holds for every step."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator

ACCEPT_ENCODING = "gzip, deflate, identity"
"""What we offer: the forms whose unpacking we can bound."""

_STEP = 256 * 1024
"""Bytes unpacked at once: a small piece of a bomb would otherwise become hundreds of megabytes."""


class ResponseBodyError(Exception):
    """A body that cannot be read; the text says why."""


class BodyTooLargeError(ResponseBodyError):
    """A body of more bytes than the limit."""


class BoundedBody:
    """Collects a body of at most `limit` bytes, counted after unpacking and before."""

    def __init__(self, limit: int, content_encoding: str, content_length: str | None) -> None:
        """Raise ResponseBodyError for an encoding we did not offer, or too long a declared length."""
        self._limit = limit
        self._packed_size = 0
        self._whole = bytearray()
        self._unpacker = _unpacker_for(content_encoding)
        if content_length is not None and content_length.isascii() and content_length.isdigit():
            declared = int(content_length[:20])
            if declared > limit:
                raise BodyTooLargeError(f"the body has {declared:,} bytes, more than the limit of {limit:,}")

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises ResponseBodyError."""
        self._packed_size += len(data)
        self._check(self._packed_size)  # nothing can be packed without end, too
        for piece in self._unpacker.feed(data) if self._unpacker else (data,):
            self._whole += piece
            self._check(len(self._whole))

    def finish(self) -> bytes:
        """Return the whole body. Raises ResponseBodyError."""
        if self._unpacker:
            self._unpacker.finish()
        return bytes(self._whole)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLargeError(f"the body has more than the limit of {self._limit:,} bytes")


def _unpacker_for(content_encoding: str) -> _Inflater | None:
    """Return what undoes a Content-Encoding. Raises ResponseBodyError for two layers, or one we did not offer."""
    layers = [layer for part in content_encoding.lower().split(",") if (layer := part.strip()) not in ("", "identity")]
    match layers:
        case []:
            return None
        case ["gzip" | "x-gzip" | "deflate" as layer]:
            return _Inflater(gzip=layer != "deflate")
        case [one]:
            raise ResponseBodyError(f"the body is packed as {one[:40]!r}, which was not asked for")
        case _:
            raise ResponseBodyError("the body is packed more than once")


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


_SNIFFED = 4_096
"""Bytes at the start in which a page may name its encoding."""

_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta\s[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

# What pages mean by these labels, as browsers read them.
_MEANT = {
    label: codec
    for codec, labels in {
        "cp1252": "ascii us-ascii iso-8859-1 iso8859-1 iso_8859-1 latin1 latin-1 l1",
        "gb18030": "gb2312 gbk",
        "cp932": "shift_jis shift-jis sjis",
        "cp949": "euc-kr ks_c_5601-1987",
        "cp874": "tis-620 windows-874",
        "cp1254": "iso-8859-9",
        "big5hkscs": "big5",
    }.items()
    for label in labels.split()
}
_TEXT_CODECS = frozenset({"utf-8", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "cp932", "cp949", "big5hkscs"})
_SINGLE_BYTE = re.compile(r"(?:cp(?:125[0-8]|866|874|1006|1140|437|850|852|855)|iso8859-\d{1,2}|koi8-[rut]|mac-\w+)")
_OTHERS = frozenset({"euc_jp", "iso2022_jp", "hz"})


def declared_charset(content_type: str) -> str | None:
    """Return the charset parameter of a Content-Type header."""
    found = _CHARSET.search(content_type)
    return found[1].lower() if found else None


def media_type(content_type: str) -> str:
    """`text/html` of `Text/HTML; charset=...`."""
    return content_type.split(";", 1)[0].strip().lower()


def decode_text(data: bytes, content_type: str) -> str:
    """Return the text of a body; bytes that its encoding cannot hold become U+FFFD. Never fails."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return data.decode(name, "replace").removeprefix("\ufeff")
    kind = media_type(content_type)
    labels = [declared_charset(content_type)]
    if "html" in kind or "xml" in kind or not kind:
        head = data[:_SNIFFED]
        named = _XML.match(head.lstrip()) or _META.search(head)
        # A page that was read as ASCII so far cannot be in UTF-16, whatever it says.
        labels.append(named[1].decode("ascii").lower().replace("utf-16", "utf-8") if named else None)
    for label in labels:
        name = _usable(label)
        if name is not None:
            return _decoded(data, name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # Mostly valid UTF-8 with some damage, or cut: still UTF-8. Else what the old web was written in.
        broken = data.decode("utf-8", "replace")
        return broken if error.start > len(data) - 4 or _mostly_utf8(broken) else _decoded(data, "cp1252")


def _usable(label: str | None) -> str | None:
    """Return a codec for text by its label; none of those that Python has for other things (rot13, zlib, utf-7)."""
    if label is None:
        return None
    label = label.strip().lower()
    try:
        name = codecs.lookup(_MEANT.get(label, label)).name
    except (LookupError, ValueError):
        return None
    return name if name in _TEXT_CODECS or name in _OTHERS or _SINGLE_BYTE.fullmatch(name) else None


def _decoded(data: bytes, name: str) -> str:
    if name == "cp1252":
        # Five bytes stand for nothing in Python's table; browsers take them as the controls of that number.
        return data.decode("cp1252", "replace") if b"\x81" not in data else data.decode("latin-1")
    return data.decode(name, "replace")


def _mostly_utf8(text: str) -> bool:
    broken = text.count("\ufffd")
    whole = sum(1 for character in text[:100_000] if character > "\x7f") - broken
    return whole > 4 * broken
