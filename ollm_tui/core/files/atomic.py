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
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.fence.openat import system_call

_SHORT_NAME = 200
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
    before_commit: Callable[[], object] | None = None,
) -> os.stat_result:
    """Put `pieces`, one after the other, in the place of `name`; returns the status of the new file.

    `like` is the status of the file that is replaced: its permissions and, where that is permitted, its owner
    and extended attributes are kept. Without it the file is new, gets what the umask leaves, and must not exist.
    `before_commit` is called when all is written and may raise to leave everything as it was.
    Raises OSError: FileExistsError when a new file's name is taken; the old content then stays.
    """
    temporary, descriptor = _open_temporary(directory, name)
    try:
        try:
            _write_all(descriptor, pieces)
            if like is None:
                os.fchmod(descriptor, 0o666 & ~_umask())
            else:
                _take_after(descriptor, directory, name, like)
            os.fsync(descriptor)
            written = os.fstat(descriptor)
            if before_commit is not None:
                before_commit()
        finally:
            os.close(descriptor)
        if like is None:
            rename_without_replacing(directory, temporary, directory, name)
        else:
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):  # what went wrong first is what the caller has to hear
            os.unlink(temporary, dir_fd=directory)
        raise
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
    """Open a fresh file beside `name`, locked as long as it is open.

    The first choice is always the same name, so that the next write finds and removes what a killed one left.
    """
    stem = name if len(os.fsencode(name)) <= _SHORT_NAME else hashlib.sha256(os.fsencode(name)).hexdigest()
    for attempt in range(100):
        temporary = f".{stem}.ollm-{'new' if attempt == 0 else secrets.token_hex(4)}.tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        for _ in range(2):
            try:
                descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
            except FileExistsError:
                if not _remove_abandoned(directory, temporary):
                    break
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return temporary, descriptor
    raise FileExistsError(errno.EEXIST, "no free name for a temporary file beside it")


def _remove_abandoned(directory: int, temporary: str) -> bool:
    """Remove a temporary file whose writer is gone; False where somebody still writes it, or it is no such file."""
    try:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, dir_fd=directory)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(temporary, dir_fd=directory)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


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

GRACE_SECONDS = 2.0
"""How long a cancelled call waits for its thread to reach the next point where it looks at the signal."""

_locks: WeakValueDictionary[tuple[int, Path], asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def exclusive(signal: AbortSignal, *places: Path) -> AsyncGenerator[None]:
    """Hold `places` alone, first come, first served. Raises OperationCancelled when the signal aborts first."""
    loop = id(asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        for place in sorted(set(places)):  # one order for all, or two moves could wait for each other
            lock = _locks.setdefault((loop, place), asyncio.Lock())
            await signal.guard(lock.acquire())
            stack.callback(lock.release)
        yield


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
