"""Find programs that a repository's configuration makes git run for a status, log or diff.

A clone never brings such settings, an unpacked archive may. git trusts them wherever the directory belongs to the
user, and no option turns all of them off.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ollm_tui.core.fence.secrets import secrets_in

MAX_BYTES = 1_000_000
MAX_MODULES = 200
"""Sub-modules whose configuration is looked at; git goes into each of them for a status."""

MAX_INDEX_BYTES = 100_000_000
_GITLINK = b"\x00\x00\xe0\x00"
"""The mode, in an index, of what is a repository of its own."""

_NAME_BEHIND_MODE = (38, 40, 50, 52)
"""Where an entry's name begins behind its mode: with a SHA-1 or a SHA-256, without and with further flags."""

_SECTION = re.compile(r'\[\s*([-.\w]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]', re.ASCII)
_SETTING = re.compile(r"([A-Za-z][-A-Za-z0-9]*)\s*(?:=\s*(.*))?\Z", re.DOTALL)
_BUILT_IN = frozenset({"", "true", "false", "yes", "no", "on", "off", "1", "0"})
_RUN_WHILE_LOOKING = re.compile(
    r"diff\.external|diff\..*\.(?:command|textconv)|filter\..*\.(?:clean|process)|include(?:if\..*)?\.path|core\.worktree",
    re.DOTALL,
)
_CONTINUED_COMMENT = re.compile(r"[#;][^\n]*\\\r?$", re.MULTILINE)
_LARGE_FILES = frozenset(
    f"git-lfs {each}"
    for each in ("clean -- %f", "smudge -- %f", "smudge --skip -- %f", "filter-process", "filter-process --skip")
)
"""What `git lfs install` writes."""

_RUN_WHILE_FETCHING = re.compile(
    r"core\.(?:sshcommand|gitproxy)|remote\..*\.(?:uploadpack|vcs)|protocol\..*", re.DOTALL
)
_FETCHES_WHILE_LOOKING = re.compile(r"extensions\.partialclone|remote\..*\.promisor", re.DOTALL)


class ConfiguredSecrets:
    """The passwords and tokens in the configuration of repositories, to be kept out of what a model reads.

    `folders` names directories in the repositories. Reads git's files again when they change; blocks.
    """

    def __init__(self, folders: Callable[[], Sequence[Path]]) -> None:
        self._folders = folders
        self._files: dict[Path, Path] = {}
        self._known: dict[Path, tuple[tuple[int, int, int], dict[str, str]]] = {}

    def mask(self, text: str) -> str:
        """Return the text with `***` in the place of each."""
        for folder in self._folders():
            for secret, shown in self._of(folder).items():
                text = text.replace(secret, shown)
        return text

    def _of(self, folder: Path) -> dict[str, str]:
        try:
            file = self._files.get(folder) or self._files.setdefault(folder, _configuration_of(folder))
            status = file.stat()
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
            known = self._known.get(file)
            if known is None or known[0] != seen:
                known = self._known[file] = (seen, secrets_in(_content(file)))
        except (OSError, ValueError):  # no repository, or nothing that git could read either
            self._files.pop(folder, None)
            return {}
        return known[1]


def _configuration_of(folder: Path) -> Path:
    """Return the configuration of the repository around a directory. Raises FileNotFoundError."""
    for each in (folder, *folder.parents):
        if os.path.lexists(each / ".git"):
            return _common_folder(_own_folder(each)) / "config"
    raise FileNotFoundError(folder)


def holds_secrets(repository: Path) -> bool:
    """Return whether a configuration of the repository, or of a sub-module, holds a password. Blocks."""
    try:
        folder = _common_folder(_own_folder(repository))
        return any(secrets_in(_content(file)) for file in (*_configurations(folder), *_of_modules(folder)))
    except (OSError, ValueError):
        return True  # what cannot be told


def configured_program(repository: Path) -> str | None:
    """Return the setting by which git would run a program in this repository, if any.

    `repository` is the directory that holds `.git`. Reads git's files there; blocks.
    """
    return _configured_within(repository, MAX_MODULES)


def _configured_within(repository: Path, depth: int) -> str | None:
    try:
        if depth < 1:
            raise ValueError("too many repositories lie within each other")
        own = _own_folder(repository)
        folder = _common_folder(own)
        for file in (*_configurations(folder), *_of_modules(folder)):
            found = _suspicious(_settings(_content(file)), file.parent, repository)
            if found is not None:
                return f"git would follow {found} of {os.path.relpath(file, repository)}"
        inner = (_configured_within(path, depth - 1) for path in _repositories_within(repository, own))
        return next(filter(None, inner), None)
    except (OSError, ValueError) as error:
        return f"git's own files in it can not be read ({error})"


def tracked_names(repository: Path) -> Iterator[str]:
    """Yield the paths in a repository's index. Reads git's files; blocks, raises OSError and ValueError."""
    own = _own_folder(repository)
    configuration = _common_folder(own) / "config"
    digest_bytes = 32 if configuration.exists() and "sha256" in _content(configuration).lower() else 20
    for file in index_files(repository):
        try:
            yield from _names_in(_bytes(file, MAX_INDEX_BYTES), digest_bytes)
        except (IndexError, struct.error):
            raise ValueError("an index that ends too early") from None


def index_files(repository: Path) -> list[Path]:
    """Return the files that hold a repository's index. Raises OSError and ValueError."""
    own = _own_folder(repository)
    return [file for file in (own / "index", *own.glob("sharedindex.*")) if file.exists()]


