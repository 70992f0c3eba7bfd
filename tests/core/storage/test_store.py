"""The store: what it keeps, what it refuses, and what several threads and processes may do to it at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.storage import sqlite_file
from ollm_tui.core.storage.background import ChangeWatch, watch_changes
from ollm_tui.core.storage.damage import DamagedStoreCopy, accept
from ollm_tui.core.storage.store import ReadOnlyReason, Schema, Store, workspace_key
from ollm_tui.testing import FakeClock

NOTES = Schema("notes", (("CREATE TABLE notes(number INTEGER PRIMARY KEY, text TEXT NOT NULL)",),))
NOTES_2 = Schema("notes", (*NOTES.steps, ("ALTER TABLE notes ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",)))

WRITER = """
import sys
from pathlib import Path
from ollm_tui.core.storage.store import Schema, Store
NOTES = Schema("notes", (("CREATE TABLE notes(number INTEGER PRIMARY KEY, text TEXT NOT NULL)",),))
store = Store(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    with store.write(NOTES) as db:
        db.execute("INSERT INTO notes(text) VALUES(?)", (f"{sys.argv[3]} {number}",))
    print(number, flush=True)
"""


DAMAGED_AT = datetime(2026, 1, 31, 9, 5, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ollm.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path)
    yield store
    store.close()


def add(store: Store, text: str) -> None:
    with store.write(NOTES) as db:
        db.execute("INSERT INTO notes(text) VALUES(?)", (text,))


def texts(store: Store) -> list[str]:
    with store.read(NOTES) as db:
        return [row[0] for row in db.execute("SELECT text FROM notes ORDER BY number")]


def writer(path: Path, count: int, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(count), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# -- opening


def test_nothing_is_created_before_the_first_use(path: Path) -> None:
    store = Store(path)
    assert not path.parent.exists()
    assert store.open() is None
    assert path.exists()
    store.close()


def test_the_file_and_its_folder_are_for_the_owner_alone(store: Store, path: Path) -> None:
    add(store, "private")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o077 == 0
    assert path.with_name("ollm.db-wal").stat().st_mode & 0o077 == 0


def test_it_writes_ahead_and_keeps_what_was_written(store: Store, path: Path) -> None:
    add(store, "first")
    with store.read(NOTES) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (1,)
    store.close()
    again = Store(path)
    assert texts(again) == ["first"]
    again.close()


def test_a_closed_store_says_so(store: Store, path: Path) -> None:
    add(store, "first")
    store.close()
    store.close()
    with pytest.raises(StorageFailed, match="closed already"):
        texts(store)


@settings(deadline=None)
@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name), st.binary(min_size=1))
def test_two_workspaces_never_share_a_key(one: bytes, other: bytes) -> None:
    first, second = Path("/w", os.fsdecode(one)), Path("/w", os.fsdecode(other))
    assert (workspace_key(first) == workspace_key(second)) == (first == second)


# -- transactions and threads


def test_what_raises_inside_a_write_undoes_all_of_it(store: Store) -> None:
    add(store, "kept")
    with pytest.raises(KeyError), store.write(NOTES) as db:
        db.execute("INSERT INTO notes(text) VALUES('lost')")
        raise KeyError("x")
    assert texts(store) == ["kept"]


def test_a_transaction_inside_another_is_a_defect_and_no_deadlock(store: Store) -> None:
    with pytest.raises(RuntimeError, match="inside another"), store.write(NOTES):
        texts(store)
    add(store, "still works")
    assert texts(store) == ["still works"]


def test_many_threads_lose_nothing(store: Store) -> None:
    def work(thread: int) -> None:
        for number in range(25):
            add(store, f"{thread} {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(texts(store)) == sorted(f"{thread} {number}" for thread in range(8) for number in range(25))


def test_a_text_with_half_a_surrogate_pair_is_refused_with_its_place(store: Store) -> None:
    with pytest.raises(StorageFailed, match="character 3"):
        add(store, "ab\ud800")
    assert texts(store) == []


# -- versions


def test_steps_are_applied_once_and_in_order(path: Path) -> None:
    old = Store(path)
    add(old, "old")
    old.close()
    new = Store(path)
    for _ in range(2):
        with new.write(NOTES_2) as db:
            db.execute("UPDATE notes SET mood = mood")
    with new.read(NOTES_2) as db:
        assert db.execute("SELECT text, mood FROM notes").fetchall() == [("old", "calm")]
        assert db.execute("SELECT version FROM schema_versions WHERE owner = 'notes'").fetchone() == (2,)
    new.close()


def test_a_step_that_fails_leaves_the_old_version(path: Path, store: Store) -> None:
    add(store, "old")
    broken = Schema("notes", (*NOTES.steps, ("ALTER TABLE notes ADD COLUMN mood TEXT", "ALTER TABLE nothing ADD x")))
    newer = Store(path)
    with pytest.raises(StorageFailed), newer.read(broken):
        pass
    newer.close()
    with store.read(NOTES) as db:
        assert [row[1] for row in db.execute("PRAGMA table_info(notes)")] == ["number", "text"]


def test_tables_of_a_newer_version_are_refused_and_left_alone(path: Path, store: Store) -> None:
    with store.write(NOTES_2) as db:
        db.execute("INSERT INTO notes(text) VALUES('new')")
    store.close()
    old = Store(path)
    with pytest.raises(StorageFailed, match=r"newer ollm-tui .*Update ollm-tui") as caught:
        texts(old)
    assert str(path) in caught.value.message
    old.close()
    new = Store(path)
    with new.read(NOTES_2) as db:
        assert db.execute("SELECT text FROM notes").fetchall() == [("new",)]
    new.close()


def test_a_newer_file_format_is_refused(path: Path, store: Store) -> None:
    add(store, "x")
    store.close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    newer = Store(path)
    with pytest.raises(StorageFailed, match="file format 99"):
        newer.open()
    assert newer.set_aside is None
    newer.close()


def test_another_programs_database_is_neither_used_nor_moved(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE theirs(x)")
    raw.close()
    before = path.read_bytes()
    store = Store(path)
    with pytest.raises(StorageFailed, match="another program"):
        store.open()
    store.close()
    assert path.read_bytes() == before


# -- damage


@pytest.mark.parametrize("damage", ["garbage", "cut", "scribbled"])
def test_a_damaged_file_is_set_aside_whole_and_reported(path: Path, damage: str) -> None:
    store = Store(path)
    with store.write(NOTES) as db:
        db.executemany("INSERT INTO notes(text) VALUES(?)", [("x" * 500,)] * 200)
    store.close()
    whole = path.read_bytes()
    match damage:
        case "garbage":
            path.write_bytes(b"{}" * 5000)
        case "cut":
            path.write_bytes(whole[: len(whole) // 2])
        case _:
            path.write_bytes(whole[:4096] + b"\xff" * 8192 + whole[12288:])
    broken = path.read_bytes()
    again = Store(path, clock=FakeClock(DAMAGED_AT))
    aside = again.open()
    assert isinstance(aside, DamagedStoreCopy)
    assert aside.kept_as == path.with_name("ollm.db.corrupt-20260131T090500Z")
    assert aside.kept_as.read_bytes() == broken
    assert str(aside.kept_as) in aside.message
    assert texts(again) == []
    add(again, "new")
    assert texts(again) == ["new"]
    assert path.stat().st_mode & 0o077 == 0
    again.close()


def test_damage_met_while_in_use_is_set_aside_at_the_next_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "CHECKED_BYTES", 0)  # as if the file were too large to be checked at every start
    store = Store(path)
    with store.write(NOTES) as db:
        db.executemany("INSERT INTO notes(text) VALUES(?)", [("x" * 500,)] * 200)
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:20480] + b"\xff" * 4096 + whole[24576:])
    store = Store(path)
    assert store.open() is None
    with pytest.raises(StorageFailed, match="damaged"):
        texts(store)
    store.close()
    again = Store(path)
    assert again.open() is not None
    assert texts(again) == []
    again.close()
    third = Store(path)
    assert third.open() == again.set_aside  # until somebody accepts it
    third.close()
    assert len(accept(path)) == 1
    fourth = Store(path)
    assert fourth.open() is None
    fourth.close()


def test_a_file_that_was_suspected_wrongly_stays(path: Path, store: Store) -> None:
    add(store, "fine")
    store.close()
    lock = path.with_name("ollm.db.lock")
    lock.write_bytes(b"in doubt")
    again = Store(path)
    assert texts(again) == ["fine"]
    assert again.set_aside is None
    assert lock.read_bytes() == b""
    again.close()


def test_a_second_damaged_file_of_the_same_second_gets_a_name_of_its_own(path: Path) -> None:
    kept: list[Path] = []
    for content in (b"first" * 1000, b"second" * 1000):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        store = Store(path, clock=FakeClock(DAMAGED_AT))
        aside = store.open()
        assert isinstance(aside, DamagedStoreCopy)
        kept.append(aside.kept_as)
        store.close()
    assert kept[0] != kept[1]
    assert [place.read_bytes()[:5] for place in kept] == [b"first", b"secon"]


def test_a_damaged_file_that_another_process_has_open_is_not_moved(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"nonsense" * 1000)
    with open(path.with_name("ollm.db.lock"), "w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        store = Store(path)
        with pytest.raises(StorageFailed, match="Close the others"):
            store.open()
        assert path.read_bytes() == b"nonsense" * 1000
    assert store.open() is not None  # the others are gone: tried again, and set aside
    store.close()


def test_processes_that_start_together_on_a_damaged_file_lose_nothing(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"nonsense" * 1000)
    started = [writer(path, 20, name) for name in "ab"]
    for process in started:
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
    store = Store(path)
    assert sorted(texts(store)) == sorted(f"{name} {number}" for name in "ab" for number in range(20))
    store.close()
    copies = [each.name for each in path.parent.iterdir() if ".corrupt-" in each.name]
    assert len([name for name in copies if not name.endswith("-reason")]) == 1


# -- what the system refuses


@contextmanager
def ordinary_user() -> Generator[None]:
    """Somebody else than the owner of the files, for a moment."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shown_path() -> Iterator[Path]:
    """A database in a folder that everybody sees into."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become an ordinary user for a moment")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder, "ollm.db")


def share(path: Path, mode: int = 0o644) -> None:
    for place in path.parent.iterdir():
        os.chmod(place, mode)


@pytest.mark.parametrize(("folder_mode", "mode"), [(0o755, 0o644), (0o755, 0o666), (0o777, 0o444)])
def test_what_may_only_be_read_is_read_and_says_so(shown_path: Path, folder_mode: int, mode: int) -> None:
    store = Store(shown_path)
    add(store, "old")
    store.close()
    share(shown_path, mode)
    os.chmod(shown_path.parent, folder_mode)
    before = sorted(shown_path.parent.iterdir())
    with ordinary_user():
        theirs = Store(shown_path)
        notice = theirs.open()
        assert isinstance(notice, ReadOnlyReason)
        assert str(shown_path) in notice.message
        assert "XDG_DATA_HOME" in notice.message
        assert texts(theirs) == ["old"]
        with pytest.raises(StorageFailed, match=r"nothing was saved\. Give yourself write permission"):
            add(theirs, "new")
        theirs.sync()
        assert texts(theirs) == ["old"]
        theirs.close()
    assert sorted(shown_path.parent.iterdir()) == before


def test_what_may_only_be_read_shows_what_its_owner_writes_meanwhile(shown_path: Path) -> None:
    store = Store(shown_path)
    add(store, "first")
    store.close()  # no log is left: a connection that is told so would see nothing new
    share(shown_path)
    with ordinary_user():
        theirs = Store(shown_path)
        watch = ChangeWatch(theirs)
        assert texts(theirs) == ["first"]
        assert not watch.changed()
    owner = Store(shown_path)
    add(owner, "second")  # a log, whose content is in no other file yet
    share(shown_path)
    with ordinary_user():
        assert watch.changed()
        assert texts(theirs) == ["first", "second"]
    add(owner, "third")
    owner.close()
    with ordinary_user():
        assert watch.changed()
        assert texts(theirs) == ["first", "second", "third"]
        theirs.close()


def test_what_becomes_writable_is_written(shown_path: Path) -> None:
    store = Store(shown_path)
    add(store, "old")
    store.close()
    share(shown_path)
    theirs = Store(shown_path)
    with ordinary_user():
        with pytest.raises(StorageFailed, match="may only be read"):
            add(theirs, "refused")
        os.seteuid(0)
        os.chmod(shown_path.parent, 0o777)
        share(shown_path, 0o666)
        os.seteuid(65534)
        add(theirs, "new")
        assert theirs.open() is None
        assert texts(theirs) == ["old", "new"]
        theirs.close()


def test_older_tables_that_may_only_be_read_are_brought_up_to_date_in_a_copy(shown_path: Path) -> None:
    store = Store(shown_path)
    add(store, "old")
    store.close()
    share(shown_path)
    content = shown_path.read_bytes()
    with ordinary_user():
        theirs = Store(shown_path)
        with theirs.read(NOTES_2) as db:
            assert db.execute("SELECT text, mood FROM notes").fetchall() == [("old", "calm")]
        with theirs.read(Schema("others", (("CREATE TABLE others(one)",),))) as db:
            assert db.execute("SELECT * FROM others").fetchall() == []
        with pytest.raises(StorageFailed, match="may only be read"), theirs.write(NOTES_2):
            pass
        theirs.close()
    assert shown_path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"nonsense" * 1000])
def test_an_empty_or_damaged_file_that_may_only_be_read_stays_as_it_is(shown_path: Path, content: bytes) -> None:
    shown_path.write_bytes(content)
    share(shown_path)
    with ordinary_user():
        theirs = Store(shown_path)
        if content:
            with pytest.raises(StorageFailed, match=r"is damaged .* cannot be kept aside"):
                theirs.open()
        else:
            assert texts(theirs) == []
        theirs.close()
    assert shown_path.read_bytes() == content
    assert [*shown_path.parent.iterdir()] == [shown_path]


def test_a_folder_that_may_not_be_written_is_named_with_the_remedy(shown_path: Path) -> None:
    with ordinary_user():
        refused = Store(shown_path)
        with pytest.raises(StorageFailed, match="permissions") as caught:
            add(refused, "new")
        refused.close()
    assert str(shown_path) in caught.value.message


def test_a_folder_name_taken_by_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    store = Store(tmp_path / "data" / "ollm.db")
    with pytest.raises(StorageFailed, match="cannot be created") as caught:
        store.open()
    assert "XDG_DATA_HOME" in caught.value.message


def test_a_full_disk_keeps_the_old_content(store: Store) -> None:
    add(store, "old")
    with store.read(NOTES) as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFailed, match="free some space"):
        add(store, "x" * 100_000)
    with store.read(NOTES) as db:
        db.execute("PRAGMA max_page_count = 1000000")
    assert texts(store) == ["old"]
    add(store, "new")
    assert texts(store) == ["old", "new"]


def test_a_limit_on_file_sizes_keeps_the_old_content(path: Path) -> None:
    store = Store(path)
    add(store, "old")
    store.close()
    script = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
{WRITER.split("for number")[0]}
try:
    with store.write(NOTES) as db:
        db.execute("INSERT INTO notes(text) VALUES(?)", ("x" * 200_000,))
except Exception as error:
    print(type(error).__name__, error)
with store.read(NOTES) as db:
    print(db.execute("SELECT text FROM notes").fetchall())
"""
    said = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=False, capture_output=True, text=True, timeout=60
    )
    assert said.stdout.startswith("StorageFailed"), said.stderr
    assert str(path) in said.stdout
    assert said.stdout.endswith("[('old',)]\n")


