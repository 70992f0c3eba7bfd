"""The database that outlives a session: one guarded connection, migrations per owner, transactions; it knows no table.

SQLite in WAL mode, so that several processes read and write at once (001 R11.9). Every call blocks.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.storage import damage
from ollm_tui.core.storage.damage import DamagedStoreCopy
from ollm_tui.core.storage.sqlite_file import (
    StoreDamagedError,
    beside,
    cannot_create,
    connect,
    connect_for_reading,
    copied,
    failure_of,
    identity_of,
    is_damage,
    lock,
    lock_shared,
    may_only_be_read,
    newer_file,
    sync_file,
    transaction,
    version_of,
)

BUSY_SECONDS = 5.0
"""How long a write waits for other processes before it gives up."""

_IN_DOUBT = b"in doubt"
"""What the lock file says once damage was met while the database was in use."""

_TRIES = 20
"""How often a damaged file is looked at again while another process that is just starting deals with it."""


@dataclass(frozen=True)
class Schema:
    """One owner's tables: step n leads to version n, and steps are only ever added; `functions` map text to text."""

    owner: str
    steps: tuple[tuple[str, ...], ...]
    functions: Mapping[str, Callable[[str], str]] = field(default_factory=dict[str, Callable[[str], str]])
    salvaged: tuple[str, ...] = ()
    """Tables whose rows are taken over, in this order, from a store that was set aside."""
    after_salvage: str = ""
    """A statement for what follows from them."""


@dataclass(frozen=True)
class ReadOnlyReason:
    """A database that we may read and not write; for showing to the person."""

    path: Path

    @property
    def message(self) -> str:
        """What the person is told."""
        return (
            f"{self.path} may only be read: what it holds is used, but changes to memory and todos are refused, and "
            f"the audit log is not written. {self._remedy}"
        )

    @property
    def refusal(self) -> str:
        """What whoever writes is told."""
        return f"{self.path} may only be read: nothing was saved. {self._remedy}"

    @property
    def _remedy(self) -> str:
        return (
            "Give yourself write permission on the file and its folder, or point XDG_DATA_HOME to a folder of your own."
        )


