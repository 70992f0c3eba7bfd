"""Opening one SQLite file safely: whose it is, whether it is sound, locks, transactions, and what its errors mean."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ollm_tui.core.base.errors import StorageFailed

APPLICATION_ID = 0x6F6C6C6D
"""Marks the file as ours ("ollm"), so that another program's database is never migrated or set aside."""

FORMAT = 1
"""Version of what the store itself keeps in the file; owners' tables have versions of their own."""

CHECKED_BYTES = 16_000_000
"""Files up to this size are checked page by page when opened (about 5 ms a megabyte); larger ones when in doubt."""

_LOG_BYTES = 8_000_000
"""What a write-ahead log is cut back to once its content has moved into the database."""

_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class StoreDamagedError(Exception):
    """The file is no sound database."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def connect(path: Path, busy_seconds: float, *, in_doubt: bool) -> sqlite3.Connection:
    """Open and check, all pages where `in_doubt`. Raises StoreDamagedError, StorageFailed, sqlite3.Error."""
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        _check_owner(connection, path)
        _check_pages(connection, path, in_doubt)
        _configure(connection)
    except sqlite3.Error as error:
        connection.close()
        if is_damage(error):
            raise StoreDamagedError(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def may_only_be_read(path: Path) -> bool:
    """Return whether there is a database that we may not write: it, a file beside it, or its directory."""
    if not os.path.exists(path):
        return False
    needed = (path.parent, *(beside(path, suffix) for suffix in ("", ".lock", "-wal", "-shm")))
    # By the rights that opening goes by, where the system can tell.
    effective = os.access in os.supports_effective_ids
    return not all(os.access(place, os.W_OK, effective_ids=effective) for place in needed if os.path.lexists(place))


def connect_for_reading(path: Path, busy_seconds: float) -> tuple[sqlite3.Connection, bool]:
    """Open what may not be written, and whether the connection sees what others write meanwhile.

    SQLite makes files beside a database even to read it, unless there is no log and it is told that nothing changes.
    Raises StorageFailed; sqlite3.Error for the rest.
    """
    log = beside(path, "-wal")
    settled = not log.exists() or not log.stat().st_size
    address = f"file:{quote(os.fsencode(path))}?mode=ro{'&immutable=1' if settled else ''}"
    connection = sqlite3.connect(address, timeout=busy_seconds, isolation_level=None, check_same_thread=False, uri=True)
    try:
        _check_owner(connection, path)
        _check_pages(connection, path, in_doubt=False)
        if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
            return copied(connection), False
    except (StoreDamagedError, sqlite3.Error) as error:
        connection.close()
        if isinstance(error, sqlite3.Error) and not is_damage(error):
            raise
        raise StorageFailed(
            f"{path} is damaged ({error}), and may only be read, so it cannot be kept aside. "
            "Move it away, or point XDG_DATA_HOME to a folder of your own.",
            {"path": str(path), "reason": str(error)},
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection, not settled


def copied(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Close a connection and return a copy in memory, which can be migrated and is never kept."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.backup(copy)
    connection.close()
    _mark_as_ours(copy)
    return copy


def _check_owner(connection: sqlite3.Connection, path: Path) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StorageFailed(
            f"{path} is a database of another program; it is left as it is. Move it away, or set XDG_DATA_HOME.",
            {"path": str(path)},
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise newer_file(path, f"file format {version}", FORMAT)


def _check_pages(connection: sqlite3.Connection, path: Path, in_doubt: bool) -> None:
    if in_doubt:
        verdicts = connection.execute("PRAGMA integrity_check").fetchall()
    elif path.stat().st_size <= CHECKED_BYTES:
        verdicts = connection.execute("PRAGMA quick_check").fetchall()
    else:
        return
    # A search index is made anew from the table it belongs to; that is no reason to give up the file.
    faults = [str(said) for (said,) in verdicts if said != "ok" and "inverted index" not in str(said)]
    if faults:
        raise StoreDamagedError(" ".join(faults[0].split()))


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file itself is damaged; a search index that can be rebuilt does not count."""
    return _code(error) in _DAMAGE_CODES and not is_index_damage(error)


def is_index_damage(error: sqlite3.Error) -> bool:
    """Return whether a full-text index no longer fits its table."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB


def _configure(connection: sqlite3.Connection) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    # Without a log (a file system without shared memory) NORMAL would not protect from a power cut.
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    _mark_as_ours(connection)


def _mark_as_ours(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
        with transaction(connection, "BEGIN IMMEDIATE"):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS schema_versions(owner TEXT PRIMARY KEY, version INTEGER NOT NULL)"
            )


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Generator[None]:
    """Open a transaction; an exception inside undoes it."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has undone it already
            connection.execute("ROLLBACK")
        raise


def version_of(connection: sqlite3.Connection, owner: str) -> int:
    """Return the version of an owner's tables, 0 where it has none."""
    row = connection.execute("SELECT version FROM schema_versions WHERE owner = ?", (owner,)).fetchone()
    return row[0] if row else 0


def failure_of(path: Path, error: sqlite3.Error) -> StorageFailed:
    """Return the error for what SQLite said, with the remedy."""
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            said = "another process has kept it locked. Try again; if it stays so, end the other ollm-tui"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            said = "it may not be written. Give yourself write permission on the file and its folder"
        case sqlite3.SQLITE_CANTOPEN:
            said = "it cannot be opened. Check the permissions of the file and its folder"
        case sqlite3.SQLITE_FULL:
            said = "the disk or quota is full. Nothing was changed; free some space first"
        case sqlite3.SQLITE_IOERR:
            said = "the disk refused to read or write it (full, at a limit, or failing). Nothing was changed"
        case sqlite3.SQLITE_TOOBIG:
            said = "the text is longer than the database can hold. Store less"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            said = "it is damaged. Close every ollm-tui and start again: the file is then kept aside, a new one begun"
        case _:
            said = "the database refused. See the reason"
    reason = str(error)
    return StorageFailed(f"{path}: {said} ({reason}).", {"path": str(path), "reason": reason})


def cannot_create(path: Path, error: OSError) -> StorageFailed:
    """Return the error for a file that cannot be created or opened."""
    reason = error.strerror or str(error)
    return StorageFailed(
        f"{path} cannot be created or opened: {reason}. Check the folder's permissions and free space, "
        "or point XDG_DATA_HOME elsewhere.",
        {"path": str(path), "reason": reason},
    )


def newer_file(path: Path, found: str, known: int) -> StorageFailed:
    """Return the error for a file of a newer program."""
    return StorageFailed(
        f"{path} was written by a newer ollm-tui ({found}; this one knows {known}) and is left as it is. "
        "Update ollm-tui, or set XDG_DATA_HOME to another folder.",
        {"path": str(path)},
    )


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where the interface raised by itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file beside the database."""
    return path.with_name(path.name + suffix)


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return device and inode, None where nothing is."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def lock(descriptor: int, how: int) -> bool:
    """Lock; return False when another process has it. File systems without locks count as free."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def lock_shared(path: Path, descriptor: int, seconds: float) -> None:
    """Wait while another process has the lock file alone, which is as long as it sets a damaged file aside."""
    gives_up_at = time.monotonic() + seconds
    while not lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
        if time.monotonic() >= gives_up_at:
            raise StorageFailed(
                f"{beside(path, '.lock')}: another process has kept it locked. "
                "Try again; if it stays so, end the other ollm-tui.",
                {"path": str(path)},
            )
        time.sleep(0.05)


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