def test_a_file_kept_locked_is_reported_after_the_wait(path: Path, store: Store) -> None:
    add(store, "old")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = Store(path, busy_seconds=0.1)
    assert texts(waiting) == ["old"]  # reading never waits for a writer
    began = time.monotonic()
    with pytest.raises(StorageFailed, match="locked"):
        add(waiting, "new")
    assert 0.08 < time.monotonic() - began < 20
    other.execute("ROLLBACK")
    other.close()
    add(waiting, "new")
    waiting.close()


def test_a_file_deleted_while_in_use_is_reported_instead_of_written_into_nothing(path: Path, store: Store) -> None:
    add(store, "old")
    path.unlink()
    with pytest.raises(StorageFailed, match="moved or deleted"):
        add(store, "new")


# -- several processes


def test_processes_that_begin_the_file_together_lose_nothing(path: Path) -> None:
    started = [writer(path, 40, name) for name in "abc"]
    for process in started:
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
    store = Store(path)
    assert sorted(texts(store)) == sorted(f"{name} {number}" for name in "abc" for number in range(40))
    store.close()


def test_a_killed_writer_leaves_a_sound_file_with_all_it_reported(path: Path) -> None:
    reported = 0
    for lines in (1, 20, 90):
        process = writer(path, 100_000, "w")
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        reported += lines + process.stdout.read().count("\n")
        process.communicate(timeout=60)
        store = Store(path)
        assert store.open() is None
        with store.read(NOTES) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            kept = db.execute("SELECT count(*) FROM notes").fetchone()[0]
        # One more may have been committed than could be reported, each time.
        assert reported <= kept <= reported + 3
        store.close()


