"""What programs write to a terminal, made up or recorded: the loads of the terminal engine's benchmark."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Iterator

from tests import DATA_DIR

COLUMNS, LINES = 120, 40
RECORDINGS = DATA_DIR / "terminal"


def log_lines(size: int, seed: random.Random) -> bytes:
    out: list[str] = []
    total = 0
    number = 0
    while total < size:
        number += 1
        words = " ".join(seed.choice(WORDS) for _ in range(seed.randint(6, 14)))
        out.append(
            f"2025-03-{number % 28 + 1:02d}T12:{number % 60:02d}:07.{number % 1000:03d}Z"
            f" INFO [worker-{number % 8}] {words}\r\n"
        )
        total += len(out[-1])
    return "".join(out).encode()


WORDS = [
    "request",
    "finished",
    "cache",
    "miss",
    "for",
    "key",
    "user:8812",
    "in",
    "12ms",
    "connection",
    "retry",
    "status=200",
    "bytes",
    "flushed",
]


def ls_colours(size: int, seed: random.Random) -> bytes:
    try:
        out = subprocess.run(
            ["ls", "-lR", "--color=always", sys.prefix, "/usr/lib"],
            capture_output=True,
            check=False,
            env={"LC_ALL": "C.UTF-8"},
        ).stdout
    except OSError:
        out = b"-rw-r--r-- 1 root root 512 Jan  1 00:00 \x1b[01;34mname\x1b[0m\n" * 10_000
    return out[:size].replace(b"\n", b"\r\n")


def seq(size: int, seed: random.Random) -> bytes:
    return b"".join(b"%d\r\n" % n for n in range(1, size // 7))


def progress(size: int, seed: random.Random) -> bytes:
    out: list[bytes] = []
    total = 0
    step = 0
    while total < size:
        step += 1
        done = step % 60
        out.append(
            f"\r\x1b[K{step % 100:3d}% |{'█' * done}{' ' * (60 - done)}| {step}/30000 [00:12<00:03, 812 it/s]".encode()
        )
        total += len(out[-1])
    return b"".join(out)


def cjk(size: int, seed: random.Random) -> bytes:
    pieces = [
        "日本語のテキスト",
        "中文字符测试",
        "한국어 문장",
        "😀🚀✨",
        "café naïve",
        "plain words",
        "ファイル名.txt",
        "データ処理中",
    ]
    out: list[bytes] = []
    total = 0
    while total < size:
        out.append((" ".join(seed.choice(pieces) for _ in range(seed.randint(3, 8))) + "\r\n").encode())
        total += len(out[-1])
    return b"".join(out)


def colour(size: int, seed: random.Random) -> bytes:
    out: list[bytes] = []
    total = 0
    while total < size:
        line = ""
        for _ in range(10):
            if seed.random() < 0.5:
                line += f"\x1b[38;5;{seed.randrange(256)}m"
            else:
                line += f"\x1b[38;2;{seed.randrange(256)};{seed.randrange(256)};{seed.randrange(256)}m"
            line += "".join(seed.choices("abcdefgh ", k=seed.randint(4, 12)))
        out.append((line + "\x1b[0m\r\n").encode())
        total += len(out[-1])
    return b"".join(out)


def programs(size: int, seed: random.Random) -> bytes:
    """Recordings of vim, less and htop, again and again."""
    recorded = b"".join(
        path.read_bytes() for path in sorted(RECORDINGS.glob("*.raw")) if path.stem in ("vim", "less", "htop")
    )
    return recorded * max(1, size // max(1, len(recorded)))


def dense_cells(size: int, seed: random.Random) -> bytes:
    """Every cell of the screen in colours of its own, again and again, as vtebench does."""

    def screens() -> Iterator[str]:
        for turn in itertools.count():
            letter = chr(ord("A") + turn % 26)
            yield "\x1b[H"
            for y, x in itertools.product(range(LINES), range(COLUMNS)):
                number = (y + x + turn) % 156
                yield f"\x1b[38;5;{number + 100};48;5;{255 - number};1;3;4m{letter}"

    return _cut(screens(), size)


def cursor_motion(size: int, seed: random.Random) -> bytes:
    """A letter at a place of its own, cell by cell from the outside in, as vtebench does."""

    def spirals() -> Iterator[str]:
        for turn in itertools.count():
            letter = chr(ord("A") + turn % 26)
            for ring in range(LINES // 2):
                top, left, bottom, right = 1 + ring, 1 + ring, LINES - ring, COLUMNS - ring
                for x in range(left, right):
                    yield f"\x1b[{top};{x}H{letter}"
                for y in range(top, bottom):
                    yield f"\x1b[{y};{right}H{letter}"
                for x in range(right, left, -1):
                    yield f"\x1b[{bottom};{x}H{letter}"
                for y in range(bottom, top, -1):
                    yield f"\x1b[{y};{left}H{letter}"

    return _cut(spirals(), size)


SCRIPTS = (
    "Γειά σου Привет שלום مرحبا नमस्ते สวัสดี გამარჯობა Բարեւ ជំរាបសួរ வணக்கம் გმადლობთ ආයුබෝවන් "
    "Tiếng Việt e\u0301a\u0308o\u0302 ½±×÷ ← ↑ → ∀∃∈∑√∞ ⌘⌥⏎ ☀☂☎♠♥ ⚠\ufe0f ✔✘ ①②③ ﬁ 日本語 中文 한국어 😀🚀 ｱｲｳ"
)


def scripts(size: int, seed: random.Random) -> bytes:
    """Words of many scripts, with combining marks, symbols and emoji between them."""
    words = SCRIPTS.split(" ")
    return _cut((" ".join(seed.choices(words, k=12)) + "\r\n" for _ in itertools.count()), size)


def joined_emoji(size: int, seed: random.Random) -> bytes:
    """Emoji joined by zero-width joiners, with skin tones, selectors, and flags."""
    emoji = [
        "👨\u200d👩\u200d👧\u200d👦",
        "👩🏽\u200d💻",
        "🏳\ufe0f\u200d🌈",
        "👍🏿",
        "🇫🇷",
        "🇯🇵",
        "❤\ufe0f",
        "🧑\u200d🤝\u200d🧑",
        "👁\ufe0f\u200d🗨\ufe0f",
    ]
    return _cut((" ".join(seed.choices(emoji, k=20)) + "\r\n" for _ in itertools.count()), size)


def region(size: int, seed: random.Random) -> bytes:
    """Lines that scroll in a region of the screen."""
    lines = (f"\r\nline {number} of what scrolls in a part of the screen" for number in itertools.count())
    return _cut(itertools.chain([f"\x1b[5;{LINES - 5}r\x1b[{LINES - 5};1H"], lines), size)


def long_line(size: int, seed: random.Random) -> bytes:
    """One line without an end."""
    return b"abcdefghij" * (size // 10)


def alternate(size: int, seed: random.Random) -> bytes:
    """Lines that scroll through the alternate screen."""
    return b"\x1b[?1049h" + log_lines(size, seed)


def _cut(pieces: Iterator[str], size: int) -> bytes:
    """The pieces up to a size, whole ones."""
    out: list[bytes] = []
    total = 0
    while total < size:
        out.append(next(pieces).encode())
        total += len(out[-1])
    return b"".join(out)


CORPORA: dict[str, Callable[[int, random.Random], bytes]] = {
    "log": log_lines,
    "ls": ls_colours,
    "seq": seq,
    "progress": progress,
    "cjk": cjk,
    "programs": programs,
    "colour": colour,
    "dense": dense_cells,
    "motion": cursor_motion,
    "scripts": scripts,
    "joined": joined_emoji,
    "region": region,
    "long line": long_line,
    "alternate": alternate,
}
