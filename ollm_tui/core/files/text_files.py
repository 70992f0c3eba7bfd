"""Text in files: which encoding and line ends bytes have, and writing them back without changing any other byte."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from ollm_tui.core.base.errors import BinaryFile, EncodingFailure
from ollm_tui.core.base.escape import visible

_SAMPLE = 64 * 1024
_CONVINCING = 0.25
"""Share of the text beyond ASCII that has to be what the language uses most."""

# The most frequent characters of running text, as far as they tell the languages and encodings apart.
_SIMPLIFIED = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
)
_TRADITIONAL = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡"
)
_RUSSIAN = frozenset("оеаинтсрвлкмдпу")


def guess_legacy(raw: bytes) -> Iterator[str]:
    """Codec names, the likeliest first; each is to be tried on the whole data."""
    sample = raw[:_SAMPLE]
    if not _mostly_alone(sample):
        scores = {codec: _score(sample, codec, rate) for codec, rate in _CANDIDATES.items()}
        yield from sorted((codec for codec in scores if scores[codec] >= _CONVINCING), key=lambda c: -scores[c])
    yield "cp1252"


def _mostly_alone(sample: bytes) -> bool:
    """Return whether bytes beyond ASCII stand between ASCII ones, as accented letters in western words do."""
    high = [index for index, byte in enumerate(sample) if byte >= 0x80]
    beside = sum(1 for one, other in pairwise(high) if other == one + 1)
    return beside * 2 < len(high)


def _score(sample: bytes, codec: str, rate: Callable[[str], float]) -> float:
    text = ""
    for cut in range(4):  # the sample may end within a character
        try:
            text = sample[: len(sample) - cut].decode(codec)
            break
        except UnicodeDecodeError:
            continue
    foreign = [character for character in text if character > "\x7f"]
    return sum(map(rate, foreign)) / len(foreign) if foreign else 0.0


def _is_kana(character: str) -> float:
    return "\u3041" <= character <= "\u30fe"


def _is_hangul(character: str) -> float:
    return "\uac00" <= character <= "\ud7a3"


_CANDIDATES: dict[str, Callable[[str], float]] = {
    "cp932": _is_kana,
    "euc_jp": _is_kana,
    "cp949": lambda character: _is_hangul(character) * 0.9,
    "gb18030": lambda character: character in _SIMPLIFIED,
    "big5": lambda character: character in _TRADITIONAL,
    "cp1251": lambda character: character in _RUSSIAN,
    "koi8_r": lambda character: character in _RUSSIAN,
    "cp866": lambda character: character in _RUSSIAN,
}


SAMPLE_BYTES = 8192
"""How far into a file a NUL byte makes it binary, about as far as git looks."""

_BOMS = (  # the longer first: the mark of UTF-32-LE starts with that of UTF-16-LE
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"BM", "a BMP image"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document, a JAR, a wheel)"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xca\xfe\xba\xbe", "a Java class or a macOS program"),
    (b"\xcf\xfa\xed\xfe", "a macOS program or library"),
    (b"\x00asm", "a WebAssembly module"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "an MP3 audio file"),
    (b"fLaC", "a FLAC audio file"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM video"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office document"),
    (b"wOFF", "a web font"),
    (b"wOF2", "a web font"),
    (b"\x00\x01\x00\x00\x00", "a TrueType font"),
    (b"OTTO", "an OpenType font"),
    (b"!<arch>\n", "a static library or Debian package"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"GGUF", "a GGUF model"),
    (b"DIRC", "a git index"),
    (b"\x80\x04\x95", "a Python pickle"),
)
# Bytes that text in 8-bit encodings does not use: controls other than line ends, tabs, form feeds, escapes, backspaces.
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\v\f\r\x1b\b") + b"\x7f"


class Newline(StrEnum):
    """How the lines of a text end."""

    LF = "lf"
    CRLF = "crlf"
    CR = "cr"
    MIXED = "mixed"
    NONE = "none"
    """There is no line end in it."""


@dataclass(frozen=True)
class Encoding:
    """An encoding with the byte-order mark that is not part of the text.

    The mark of UTF-8 is part of it (U+FEFF): it is written only where a content has it. That of UTF-16
    and UTF-32 belongs to the encoding and is written by `encode`.
    """

    codec: str
    """Python's name: `utf-8`, `utf-16-le`, `cp1252`, ..."""
    mark: bytes = b""

    @property
    def unit(self) -> int:
        """Bytes that a character takes at least, and by which all of them are aligned."""
        return 4 if self.codec.startswith("utf-32") else 2 if self.codec.startswith("utf-16") else 1

    def decode(self, raw: bytes) -> str:
        """Return the text. Raises UnicodeDecodeError."""
        return raw[len(self.mark) :].decode(self.codec)

    def encode(self, text: str, shown: str) -> bytes:
        """Return the bytes of a whole file. Raises EncodingFailure naming the first character that does not fit."""
        return self.mark + self.encode_part(text.removeprefix("\ufeff") if self.mark else text, shown)

    def encode_part(self, text: str, shown: str) -> bytes:
        """Return the bytes of a piece of the text, without the mark. Raises EncodingFailure."""
        try:
            return text.encode(self.codec)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise EncodingFailure(
                f"{shown}: the character {visible(character)} (U+{ord(character):04X}) does not exist in the file's "
                f"encoding {self.codec}. Leave it out, or write the whole file with write_file to change its encoding.",
                {"path": shown, "encoding": self.codec, "character": f"U+{ord(character):04X}"},
            ) from None


UTF_8 = Encoding("utf-8")