def test_sync_brings_the_log_to_the_disk_and_may_run_beside_a_reader(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    log, folder = path.with_name("ollm.db-wal"), path.parent
    add(store, "one")
    store.sync()
    assert synced == [log.stat().st_ino, folder.stat().st_ino]
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM notes").fetchone() == (1,)
    add(store, "two")
    store.sync()
    assert synced[2:] == [log.stat().st_ino]
    assert other.execute("SELECT count(*) FROM notes").fetchone() == (1,)
    other.execute("COMMIT")
    other.close()
    store.close()
    again = Store(path)
    assert texts(again) == ["one", "two"]
    again.sync()
    again.close()


# -- change notices


def test_only_others_changes_are_noticed_and_each_once(path: Path, store: Store) -> None:
    add(store, "own")
    watch = ChangeWatch(store)
    other = Store(path)
    assert not watch.changed()
    add(store, "own again")
    assert not watch.changed()
    add(other, "theirs")
    assert watch.changed()
    assert not watch.changed()
    for number in range(20):  # many within one tick of the file system's clock
        add(other, str(number))
        assert watch.changed()
    other.close()


def test_an_untouched_file_costs_a_look_at_its_stamp_only(path: Path, store: Store) -> None:
    add(store, "own")
    watch = ChangeWatch(store, clock=FakeClock(datetime(2099, 1, 1, tzinfo=UTC)))  # long after the last write
    assert not watch.changed()
    looked = threading.Event()
    store.data_version = lambda: looked.set() or 0  # type: ignore[method-assign]  # counts the looks
    assert not watch.changed()
    assert not looked.is_set()


async def test_the_watch_tells_of_changes_while_wanted_and_ends_when_cancelled(path: Path, store: Store) -> None:
    add(store, "own")
    ticks: asyncio.Queue[None] = asyncio.Queue()
    told: list[int] = []
    wanted = True
    sleeping = asyncio.Event()

    async def sleep(_: float) -> None:
        sleeping.set()
        await ticks.get()

    async def tick() -> None:
        sleeping.clear()
        ticks.put_nowait(None)
        await sleeping.wait()

    watching = asyncio.create_task(watch_changes(store, lambda: told.append(1), wanted=lambda: wanted, sleep=sleep))
    await sleeping.wait()
    other = Store(path)
    await asyncio.to_thread(add, other, "theirs")
    await tick()
    assert told == [1]
    await tick()
    assert told == [1]
    wanted = False
    await asyncio.to_thread(add, other, "more")
    await tick()
    assert told == [1]
    wanted = True
    await tick()
    assert told == [1, 1]
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    other.close()
