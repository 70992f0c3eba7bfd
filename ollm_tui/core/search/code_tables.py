"""The tables of a code index (SQLite FTS5): files, the places in them, and the words of both."""

from __future__ import annotations

import os
import re
import sqlite3

from ollm_tui.core.search.code_chunks import chunks_of, first_words, is_test
from ollm_tui.core.search.code_vectors import TABLE

VERSION = 6
"""Of tables and chunks; an index of another one is built anew."""

PLACE_BITS = 20
"""Of a place's number, below that of its file: a file has at most a million bytes, and fewer places."""
MOST_STALE = 1_000
"""Files that are gone or were other ones before the index is built anew, where these are more than those there."""
HEAD_CHARACTERS = 160
"""How much of a place goes into its vector."""

_TABLES = (
    """
CREATE TABLE files(id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL UNIQUE, state TEXT NOT NULL,
    test INTEGER NOT NULL);
CREATE TABLE chunks(id INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, symbol TEXT NOT NULL,
    head TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(name, symbol, body, content = '', tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE whole USING fts5(name, symbols, body, content = '', tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE outline USING fts5(name, symbols, said, content = '', tokenize = 'porter unicode61');
"""
    + TABLE
)
# The word tables keep no texts and nothing is deleted from them: what is gone is not joined, as no id is used twice.
_NAMES = ("files", "chunks", "words", "whole", "outline", "vectors")
# It begins with a set of characters, so that `re` skips all others quickly.
_HUMP = re.compile(r"[A-Z0-9](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z][A-Z])(?=[a-z])|(?<=[A-Za-z][0-9]))")


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, empty, whatever was there before."""
    dropped = " ".join(f"DROP TABLE IF EXISTS {name};" for name in _NAMES)
    db.executescript(f"BEGIN; {dropped} {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")


def is_stale(db: sqlite3.Connection) -> bool:
    """Return whether most of what was ever added is gone."""
    added, there = db.execute("SELECT COALESCE(MAX(id), 0), COUNT(*) FROM files").fetchone()
    return added - there > max(there, MOST_STALE)


def in_parts(text: str) -> str:
    """Return a text with the names of code in it apart: `parseHTTPHeader2` as `parse HTTP Header 2`."""
    return _HUMP.sub(_apart, text)


def _apart(found: re.Match[str]) -> str:
    return " " + found[0]


def remove_file(db: sqlite3.Connection, path: bytes) -> None:
    """Remove a file; nothing happens where it is not in the index."""
    row = db.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
    if row is not None:
        places = row[0] << PLACE_BITS, row[0] + 1 << PLACE_BITS
        db.execute("DELETE FROM vectors WHERE place >= ? AND place < ?", places)
        db.execute("DELETE FROM chunks WHERE id >= ? AND id < ?", places)
        db.execute("DELETE FROM files WHERE id = ?", row)


def add_file(db: sqlite3.Connection, path: bytes, state: str, data: bytes) -> None:
    """Add a file that is not in the index; one without data only so that it is not read again."""
    shown = os.fsdecode(path).encode("utf-8", "replace").decode()
    number = db.execute("INSERT INTO files(path, state, test) VALUES(?, ?, ?)", (path, state, is_test(shown))).lastrowid
    if not data or number is None:
        return
    text = in_parts(data.decode("utf-8", "replace"))
    lines = text.split("\n")
    chunks = chunks_of(shown.rpartition(".")[2].lower(), data)
    symbols = in_parts("\n".join([chunk.symbol for chunk in chunks])).split("\n")
    bodies = ["\n".join(lines[chunk.start - 1 : chunk.end]) for chunk in chunks]
    # The names of directories are those of many files: they are words of the file as others are.
    directories, _, name = in_parts(shown).rpartition("/")
    said = " ".join(map(first_words, (text, *bodies)))
    outline = " ".join(symbols)
    db.execute(
        "INSERT INTO whole(rowid, name, symbols, body) VALUES(?, ?, ?, ?)",
        (number, name, outline, f"{directories}\n{text}"),
    )
    db.execute("INSERT INTO outline(rowid, name, symbols, said) VALUES(?, ?, ?, ?)", (number, name, outline, said))
    numbers = range(number << PLACE_BITS, (number << PLACE_BITS) + len(chunks))
    plain = shown.rpartition("/")[2]
    db.executemany(
        "INSERT INTO chunks(id, first, last, symbol, head) VALUES(?, ?, ?, ?, ?)",
        [
            (place, chunk.start, chunk.end, chunk.symbol, _head(chunk.symbol or plain, body))
            for place, chunk, body in zip(numbers, chunks, bodies, strict=True)
        ],
    )
    names = [name, *[""] * (len(chunks) - 1)]
    bodies[:1] = [f"{directories}\n{body}" for body in bodies[:1]]  # so that a file is found by its path alone
    db.executemany(
        "INSERT INTO words(rowid, name, symbol, body) VALUES(?, ?, ?, ?)",
        zip(numbers, names, symbols, bodies, strict=False),
    )


def _head(name: str, body: str) -> str:
    """Return what a place is known by: its name, and how it begins."""
    return f"{name}: {' '.join(body[: 3 * HEAD_CHARACTERS].split())}"[:HEAD_CHARACTERS]