@dataclass(frozen=True)
class DecodedText:
    """The text of a file and what it takes to write it back byte for byte."""

    text: str
    """Exact: line ends as they are, a UTF-8 byte-order mark as U+FEFF in front."""
    encoding: Encoding
    bom: bool
    newline: Newline


class NotTextError(ValueError):
    """Bytes that are no text; `looks_like` says what they are, with its article ("a PNG image")."""

    def __init__(self, looks_like: str) -> None:
        super().__init__(f"looks like {looks_like}, not text")
        self.looks_like = looks_like


def decode(raw: bytes, shown: str, advice: str) -> DecodedText:
    """Decode a whole file. Raises BinaryFile, whose message ends with `advice`."""
    try:
        text, encoding = _decode_utf_8(raw) or _decode_otherwise(raw)
    except NotTextError as error:
        raise binary_file(error, shown, advice) from None
    return DecodedText(text, encoding, bool(encoding.mark) or text.startswith("\ufeff"), newline_style(text))


def binary_file(error: NotTextError, shown: str, advice: str) -> BinaryFile:
    """Return the error for a file that is no text."""
    details = {"path": shown, "looksLike": error.looks_like}
    return BinaryFile(f"{shown} looks like {error.looks_like}, not text. {advice}", dict(details))


def recognise(raw: bytes, *, complete: bool = True) -> Encoding:
    """Return the encoding that gives `raw` back exactly; not `complete` may end in a character. Raises NotTextError."""
    for mark, codec in _BOMS:
        if raw.startswith(mark) and _round_trips(raw[len(mark) :], codec, complete):
            return Encoding(codec, mark)
    head = raw[:SAMPLE_BYTES]
    if b"\0" in head:
        wide = _wide_without_mark(head)
        if wide and _round_trips(raw, wide, complete):
            return Encoding(wide)
        raise NotTextError(looks_like(raw))
    if _is_utf_8(raw, complete):
        return UTF_8
    if _has_signature(raw) or _looks_binary(raw):
        raise NotTextError(looks_like(raw))
    for codec in guess_legacy(raw):
        if _round_trips(raw, codec, complete):
            return Encoding(codec)
    return Encoding("iso-8859-1")  # every byte is a character of it: always exact


def looks_like(raw: bytes) -> str:
    """Return what kind of binary data this is, by its first bytes, with an article."""
    if raw[:4] == b"RIFF":
        kinds = {b"WEBP": "a WebP image", b"WAVE": "a WAV audio file", b"AVI ": "an AVI video"}
        return kinds.get(raw[8:12], "a RIFF media file")
    if raw[4:8] == b"ftyp":
        return "an MP4 video or HEIC image"
    if raw[257:262] == b"ustar":
        return "a tar archive"
    for signature, name in _SIGNATURES:
        if raw.startswith(signature):
            return name
    return "binary data"


def newline_style(text: str) -> Newline:
    """Return how the lines of `text` end."""
    if "\r" not in text:
        return Newline.LF if "\n" in text else Newline.NONE
    pairs = text.count("\r\n")
    lone = {Newline.CRLF: pairs, Newline.LF: text.count("\n") - pairs, Newline.CR: text.count("\r") - pairs}
    used = [style for style, count in lone.items() if count]
    return used[0] if len(used) == 1 else Newline.MIXED if used else Newline.NONE


def _decode_utf_8(raw: bytes) -> tuple[str, Encoding] | None:
    """Decode the usual case in one pass; `recognise` has the same result."""
    if raw.startswith(tuple(mark for mark, _ in _BOMS)) or b"\0" in raw[:SAMPLE_BYTES]:
        return None
    try:
        return raw.decode("utf-8"), UTF_8
    except UnicodeDecodeError:
        return None


def _decode_otherwise(raw: bytes) -> tuple[str, Encoding]:
    encoding = recognise(raw)
    return encoding.decode(raw), encoding


def _is_utf_8(raw: bytes, complete: bool) -> bool:
    try:
        codecs.utf_8_decode(raw, "strict", complete)
    except UnicodeDecodeError:
        return False
    return True


def _round_trips(raw: bytes, codec: str, complete: bool) -> bool:
    """Return whether decoding and encoding give `raw` back; not every codec is one-to-one."""
    try:
        text = codecs.getincrementaldecoder(codec)().decode(raw, complete)
        return raw.startswith(text.encode(codec)) if not complete else text.encode(codec) == raw
    except (UnicodeDecodeError, UnicodeEncodeError):
        return False


def _wide_without_mark(head: bytes) -> str | None:
    """UTF-16 without a mark: in most texts every second byte is zero, and the others hardly ever."""
    pairs = len(head) // 2
    if pairs == 0:
        return None
    zeros_first, zeros_second = head[0::2].count(0), head[1::2].count(0)
    for zeros, others, codec in ((zeros_second, zeros_first, "utf-16-le"), (zeros_first, zeros_second, "utf-16-be")):
        if others == 0 and zeros * 2 > pairs:
            letters = head[0 if codec.endswith("le") else 1 :: 2]
            return None if _looks_binary(letters) else codec
    return None


def _has_signature(raw: bytes) -> bool:
    """Two-letter signatures are too short to call something binary that may be text in an 8-bit encoding."""
    return any(raw.startswith(signature) for signature, _ in _SIGNATURES if len(signature) > 2)


def _looks_binary(raw: bytes) -> bool:
    """More than one control byte in a hundred: 8-bit text has none, compressed data about ten."""
    head = raw[: SAMPLE_BYTES * 8]
    return (len(head) - len(head.translate(None, _CONTROLS))) * 100 > len(head)