class Store:
    """One database file, used by any number of threads through one guarded connection, and by any number of processes.

    Nothing is opened before the first use, and a failed opening is tried again at the next one. A damaged file is set
    aside (`set_aside` says so), never reset. One that may not be written is read as it stands (`read_only` says so);
    once it may be, the next write is done. Failures are StorageFailed with the path and what to do.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = path
        self.set_aside: DamagedStoreCopy | None = None
        self.read_only: ReadOnlyReason | None = None
        self._clock = clock or SystemClock()
        self._busy_seconds = busy_seconds
        self._patience_ends: float | None = None
        self._guard = threading.Lock()
        self._holder: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._frozen_at: tuple[int, ...] | None = None
        """The stamp of the file when a connection was made that cannot see what others write later."""
        self._synced_log: tuple[int, int] | None = None
        self._presence: int | None = None
        self._ready: set[str] = set()
        self._closed = False

    def open(self) -> DamagedStoreCopy | ReadOnlyReason | None:
        """Open now instead of at the first use; returns what a person should know about how that went."""
        with self._using():
            return self.set_aside or self.read_only

    @contextmanager
    def read(self, schema: Schema) -> Generator[sqlite3.Connection]:
        """Open a transaction that sees one state of the file throughout."""
        with self._using() as opened:
            connection = self._prepare(opened, schema)
            with transaction(connection, "BEGIN"):
                yield connection

    @contextmanager
    def write(self, schema: Schema) -> Generator[sqlite3.Connection]:
        """Open the only writing transaction of all processes; an exception undoes it. `sync` makes it last."""
        with self._using(writing=True) as connection:
            self._prepare(connection, schema)
            with transaction(connection, "BEGIN IMMEDIATE"):
                yield connection

    def sync(self) -> None:
        """Bring everything committed so far to the disk; for the end of a turn."""
        with self._using():
            if self.read_only is not None:
                return
            # Commits stand in the log until a checkpoint, which syncs by itself, moves them. No checkpoint here: it
            # syncs twice, and the next commit once more, since it begins the log anew. Without a log commits sync.
            log = identity_of(self._log_path)
            with suppress(FileNotFoundError):
                sync_file(self._log_path)
            if log != self._synced_log:  # its name is new in the directory
                sync_file(self.path.parent)
                self._synced_log = log

    def data_version(self) -> int:
        """Return a number that differs from the last call's when somebody else has committed since (not this Store)."""
        with self._using() as connection:
            if self.read_only is not None:  # its connections come and go
                return hash(self.stamp())
            return connection.execute("PRAGMA data_version").fetchone()[0]

    def stamp(self) -> tuple[int, ...]:
        """Time, size and identity of the file and its log: unchanged means that most likely nobody has written."""
        found: list[int] = []
        for place in (self.path, self._log_path):
            try:
                status = place.stat()
            except OSError:
                found += (0, 0, 0)
            else:
                found += (status.st_mtime_ns, status.st_size, status.st_ino)
        return tuple(found)

    def wait_at_most(self, seconds: float) -> None:
        """From now on wait for other processes these seconds in all; the first call counts."""
        if self._patience_ends is None:
            self._patience_ends = time.monotonic() + seconds

    @property
    def _patience(self) -> float:
        """Seconds that a use waits for other processes."""
        if self._patience_ends is None:
            return self._busy_seconds
        return max(0.0, min(self._busy_seconds, self._patience_ends - time.monotonic()))

    def close(self) -> None:
        """Let go of the file; further use fails. Idempotent."""
        with self._guard:
            self._closed = True
            self._let_go()

    @property
    def _log_path(self) -> Path:
        return beside(self.path, "-wal")

    # -- the guarded connection

    @contextmanager
    def _using(self, *, writing: bool = False) -> Generator[sqlite3.Connection]:
        if self._holder == threading.get_ident():
            raise RuntimeError("a store transaction was begun inside another one of the same thread")
        with self._guard:
            self._holder = threading.get_ident()
            try:
                yield self._opened(writing)
            except sqlite3.ProgrammingError:
                raise  # our own misuse of the interface, nothing a person can mend
            except sqlite3.Error as error:
                if is_damage(error) and self._presence is not None:
                    os.pwrite(self._presence, _IN_DOUBT, 0)  # whoever opens the file next looks at every page
                raise failure_of(self.path, error) from error
            except UnicodeEncodeError as error:
                raise StorageFailed(
                    f"{self.path}: the text has half of a surrogate pair at character {error.start + 1} "
                    "and cannot be stored. Leave that character out.",
                    {"path": str(self.path)},
                ) from error
            finally:
                self._holder = None

    def _opened(self, writing: bool) -> sqlite3.Connection:
        if self._closed:
            raise StorageFailed(f"{self.path}: the database was closed already.", {"path": str(self.path)})
        if self.read_only is not None and self._is_overtaken(writing):
            self._let_go()
        if self._connection is None:
            self._connection = self._open()
            self._identity = identity_of(self.path)
            self.set_aside = damage.unaccepted(self.path)
        elif identity_of(self.path) != self._identity:
            # What is written now would go to a file that nobody finds again.
            raise StorageFailed(
                f"{self.path} was moved or deleted while in use; nothing is saved any more. Restart ollm-tui.",
                {"path": str(self.path)},
            )
        if writing and self.read_only is not None:
            raise StorageFailed(self.read_only.refusal, {"path": str(self.path)})
        if self._patience_ends is not None:
            self._connection.execute(f"PRAGMA busy_timeout = {round(self._patience * 1000)}")
        return self._connection

    def _is_overtaken(self, writing: bool) -> bool:
        """Return whether a read-only database may be written by now, or has changed since it was opened."""
        is_behind = self._frozen_at is not None and self._frozen_at != self.stamp()
        return is_behind or (writing and not may_only_be_read(self.path))

    def _open(self) -> sqlite3.Connection:
        if may_only_be_read(self.path):
            stamp = self.stamp()
            connection, sees_changes = connect_for_reading(self.path, self._patience)
            self.read_only, self._frozen_at = ReadOnlyReason(self.path), None if sees_changes else stamp
            return connection
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._presence is None:
                self._presence = os.open(beside(self.path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._let_go()
            raise cannot_create(self.path, error) from error
        try:
            return self._open_or_set_aside(self._presence)
        except BaseException:
            self._let_go()
            raise

    def _open_or_set_aside(self, presence: int) -> sqlite3.Connection:
        """Everyone who has the file open holds the lock file shared; setting aside takes it alone.

        Renaming a database that another process still uses would lose what that process writes.
        """
        reason = ""
        for _ in range(_TRIES):
            lock_shared(self.path, presence, self._patience)
            _create_privately(self.path)
            try:
                return self._connect(presence)
            except StoreDamagedError as error:
                reason = error.reason
            if lock(presence, fcntl.LOCK_EX | fcntl.LOCK_NB):
                try:
                    connection = self._connect(presence)
                except StoreDamagedError as error:
                    _move_away(self.path, error.reason, self._clock.now())
                else:
                    lock(presence, fcntl.LOCK_SH)
                    return connection
            else:
                time.sleep(0.05)
        raise StorageFailed(
            f"{self.path} is damaged ({reason}) and another ollm-tui has it open. "
            "Close the others and start again: the file is then kept aside and a new one begun.",
            {"path": str(self.path), "reason": reason},
        )

    def _connect(self, presence: int) -> sqlite3.Connection:
        in_doubt = os.pread(presence, len(_IN_DOUBT), 0) == _IN_DOUBT
        connection = connect(self.path, self._patience, in_doubt=in_doubt)
        if in_doubt:
            os.ftruncate(presence, 0)
        return connection

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._presence is not None:
            os.close(self._presence)
        self._connection = self._presence = self.read_only = self._frozen_at = None
        self._ready.clear()

    def _prepare(self, connection: sqlite3.Connection, schema: Schema) -> sqlite3.Connection:
        """Return the connection to use: the owner's tables are there, in a copy where the file may not be changed."""
        if schema.owner in self._ready:
            return connection
        is_current = version_of(connection, schema.owner) == len(schema.steps)
        if self.read_only is not None and not is_current:
            self._frozen_at = self._frozen_at or self.stamp()
            self._connection = connection = copied(connection)
            self._ready.clear()
        for name, function in schema.functions.items():
            connection.create_function(name, 1, function, deterministic=True)
        if not is_current:
            with transaction(connection, "BEGIN IMMEDIATE"):
                self._migrate(connection, schema)
        self._ready.add(schema.owner)
        return connection

    def _migrate(self, connection: sqlite3.Connection, schema: Schema) -> None:
        # Read again: another process may have migrated while this one waited for the file.
        version = version_of(connection, schema.owner)
        if version > len(schema.steps):
            raise newer_file(self.path, f"{schema.owner} tables of version {version}", len(schema.steps))
        for step in schema.steps[version:]:
            for statement in step:
                connection.execute(statement)
        if version == 0 and self.set_aside is not None and schema.salvaged:
            damage.salvage(self.set_aside.kept_as, schema.salvaged, connection)
            if schema.after_salvage:
                connection.execute(schema.after_salvage)
        connection.execute(
            "INSERT INTO schema_versions(owner, version) VALUES(?, ?) "
            "ON CONFLICT(owner) DO UPDATE SET version = excluded.version",
            (schema.owner, len(schema.steps)),
        )


def _create_privately(path: Path) -> None:
    # Only ever a new file: closing a descriptor of an open database would drop its connection's locks.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise cannot_create(path, error) from error


def _move_away(path: Path, reason: str, moment: datetime) -> None:
    try:
        damage.set_aside(path, reason, moment.strftime("%Y%m%dT%H%M%SZ"))
    except OSError as error:
        raise cannot_create(path, error) from error


class InMemoryStore(Store):
    """A database that no file holds: it ends with its process."""

    def __init__(self) -> None:
        super().__init__(Path(":memory:"))

    def sync(self) -> None:
        """Do nothing: there is no disk to bring it to."""

    def _opened(self, writing: bool) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = copied(sqlite3.connect(self.path, isolation_level=None))
        return self._connection


def workspace_key(workspace: Path) -> str | bytes:
    """Return what stands for a workspace in a table; bytes where its path is no UTF-8."""
    raw = os.fsencode(workspace)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
