"""Seccomp: which system calls a thread, and whatever it starts, may make.

A filter is a program for the kernel's classic BPF machine (`linux/filter.h`, `linux/seccomp.h`), applied to the number
of each call and to the lower halves of its arguments.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where `struct seccomp_data` has them; both machines are little-endian."""
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_X32 = 0x40000000
"""Set in the numbers of the x32 interface, which would get around a table of x86-64's."""

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The audit number of each machine, and its column below."""

_NEW_NAMESPACES = 0x7E020000
"""Flags of `clone` that make namespaces: with a user namespace of its own a process is root in it."""

_TYPING = (0x5412, 0x541C)
"""TIOCSTI types into a terminal, TIOCLINUX pastes into a console."""

_ATTRIBUTES = (
    0x40086602, 0x40046602,  # FS_IOC_SETFLAGS: attributes, changed through a descriptor open for reading
    0x401C5820,  # FS_IOC_FSSETXATTR
    0xC0045877, 0xC0045878,  # FIFREEZE, FITHAW
)  # fmt: skip

READING_ONLY: dict[str, tuple[int | None, int | None]] = {
    # the file system's metadata, which landlock leaves alone
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "truncate": (76, 45), "file_setattr": (469, 469),
    # every socket but the two ends of a socketpair; what is shared without a file
    "socket": (41, 198), "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "mq_open": (240, 180), "mq_unlink": (241, 181),
    # other processes, which no namespace hides
    "setpriority": (141, 140), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # a root directory of its own
    "chroot": (161, 51),
}  # fmt: skip
"""Refused with EPERM in the cage that only reads; numbers of x86-64 and of arm64."""

_TIMES = ("utime", "utimes", "futimesat", "utimensat")

ALWAYS: dict[str, tuple[int | None, int | None]] = {
    # into other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "process_mrelease": (448, 448),
    # ways around, and parts of the kernel with a history
    "unshare": (272, 97), "setns": (308, 268), "pivot_root": (155, 41), "mount": (165, 40),
    "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "lookup_dcookie": (212, 18), "fanotify_init": (300, 262),
    # the machine itself, for who is root
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116), "iopl": (172, None),
    "ioperm": (173, None), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
}  # fmt: skip
"""Refused with EPERM in every cage."""

ABSENT = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435}
"""Refused with ENOSYS, so that programs take the older way: a filter cannot see what these are asked for."""

SIGNALS: dict[str, tuple[int, int]] = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
}  # fmt: skip

_CLONE, _IOCTL, _PRLIMIT = (56, 220), (16, 29), (302, 261)


class SeccompError(OSError):
    """The kernel refused the filter; nothing may be started in this thread."""


@lru_cache(maxsize=4)
def look_filter(*, signals: bool, times: bool = False) -> bytes:
    """Return the filter for programs that only read.

    Args:
        signals: Whether signals may be sent, because landlock keeps them within the cage.
        times: Whether times of files may be set, which programs do that write.

    Raises:
        SeccompError: There is no table for this machine.
    """
    column = _machine()[1]
    reading = (row for name, row in READING_ONLY.items() if not (times and name in _TIMES))
    refused = (*ALWAYS.values(), *reading, *(() if signals else SIGNALS.values()))
    return _filter(
        refused,
        ABSENT,
        _when_argument(_CLONE[column], 0, [(_ANY_BIT, _NEW_NAMESPACES, 0)]),
        _when_argument(_IOCTL[column], 1, [(_EQUAL, command, 0) for command in (*_TYPING, *_ATTRIBUTES)]),
        _when_argument(_PRLIMIT[column], 0, [(_EQUAL, 0, 1)]),  # limits of any process but itself
    )


@lru_cache(maxsize=1)
def work_filter() -> bytes:
    """Return the filter for programs that write in namespaces of their own. Raises SeccompError as `look_filter`."""
    absent = {name: number for name, number in ABSENT.items() if name.startswith("io_uring")}
    typing = _when_argument(_IOCTL[_machine()[1]], 1, [(_EQUAL, command, 0) for command in _TYPING])
    return _filter(ALWAYS.values(), absent, typing)


@lru_cache(maxsize=2)
def work_policy(*, local_sockets: bool) -> str:
    """Return what `work_filter` refuses in the language of kafel, and new user namespaces besides.

    Args:
        local_sockets: Whether sockets with a path may be opened.
    """
    column = _machine()[1]
    absent = ", ".join(f"SYSCALL[{number}]" for number in ABSENT.values())
    refused = ", ".join(f"SYSCALL[{number}]" for row in ALWAYS.values() if (number := row[column]) is not None)
    typing = " || ".join(f"b == {command}" for command in _TYPING)
    arguments = f"ioctl(a, b) {{ {typing} }}, clone(f) {{ (f & {_NEW_NAMESPACES}) != 0 }}"
    arguments += "" if local_sockets else ", socket(a) { a == 1 }"
    rules = f"ERRNO({errno.ENOSYS}) {{ {absent} }}, ERRNO({errno.EPERM}) {{ {refused}, {arguments} }}"
    return f"POLICY a {{ {rules} }} USE a DEFAULT ALLOW"


def _machine() -> tuple[int, int]:
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise SeccompError(errno.ENOSYS, f"no table of system calls for {platform.machine()}")
    return machine


def _filter(
    refused: Iterable[tuple[int | None, int | None]], absent: Mapping[str, int], *by_argument: tuple[int, bytes]
) -> bytes:
    architecture, column = _machine()
    blocks = dict(by_argument)
    blocks |= {number: _refuse(errno.EPERM) for row in refused if (number := row[column]) is not None}
    blocks |= dict.fromkeys(absent.values(), _refuse(errno.ENOSYS))
    allow = _statement(_RETURN, _ALLOW)
    starts = {0: allow}
    for number in sorted(blocks):
        starts |= {number: blocks[number], number + 1: allow}
    starts[_X32] = _refuse(errno.ENOSYS)
    ranges = [next(same) for _, same in groupby(starts.items(), key=itemgetter(1))]
    return b"".join(
        (
            _statement(_LOAD, _ARCHITECTURE),
            _jump(_EQUAL, architecture, 1, 0),
            _statement(_RETURN, _KILL_PROCESS),
            _statement(_LOAD, _NUMBER),
            _search(ranges),
        )
    )


def _search(ranges: Sequence[tuple[int, bytes]]) -> bytes:
    """Return the part that finds what is done with a number by halves, from each range's first number.

    The kernel walks through a filter for each of its calls when the filter is applied: a list takes it 0.3 ms.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    low, high = _search(ranges[:middle]), _search(ranges[middle:])
    return _jump(_AT_LEAST, ranges[middle][0], len(low) // 8, 0) + low + high


def apply_filter(program: bytes) -> None:
    """Put the calling thread, and whatever it starts, under a filter for good.

    Raises:
        SeccompError: The kernel refused it.
    """
    import ctypes

    libc = _libc()
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    no_new_privileges = libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if no_new_privileges or libc.prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(header), 0, 0):
        number = ctypes.get_errno()
        raise SeccompError(number, f"seccomp: {os.strerror(number)}")


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _when_argument(number: int, index: int, tests: Iterable[tuple[int, int, int]]) -> tuple[int, bytes]:
    """Return a call with the part that refuses a call by one of its arguments.

    Each test is an operation, its operand, and 1 where the call is refused if it does not hold.
    """
    body = _statement(_LOAD, _ARGUMENTS + 8 * index)
    for operation, operand, negated in tests:
        body += _jump(operation, operand, negated, 1 - negated) + _refuse(errno.EPERM)
    return number, body + _statement(_RETURN, _ALLOW)


def _refuse(error: int) -> bytes:
    return _statement(_RETURN, _ERRNO | error)


def _statement(code: int, operand: int) -> bytes:
    return _jump(code, operand, 0, 0)


def _jump(code: int, operand: int, when: int, otherwise: int) -> bytes:
    """Return an instruction with how many to skip when its test holds, and otherwise."""
    return struct.pack("HBBI", code, when, otherwise, operand)