def common_folder(repository: Path) -> Path:
    """Return git's directory that all working trees of a repository share. Raises OSError and ValueError."""
    return _common_folder(_own_folder(repository))


def _names_in(index: bytes, digest_bytes: int) -> Iterator[str]:
    """Yield the names of an index (gitformat-index), whose version 4 shortens each by what it shares with the last."""
    version, count = struct.unpack_from(">II", index, 4)
    position, name = 12, b""
    for _ in range(count):
        flags = position + 40 + digest_bytes
        start = flags + (4 if index[flags] & 0x40 else 2)
        if version == 4:
            byte, start = index[start], start + 1
            dropped = byte & 127
            while byte & 128:
                byte, start = index[start], start + 1
                dropped = (dropped + 1 << 7) | (byte & 127)
            name = name[: len(name) - dropped]
        end = index.index(b"\0", start)
        name = (name if version == 4 else b"") + index[start:end]
        yield os.fsdecode(name)
        position = end + 1 if version == 4 else position + (end - position) // 8 * 8 + 8


def _own_folder(repository: Path) -> Path:
    folder = repository / ".git"
    if not folder.is_file():
        return folder
    pointer = _content(folder).strip()
    if not pointer.startswith("gitdir:"):
        raise ValueError("a .git file that names no folder")
    return repository / pointer.removeprefix("gitdir:").strip()


def _common_folder(own: Path) -> Path:
    """Return where the configuration is; shared between work trees."""
    common = own / "commondir"
    return own / _content(common).strip() if common.is_file() else own


def _repositories_within(repository: Path, own: Path) -> Iterator[Path]:
    """Yield sub-modules listed in the index: a status enters each, whatever .gitmodules says."""
    for file in (own / "index", *own.glob("sharedindex.*")):
        index = _bytes(file, MAX_INDEX_BYTES) if file.exists() else b""
        position = index.find(_GITLINK)
        if position >= 0 and index[4:8] == b"\0\0\0\4":
            raise ValueError("sub-modules in an index of version 4")
        while position >= 0:
            for offset in _NAME_BEHIND_MODE:
                name = index[position + offset : index.find(b"\0", position + offset)]
                if name and (repository / os.fsdecode(name) / ".git").exists():
                    yield repository / os.fsdecode(name)
            position = index.find(_GITLINK, position + 1)


def _configurations(folder: Path) -> list[Path]:
    return [file for file in (folder / "config", folder / "config.worktree") if os.path.lexists(file)]


def _of_modules(folder: Path) -> Iterator[Path]:
    """Yield the configuration files of sub-modules at any depth."""
    found = 0
    for path, folders, files in os.walk(folder / "modules"):
        if "config" in files:
            found += 1
            if found > MAX_MODULES:
                raise ValueError("too many sub-modules")
            yield Path(path, "config")
            folders[:] = [name for name in folders if name == "modules"]


def _content(file: Path) -> str:
    return _bytes(file, MAX_BYTES).decode("utf-8", "replace")


def _bytes(file: Path, most: int) -> bytes:
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        raise ValueError("too large")
    return content


def _settings(text: str) -> dict[str, str]:
    """Return keys in lower case with last values; raises ValueError where git would refuse."""
    found: dict[str, str] = {}
    section = ""
    if _CONTINUED_COMMENT.search(text):  # a comment ends with its line, whatever ends that
        raise ValueError("a comment in its configuration ends in a backslash")
    for line in text.removeprefix("\ufeff").replace("\\\r\n", "").replace("\\\n", "").splitlines():
        rest = line.strip()
        while (header := _SECTION.match(rest)) is not None:
            name, sub = header[1], header[2]
            section = f"{name}.{sub}".lower() if sub is not None else name.lower()
            rest = rest[header.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.match(rest)
        if setting is None or not section:
            raise ValueError("a line of its configuration is none")
        value = re.sub(r"\s+[#;].*\Z", "", setting[2] or "").strip().strip('"')
        found[f"{section}.{setting[1].lower()}"] = value
    return found


def _suspicious(settings: dict[str, str], folder: Path, repository: Path) -> str | None:
    fetches = any(_FETCHES_WHILE_LOOKING.fullmatch(key) for key in settings)
    for key, value in settings.items():
        large_files = key.startswith("filter.lfs.") and value in _LARGE_FILES
        monitor = key == "core.fsmonitor" and value.lower() not in _BUILT_IN
        signatures = key == "log.showsignature" or (
            (key.startswith("pretty.") or key == "format.pretty") and "%" in value and "G" in value
        )
        network = fetches and _RUN_WHILE_FETCHING.fullmatch(key) is not None
        own_tree = key == "core.worktree" and _lies_within(folder / value, repository)  # every sub-module has it
        runs = _RUN_WHILE_LOOKING.fullmatch(key) is not None and not (large_files or own_tree)
        quoted = key in ("core.hookspath", "core.worktree") and not {'"', "\\"}.isdisjoint(value)
        if monitor or signatures or network or runs or quoted:
            return key
    hooks = repository / settings["core.hookspath"] if "core.hookspath" in settings else folder / "hooks"
    return "the hook post-index-change" if os.access(hooks / "post-index-change", os.X_OK) else None


def _lies_within(path: Path, repository: Path) -> bool:
    return path.resolve().is_relative_to(repository.resolve())
