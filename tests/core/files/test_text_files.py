"""Encodings and line ends: recognised, named, and written back without changing a byte."""

from __future__ import annotations

import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.errors import BinaryFile, EncodingFailure
from ollm_tui.core.files.text_files import (
    UTF_8,
    Encoding,
    Newline,
    NotTextError,
    decode,
    looks_like,
    newline_style,
    recognise,
)
from tests.core.tools.file_calls import texts

RUSSIAN = "Привет, как дела? Это простой текст на русском языке, и он не очень длинный."
SIMPLIFIED = "这是一个简单的中文文本，我们在这里测试编码。"
TRADITIONAL = "這是一個簡單的中文文本，我們在這裡測試編碼。"
JAPANESE = "これは日本語のテキストです。漢字も含まれています。"
KOREAN = "안녕하세요 이것은 한국어 텍스트입니다"
WESTERN = "Grüße aus Köln, naïve café, “smart” quotes – dash"


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes_that_count_as_text_come_back_unchanged(raw: bytes) -> None:
    try:
        decoded = decode(raw, "f", "")
    except BinaryFile:
        return
    assert decoded.encoding.encode(decoded.text, "f") == raw


@settings(max_examples=100)
@given(texts)
def test_any_text_in_utf_8_is_text_and_is_utf_8(text: str) -> None:
    decoded = decode(text.encode(), "f", "")
    assert decoded.text == text
    assert decoded.encoding == UTF_8
    assert decoded.bom == text.startswith("\ufeff")


@settings(max_examples=100)
@given(texts, st.sampled_from(["utf-16", "utf-32"]))
def test_wide_encodings_are_known_by_their_mark(text: str, codec: str) -> None:
    raw = text.encode(codec)
    decoded = decode(raw, "f", "")
    assert decoded.text == text
    assert decoded.bom
    assert decoded.encoding.codec.startswith(codec)
    assert decoded.encoding.encode(text.removeprefix("\ufeff"), "f") == text.removeprefix("\ufeff").encode(codec)


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (SIMPLIFIED, "gb18030"),
        (TRADITIONAL, "big5"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (KOREAN, "cp949"),
        (WESTERN, "cp1252"),
        ("hello\nworld\n", "utf-16-le"),
        ("hello\nworld\n", "utf-16-be"),
    ],
)
def test_old_encodings_are_recognised_and_named(text: str, codec: str) -> None:
    raw = text.encode(codec)
    decoded = decode(raw, "f", "")
    assert (decoded.encoding.codec, decoded.text) == (codec, text)
    assert decoded.encoding.encode(decoded.text, "f") == raw


def test_bytes_that_no_table_knows_are_latin_1_rather_than_lost() -> None:
    raw = b"caf\xe9 \x81 \x8d"
    decoded = decode(raw, "f", "")
    assert decoded.encoding.codec == "iso-8859-1"
    assert decoded.encoding.encode(decoded.text, "f") == raw


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
        (b"PK\x03\x04\x14\0\0\0", "a ZIP archive (or an office document, a JAR, a wheel)"),
        (b"\x7fELF\x02\x01\x01\0", "an ELF program or library"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a WebP image"),
        (b"a\0b", "binary data"),
    ],
)
def test_binary_data_is_refused_and_named_by_its_bytes(raw: bytes, name: str) -> None:
    with pytest.raises(BinaryFile) as failure:
        decode(raw, "pic.txt", "Send encoding=base64.")
    assert name in failure.value.message
    assert "encoding=base64" in failure.value.message
    assert looks_like(raw) == name


def test_random_and_compressed_bytes_are_no_text() -> None:
    for raw in (os.urandom(4000).replace(b"\0", b"\1"), zlib.compress(os.urandom(500)).replace(b"\0", b"\1")):
        with pytest.raises(NotTextError):
            recognise(raw)


def test_text_that_merely_begins_like_a_binary_format_is_text() -> None:
    for text in ("BM is short", "GIF89a explained", "%PDF- is how PDFs start", "PK\x03\x04", "MZ"):
        assert decode(text.encode(), "f", "").text == text


@settings(max_examples=100)
@given(texts, st.integers(0, 300))
def test_a_beginning_that_ends_within_a_character_is_still_utf_8(text: str, cut: int) -> None:
    assert recognise(text.encode()[:cut], complete=False).codec == "utf-8"


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("", Newline.NONE),
        ("a", Newline.NONE),
        ("a\n", Newline.LF),
        ("a\r\nb\r\n", Newline.CRLF),
        ("a\rb", Newline.CR),
        ("a\nb\r\n", Newline.MIXED),
        ("a\n\rb", Newline.MIXED),
        ("a\u2028b\x0bc", Newline.NONE),
    ],
)
def test_line_ends_are_told_apart(text: str, style: Newline) -> None:
    assert newline_style(text) is style


def test_a_character_the_encoding_lacks_is_named() -> None:
    with pytest.raises(EncodingFailure, match=r"U\+20AC.*iso-8859-1"):
        Encoding("iso-8859-1").encode("5 €", "price.txt")
