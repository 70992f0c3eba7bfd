"""Change files wholly or not at all: ordered per path, and whole at every moment (001 R3, 000 Property 48).

Work is done by the descriptor of the directory, which the fence has checked; no path is resolved again.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import platform
import secrets
import stat
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FileWriteFailed, OperationCancelled
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.openat import system_call

_SHORT_NAME = 200
_MOST_NAMES = 10_000
"""Names of a directory among which a killed writer's temporary file is searched."""
_AT_ONCE = 512
"""Buffers in one `writev`; systems allow 1024."""
_RENAME_NOREPLACE = 1
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "loongarch64": 276, "ppc64le": 357, "s390x": 347}


def replace_file(
    directory: int,
    name: str,
    pieces: Sequence[bytes | memoryview],
    *,
    like: os.stat_result | None = None,
    mode: int | None = None,
    before_commit: Callable[[], object] | None = None,
    sync: bool = True,
) -> os.stat_result:
    """Put `pieces`, one after the other, in the place of `name`; returns the status of the new file.

    `like` is the status of the file that is replaced: its permissions and, where that is permitted, its owner
    and extended attributes are kept. Without it the file is new, gets what the umask leaves, and must not exist.
    `mode` are other permissions for it, which it has from its first moment on. Without `sync` the caller brings
    it to the disk, with others at once.
    `before_commit` is called when all is written and may raise to leave everything as it was.
    Raises OSError: FileExistsError when a new file's name is taken; the old content then stays.
    """
    temporary, descriptor = _open_temporary(directory, name)
    try:
        _write_all(descriptor, pieces)
        if like is None:
            os.fchmod(descriptor, 0o666 & ~_umask() if mode is None else mode)
        else:
            _take_after(descriptor, directory, name, like)
            if mode is not None:
                os.fchmod(descriptor, mode)
        if sync:
            os.fsync(descriptor)
        written = os.fstat(descriptor)
        if before_commit is not None:
            before_commit()
        if like is None:
            rename_without_replacing(directory, temporary, directory, name)
        else:
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):  # what went wrong first is what the caller has to hear
            os.unlink(temporary, dir_fd=directory)
        raise
    finally:
        os.close(descriptor)
    if sync:
        sync_directory(directory)
    return written


def rename_without_replacing(source_directory: int, source: str, directory: int, name: str) -> None:
    """Rename, raising FileExistsError where `name` is taken, without a moment between the look and the act."""
    number = _RENAMEAT2.get(platform.machine()) if sys.platform == "linux" else None
    if number is not None:
        old, new = os.fsencode(source), os.fsencode(name)
        returned, code = system_call(number, source_directory, old, directory, new, _RENAME_NOREPLACE)
        if returned == 0:
            return
        if code not in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
            raise OSError(code, os.strerror(code))
    _rename_by_link(source_directory, source, directory, name)


def sync_directory(directory: int) -> None:
    """Make renames in it last. Some file systems cannot, and one opened without reading rights may not."""
    with suppress(OSError):
        os.fsync(directory)


def check_writable(directory: int, name: str) -> None:
    """Raise PermissionError where the file may not be written; renaming over it would ignore that."""
    if not os.access(name, os.W_OK, dir_fd=directory, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, "it is write-protected")


def _open_temporary(directory: int, name: str) -> tuple[str, int]:
    """Open a fresh file beside `name`, locked as long as it is open, and remove those of killed writers."""
    stem = name if len(os.fsencode(name)) <= _SHORT_NAME else hashlib.sha256(os.fsencode(name)).hexdigest()
    _remove_abandoned(directory, f".{stem}.ollm-")
    while True:
        temporary = f".{stem}.ollm-{secrets.token_hex(8)}.tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # before it was locked, another process took it for an abandoned one


def _remove_abandoned(directory: int, start: str) -> None:
    """Remove temporary files that nobody has open; a writer holds the lock of its own until it is renamed."""
    with suppress(OSError), os.scandir(directory) as entries:
        names = (entry.name for entry in islice(entries, _MOST_NAMES))
        for name in [name for name in names if name.startswith(start) and name.endswith(".tmp")]:
            with suppress(OSError):
                _unlink_unlocked(directory, name)


def _unlink_unlocked(directory: int, name: str) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, pieces: Sequence[bytes | memoryview]) -> None:
    waiting = [memoryview(piece) for piece in pieces if len(piece)]
    while waiting:
        done = os.writev(descriptor, waiting[:_AT_ONCE])
        while waiting and done >= len(waiting[0]):
            done -= len(waiting.pop(0))
        if done:
            waiting[0] = waiting[0][done:]


