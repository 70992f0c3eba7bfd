"""The cage of what only looks: landlock and a seccomp filter on the thread that starts it (contract section 8)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias, TypeVar

from ollm_tui.core.sandbox.code_turns import LookTurn
from ollm_tui.core.sandbox.git_attributes import CREDENTIAL_ATTRIBUTES, credential_attributes
from ollm_tui.core.sandbox.landlock import FileRights, Ruleset, abi
from ollm_tui.core.sandbox.private_folder import PrivateFolder, empty_folder, give_back
from ollm_tui.core.sandbox.restricted_thread import RestrictedThread, ends_what_it_starts

Started = TypeVar("Started")
Start: TypeAlias = Callable[[Mapping[str, str]], Started]

MOST_RULESETS, MOST_RESTRICTIONS = 4, 32
"""Rulesets that are kept, and commands that each serves: it holds on to what was granted to them."""

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
    "gpg.program": "false",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "diff.submodule": "short",  # another git would print it, which gets none of these
    "safe.directory": "*",  # what the person trusts stands in their home; here it can do no harm
}
"""Settings of git that start a program or a connection, each with a value that does not.

`diff.external` is not among them: whatever stands there is run, an empty value fails (git 2.39). A repository that has
it asks before a command looks at it.
"""

GIT_ENVIRONMENT = {
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",  # what is mounted in a cage lies below the repository on this machine
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_CONFIG_COUNT": str(len(_GIT)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(_GIT)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(_GIT.values())},
}
"""What wins over every configuration file of git."""


def git_environment(attributes: str) -> dict[str, str]:
    """Return GIT_ENVIRONMENT, with a file of attributes where one is named."""
    if not attributes:
        return GIT_ENVIRONMENT
    number = len(_GIT)
    own = {f"GIT_CONFIG_KEY_{number}": "core.attributesFile", f"GIT_CONFIG_VALUE_{number}": attributes}
    return {**GIT_ENVIRONMENT, **own, "GIT_CONFIG_COUNT": str(number + 1)}


@dataclass
class LookCage:
    """A cage in which some directories, the system and the programs of PATH can be read, and nothing written.

    It is for one command, which gets a private directory for temporary files that is its HOME as well.
    """

    readable: Sequence[Path]
    """Directories whose contents can be read; a repository that they lie in can be read by git."""
    ignored: bytes = b""
    """Patterns of files that the person has git ignore in every repository."""
    attributes: bytes = b""
    """What git shows of files, over all that a person or system configured."""
    judged: int | None = None
    """The moment of CODE_TURNS at which its command was judged by its paths."""
    passed: tuple[int, ...] = ()
    _turn: LookTurn = field(default_factory=LookTurn, init=False)
    _private: PrivateFolder | None = field(default=None, init=False)
    _ruleset: Ruleset | None = field(default=None, init=False)
    _thread: RestrictedThread | None = field(default=None, init=False)

    @property
    def ends_alone(self) -> bool:
        """Whether all that it holds ends with this program."""
        return ends_what_it_starts()

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
            OSError: The kernel refused a restriction, or code has run since it was judged; nothing was started.
        """
        self._turn.begin(self.judged)
        self._private = empty_folder()
        private = str(self._private.path)
        attributes = self._attributes_in(self._private.path)
        toolchains = toolchains_of(environment.get("HOME", ""))
        caged = {
            **toolchains,
            **environment,
            **git_environment(attributes),
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
        watched = dict.fromkeys((*map(str, self.readable), *program_paths(environment)), FileRights.READ)
        for path, rights in chain.from_iterable(map(repository_paths, self.readable)):
            watched[path] = watched.get(path, rights) | rights
        if attributes:
            watched.setdefault(str(CREDENTIAL_ATTRIBUTES), FileRights.READ_FILE)
        self._ruleset = _RULESETS.take(watched)
        self._ruleset.grant(private, _PRIVATE)
        if terminal is not None:
            self._ruleset.grant(terminal, TERMINAL)
        self._thread = RestrictedThread(self._ruleset)
        return self._thread.start(lambda: start(caged))

    def _attributes_in(self, private: Path) -> str:
        """Return the path of a file with the attributes; those of credentials alone need none of their own."""
        if not self.attributes or self.attributes == credential_attributes():
            return str(CREDENTIAL_ATTRIBUTES) if self.attributes else ""
        file = private / "attributes"
        file.write_bytes(self.attributes)
        return str(file)

    def end(self) -> None:
        """End what the command left running."""
        if self._thread is not None:
            self._thread.end()

    def close(self) -> None:
        """Remove the private directory, once the command is over."""
        self.end()
        self._turn.end()
        if self._ruleset is not None:
            ruleset, self._ruleset = self._ruleset, None
            _RULESETS.give_back(ruleset)
        if self._private is not None:
            folder, self._private = self._private, None
            give_back(folder) if self.ends_alone else folder.close()


class _Rulesets:
    """Rulesets of what all cages with the same directories may use, kept for the next command.

    Each is for one command at a time: the directory and the terminal of one that still runs are not the next one's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[tuple[dict[str, FileRights], Ruleset]] = []
        self._taken: dict[Ruleset, dict[str, FileRights]] = {}

    def take(self, watched: dict[str, FileRights]) -> Ruleset:
        """Return one of the system's paths and these. Raises LandlockError."""
        with self._lock:
            found = next((entry for entry in self._free if entry[0] == watched), None)
            if found is not None:
                self._free.remove(found)
        if found is not None and found[1].is_current(watched):
            ruleset = found[1]
        else:
            ruleset = Ruleset((*system_paths(), *watched.items()))
            if found is not None:
                found[1].close()
        with self._lock:
            self._taken[ruleset] = watched
        return ruleset

    def give_back(self, ruleset: Ruleset) -> None:
        """Keep it for the next command, unless it has served often or others are kept."""
        with self._lock:
            self._free.append((self._taken.pop(ruleset), ruleset))
            spare = len(self._free) > MOST_RULESETS
            dropped = self._free.pop(0 if spare else -1) if spare or ruleset.restrictions >= MOST_RESTRICTIONS else None
        if dropped is not None:
            dropped[1].close()


_RULESETS = _Rulesets()


@lru_cache(maxsize=1)
def works() -> bool:
    """Return whether this kernel has what the cage needs; tried once, by a thread that restricts itself."""
    if sys.platform != "linux" or not abi():
        return False
    try:
        ruleset = Ruleset(())
        try:
            thread = RestrictedThread(ruleset)
            thread.start(lambda: None)
            thread.end()
        finally:
            ruleset.close()
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
    roots = (str(folder), *map(str, folder.parents))
    root = next((each for each in roots if os.path.lexists(os.path.join(each, ".git"))), None)
    if root is None:
        return
    link = os.path.join(root, ".git")
    is_link = os.path.islink(link)
    if root != roots[0]:
        yield root, FileRights.READ_DIR
        yield os.path.join(root, ".gitignore"), FileRights.READ_FILE
        yield os.path.join(root, ".gitattributes"), FileRights.READ_FILE
        if os.path.isdir(link) and not is_link:
            yield link, FileRights.READ
    if is_link or not os.path.isfile(link):
        return
    with suppress(OSError, ValueError):
        own = os.path.join(root, Path(link).read_text("utf-8").removeprefix("gitdir:").strip())
        back = Path(own, "gitdir").read_text("utf-8").strip()
        common = os.path.realpath(os.path.join(own, Path(own, "commondir").read_text("utf-8").strip()), strict=True)
        if os.path.samefile(back, link) and os.path.samefile(os.path.join(own, ".."), f"{common}/worktrees"):
            yield common, FileRights.READ
