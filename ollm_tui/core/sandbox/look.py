"""The cage of what only looks: landlock and a seccomp filter on the thread that starts it (contract section 8).

Domains and filters belong to a thread and pass on to all it starts, so each command gets a thread of its own that
restricts itself, starts the command and ends. The rest of this process stays as free as it was.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias, TypeVar

from ollm_tui.core.sandbox.landlock import FileRights, abi, restrict_thread
from ollm_tui.core.sandbox.private_folder import PrivateFolder
from ollm_tui.core.sandbox.seccomp import apply_filter, look_filter

Started = TypeVar("Started")
Start: TypeAlias = Callable[[Mapping[str, str]], Started]

SCOPED_SIGNALS = 6
"""The version of landlock that keeps signals within the cage."""

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
_PROC = ("meminfo", "cpuinfo", "stat", "uptime", "loadavg", "version", "filesystems", "sys")
_DEVICES = {
    "/dev/null": FileRights.READ_FILE | FileRights.WRITE_FILE | FileRights.TRUNCATE,
    "/dev/zero": FileRights.READ_FILE,
    "/dev/random": FileRights.READ_FILE,
    "/dev/urandom": FileRights.READ_FILE,
    "/dev/tty": FileRights.READ_FILE | FileRights.WRITE_FILE | FileRights.IOCTL_DEVICE,
    # multi-threaded allocators count processors
    "/sys/devices/system/cpu": FileRights.READ_FILE | FileRights.READ_DIR,
}
TERMINAL = FileRights.READ_FILE | FileRights.WRITE_FILE | FileRights.IOCTL_DEVICE
_PRIVATE = (
    FileRights.READ_FILE
    | FileRights.READ_DIR
    | FileRights.WRITE_FILE
    | FileRights.CHANGE_DIR
    | FileRights.REFER
    | FileRights.TRUNCATE
)

ETC_NAMES = """
    alternatives ca-certificates ca-certificates.conf debian_version gitattributes gitconfig group host.conf hostname
    hosts inputrc java ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime lsb-release magic
    magic.mime mime.types nsswitch.conf os-release passwd pki protocols python3 resolv.conf services shells
    ssl/certs ssl/cert.pem ssl/openssl.cnf terminfo timezone
"""
"""What ordinary programs read below /etc; there is more, some of it secret, and root could read that."""

_TOOLCHAINS = {
    ".asdf": "ASDF_DATA_DIR",
    ".nvm": "NVM_DIR",
    ".pyenv": "PYENV_ROOT",
    ".rbenv": "RBENV_ROOT",
    ".rustup": "RUSTUP_HOME",
    ".volta": "VOLTA_HOME",
}
"""Where people have programs in their home, and the variables that lead there from another one."""

_PRIVATE_FOLDERS = ("HOME", "TMPDIR", "TMP", "TEMP")

_GIT = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "safe.directory": "*",  # what the person trusts stands in their home; here it can do no harm
}
"""Settings of git that start a program or a connection, each with a value that does not."""

GIT_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_CONFIG_COUNT": str(len(_GIT)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(_GIT)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(_GIT.values())},
}
"""What wins over every configuration file of git."""


@dataclass
class LookCage:
    """A cage in which some directories, the system and the programs of PATH can be read, and nothing written.

    It is for one command, which gets a private directory for temporary files that is its HOME as well.
    """

    readable: Sequence[Path]
    """Directories whose contents can be read; a repository that they lie in can be read by git."""
    ignored: bytes = b""
    """Patterns of files that the person has git ignore in every repository."""
    passed: tuple[int, ...] = ()
    _private: PrivateFolder | None = field(default=None, init=False)

    def command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        """Return `argv`: the cage is around the thread that starts it."""
        return argv

    def start(self, start: Start[Started], environment: Mapping[str, str], terminal: str | None) -> Started:
        """Call `start` with the command's environment, in a thread that restricted itself before.

        Args:
            start: Starts the command.
            environment: What the command would get outside.
            terminal: The name of the command's own terminal, which it may open.

        Raises:
            OSError: The kernel refused a restriction; nothing was started.
        """
        self._private = PrivateFolder()
        private = str(self._private.path)
        toolchains = toolchains_of(environment.get("HOME", ""))
        caged = {
            **toolchains,
            **environment,
            **GIT_ENVIRONMENT,
            "HOME": private,
            "TMPDIR": private,
            "TMP": private,
            "TEMP": private,
        }
        if self.ignored:
            folder = self._private.path / "git"
            folder.mkdir()
            (folder / "ignore").write_bytes(self.ignored)
            caged["XDG_CONFIG_HOME"] = private
        paths = [
            *system_paths(),
            *((str(path), FileRights.READ) for path in (*self.readable, *program_paths(environment))),
            *chain.from_iterable(map(repository_paths, self.readable)),
            (private, _PRIVATE),
            *(() if terminal is None else ((terminal, TERMINAL),)),
        ]
        return in_restricted_thread(lambda: start(caged), paths)

    def close(self) -> None:
        """Remove the private directory, once the command is over."""
        if self._private is not None:
            self._private.close()


def in_restricted_thread(
    start: Callable[[], Started], paths: Sequence[tuple[str, FileRights]], *, times: bool = False
) -> Started:
    """Return what `start` returns in a thread of its own that can only use these paths. Raises what it raises.

    With `times` those of files can be set.
    """
    result: Future[Started] = Future()

    def run() -> None:
        try:
            restrict_thread(paths)
            apply_filter(look_filter(signals=abi() >= SCOPED_SIGNALS, times=times))
            result.set_result(start())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
            result.set_exception(error)

    thread = threading.Thread(target=run, name="look cage")
    thread.start()
    thread.join()
    return result.result()


@lru_cache(maxsize=1)
def works() -> bool:
    """Return whether this kernel has what the cage needs; tried once, by a thread that restricts itself."""
    if sys.platform != "linux" or not abi():
        return False
    try:
        in_restricted_thread(lambda: None, ())
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def system_paths() -> tuple[tuple[str, FileRights], ...]:
    """Return what every cage may read of the system, with how."""
    etc = (f"/etc/{name}" for name in ETC_NAMES.split())
    return (
        *((path, FileRights.READ) for path in (*SYSTEM_FOLDERS, *etc) if os.path.lexists(path)),
        *kernel_paths(),
    )


def kernel_paths() -> tuple[tuple[str, FileRights], ...]:
    """Return what every cage may use of /proc and /dev, with how."""
    return (*((f"/proc/{name}", FileRights.READ_FILE | FileRights.READ_DIR) for name in _PROC), *_DEVICES.items())


def program_paths(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return where interpreters and the programs of PATH are, unless the system's directories hold them."""
    home = environment.get("HOME", "")
    tools = tuple(toolchains_of(home).values())
    return _program_paths(
        environment.get("PATH", ""), home or "/", tools, (sys.prefix, sys.base_prefix, sys.exec_prefix)
    )