def _take_after(descriptor: int, directory: int, name: str, like: os.stat_result) -> None:
    """Owner before permissions: changing the owner clears bits. Set-uid bits do not survive a change of content."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o1777)
    _copy_attributes(descriptor, directory, name)


def _copy_attributes(descriptor: int, directory: int, name: str) -> None:
    if sys.platform != "linux":
        return
    with suppress(OSError):  # not every file system has them, and some may only be set by root
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            for attribute in os.listxattr(old):
                with suppress(OSError):
                    os.setxattr(descriptor, attribute, os.getxattr(old, attribute))
        finally:
            os.close(old)


def _rename_by_link(source_directory: int, source: str, directory: int, name: str) -> None:
    """Return where the kernel or file system has no such rename: a hard link never replaces anything either."""
    status = os.stat(source, dir_fd=source_directory, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode):
        try:
            os.link(source, name, src_dir_fd=source_directory, dst_dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise
        else:
            os.unlink(source, dir_fd=source_directory)
            return
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, name, src_dir_fd=source_directory, dst_dir_fd=directory)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _umask() -> int:
    """Return the umask; on Linux without setting it, which other threads would see."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def replace_text(path: Path, text: str) -> None:
    """Put `text` in the place of the file; a new one gets mode 0600 and its directories are made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    real = path.resolve()  # a link that a person set up (a dotfiles directory) stays one
    directory = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            like = os.stat(real.name, dir_fd=directory)
        except FileNotFoundError:
            like = None
        replace_file(directory, real.name, [text.encode()], like=like)
        if like is None:
            os.chmod(real.name, 0o600, dir_fd=directory)
    finally:
        os.close(directory)


T = TypeVar("T")
P = ParamSpec("P")

LOCK_SECONDS = 10.0
"""How long a call waits for another process that holds its file."""

GRACE_SECONDS = 2.0
"""How long a cancelled call waits for its thread to reach the next point where it looks at the signal."""

_locks: WeakValueDictionary[tuple[int, Path], asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def exclusive(signal: AbortSignal, *paths: Path) -> AsyncGenerator[None]:
    """Hold files alone: first come, first served among this loop's calls, and among all processes by a lock.

    A file that is not there yet has no lock: only one process can create it. Raises OperationCancelled when the
    signal aborts first, FileWriteFailed after LOCK_SECONDS.
    """
    loop = id(asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        held: set[tuple[int, int]] = set()
        for path in sorted(set(paths)):  # one order for all, or two moves could wait for each other
            lock = _locks.setdefault((loop, path), asyncio.Lock())
            await signal.guard(lock.acquire())
            stack.callback(lock.release)
            descriptor = await _without_leak(asyncio.to_thread(_lock_file, path, held, signal))
            if descriptor is not None:
                stack.callback(os.close, descriptor)
        yield


async def _without_leak(locking: Coroutine[Any, Any, int | None]) -> int | None:
    """Await a descriptor that is closed where nobody waits for it any more."""
    work = asyncio.ensure_future(locking)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(_close_result)
        raise


def _close_result(work: asyncio.Future[int | None]) -> None:
    if not work.cancelled() and work.exception() is None and (descriptor := work.result()) is not None:
        os.close(descriptor)


def _lock_file(path: Path, held: set[tuple[int, int]], signal: AbortSignal) -> int | None:
    """Return a descriptor that holds the lock of the file now at `path`; None where there is nothing to lock.

    The lock is the file's own (`flock`), so that it needs no place beside it and ends with its process. Whoever
    held it before may have put another file in place, so what is there is compared once it is locked.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    pause = 0.001
    while (descriptor := _open_to_lock(path)) is not None:
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        try:
            if identity in held:  # another name of a file that this call has locked
                os.close(descriptor)
                return None
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _identity(path) == identity:
                held.add(identity)
                return descriptor
            pause = 0.0
        except BlockingIOError:
            pause = min(2 * pause + 0.001, 0.02)
        except OSError:
            return descriptor  # a file system without locks
        os.close(descriptor)
        signal.throw_if_aborted()
        if time.monotonic() > deadline:
            raise FileWriteFailed(
                f"{visible(str(path))} has been locked by another program for {LOCK_SECONDS:g} s. Nothing was changed; "
                "try again once that program has ended.",
                {"path": str(path)},
            )
        time.sleep(pause)  # no wait for this kind of lock can be given up
    return None


def _open_to_lock(path: Path) -> int | None:
    """Open a regular file for its lock alone: for reading, or for writing where it may not be read."""
    for access in (os.O_RDONLY, os.O_WRONLY):
        with suppress(OSError):
            descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
    return None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


async def carry_out(signal: AbortSignal, effect: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an effect in a thread and know how it ended, also when the call is given up meanwhile.

    `effect` calls `signal.throw_if_aborted` before each step that cannot be taken back; it is then either done (its
    result is returned) or it raises OperationCancelled and has changed nothing. Only an effect that the system itself
    holds up for longer than GRACE_SECONDS is left behind, and its OperationCancelled says so.
    """
    signal.throw_if_aborted()
    work = asyncio.ensure_future(asyncio.to_thread(effect, *args, **kwargs))
    work.add_done_callback(_take_outcome)
    try:
        return await signal.guard(asyncio.shield(work))
    except (OperationCancelled, asyncio.CancelledError) as given_up:
        await asyncio.wait({work}, timeout=GRACE_SECONDS)
        if isinstance(given_up, asyncio.CancelledError):
            raise
        if work.done():
            return work.result()
        reason = "the file system did not answer; the change may still be made"
        raise OperationCancelled(f"{signal.reason}; {reason}" if signal.reason else reason) from None


def _take_outcome(work: asyncio.Future[T]) -> None:
    """Look at the outcome, so that asyncio does not report an exception that nobody is left to be told about."""
    if not work.cancelled():
        work.exception()
