"""Bytes of a page to text: BOM, header, the page's own word, then a guess (HTML's order of trust)."""

from __future__ import annotations

import codecs
import re

_SNIFFED = 4_096
"""Bytes at the start in which a page may name its encoding."""

_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta\s[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

# What pages mean by these labels, as browsers read them.
_MEANT = {
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "iso_8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "l1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "tis-620": "cp874",
    "windows-874": "cp874",
    "iso-8859-9": "cp1254",
    "big5": "big5hkscs",
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