@lru_cache(maxsize=16)
def _program_paths(path: str, home: str, tools: Sequence[str], prefixes: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for each in sorted({*prefixes, *tools, *map(str, _program_folders(path, home))}):
        held = any(each == folder or each.startswith(f"{folder}/") for folder in (*SYSTEM_FOLDERS, *found))
        if not held and not (os.path.islink(each) and os.path.realpath(each).startswith("/usr/")):
            found.append(each)
    return tuple(found)


def _program_folders(path: str, home_name: str) -> tuple[Path, ...]:
    """Return the directories of PATH, and the libraries that lie beside them."""
    home, found = Path(home_name), dict[Path, None]()
    for name in path.split(os.pathsep):
        folder = Path(name)
        if not folder.is_absolute() or folder == home or folder in home.parents:
            continue
        found[folder] = None
        if folder.name in ("bin", "sbin") and folder.parent != home:
            found.update(dict.fromkeys(folder.parent / beside for beside in ("lib", "lib64", "libexec")))
    return tuple(found)


def toolchains_of(home: str) -> dict[str, str]:
    """Return the toolchains of a home directory, by the variable that leads there."""
    return {name: path for folder, name in _TOOLCHAINS.items() if home and os.path.isdir(path := f"{home}/{folder}")}


def repository_paths(folder: Path) -> Iterator[tuple[str, FileRights]]:
    """Yield what git reads of the repository that a directory lies in, beside the directory itself.

    A `.git` file leads elsewhere: it is followed only where git's own record there leads back to it, as for the
    working trees that `git worktree add` makes. Contents of files above the directory stay out of reach.
    """
    root = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    if root is None:
        return
    link = root / ".git"
    if root != folder:
        yield str(root), FileRights.READ_DIR
        yield str(root / ".gitignore"), FileRights.READ_FILE
        yield str(root / ".gitattributes"), FileRights.READ_FILE
        if link.is_dir() and not link.is_symlink():
            yield str(link), FileRights.READ
    with suppress(OSError, ValueError):
        if link.is_file() and not link.is_symlink():
            own = (root / link.read_text("utf-8").removeprefix("gitdir:").strip()).resolve(strict=True)
            back = Path((own / "gitdir").read_text("utf-8").strip())
            common = (own / (own / "commondir").read_text("utf-8").strip()).resolve(strict=True)
            if back.resolve(strict=True) == link.resolve(strict=True) and own.parent == common / "worktrees":
                yield str(common), FileRights.READ
