"""What of a git repository listings need, read from its files: no program and no configured hook is run."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ollm_tui.core.search.ignore_files import MAX_RULE_FILE_BYTES

_MAX_INDEX_BYTES = 500_000_000
_MAX_CONFIG_BYTES = 1_000_000
_INCLUDE_DEPTH = 10


@dataclass(frozen=True)
class TrackedFiles:
    """The names in a repository's index, sorted as bytes and relative to its root."""

    names: tuple[bytes, ...] = ()

    def holds(self, name: bytes) -> bool:
        """Return whether a file is tracked."""
        position = bisect_left(self.names, name)
        return position < len(self.names) and self.names[position] == name

    def holds_below(self, directory: bytes) -> bool:
        """Return whether anything in `directory` (with a slash behind) is tracked."""
        position = bisect_left(self.names, directory)
        return position < len(self.names) and self.names[position].startswith(directory)


NOTHING_TRACKED = TrackedFiles()


@dataclass(frozen=True)
class Repository:
    """A working tree. `root` and `git_dir` are absolute with a slash behind; so is `common_dir` (worktrees)."""

    root: bytes
    git_dir: bytes
    common_dir: bytes

    @classmethod
    def at(cls, root: bytes) -> Repository | None:
        """Return the repository whose working tree starts in `root`; None where there is none."""
        git_dir = _git_directory(root)
        if git_dir is None or not os.path.lexists(git_dir + b"HEAD"):
            return None
        common = git_dir
        pointer = read_file(git_dir + b"commondir", _MAX_CONFIG_BYTES)
        if pointer is not None:
            common = os.path.normpath(os.path.join(git_dir, pointer.strip())) + b"/"
        if not (os.path.isdir(common + b"objects") and os.path.isdir(common + b"refs")):
            return None
        return cls(root, git_dir, common)

    @classmethod
    def around(cls, directory: bytes) -> Repository | None:
        """Return the innermost repository that `directory` (absolute, real, with a slash behind) lies in."""
        place = directory
        while True:
            if os.path.lexists(place + b".git"):
                found = cls.at(place)
                if found is not None:
                    return found
            if place == b"/":
                return None
            place = os.path.dirname(place[:-1])
            place = place if place.endswith(b"/") else place + b"/"

    @property
    def exclude_file(self) -> bytes:
        """The repository's own exclude file."""
        return self.common_dir + b"info/exclude"

    def tracked(self) -> TrackedFiles:
        """Return what the index names, nothing where it is not readable; kept until the file changes."""
        path = self.git_dir + b"index"
        try:
            status = os.stat(path)
        except OSError:
            return NOTHING_TRACKED
        settings = dict(_settings(self.common_dir + b"config"))
        hash_size = 32 if settings.get(b"extensions.objectformat", b"").lower() == b"sha256" else 20
        return _read_index(path, hash_size, status.st_mtime_ns, status.st_size, status.st_ino)

    def ignores_case(self) -> bool:
        """`core.ignorecase`, which git sets where the file system does not tell cases apart."""
        values = [value for key, value in _settings(self.common_dir + b"config") if key == b"core.ignorecase"]
        return bool(values) and values[-1].lower() in (b"true", b"yes", b"on", b"1", b"")


def default_exclude_file() -> bytes | None:
    """Return where git looks for excludes when `core.excludesFile` is not set."""
    home = os.environb.get(b"HOME", b"")
    directory = os.environb.get(b"XDG_CONFIG_HOME") or (os.path.join(home, b".config") if home else b"")
    return os.path.join(directory, b"git/ignore") if directory else None


def global_exclude_file(repository: Repository | None) -> bytes | None:
    """`core.excludesFile`, or git's default for it; the path need not exist."""
    home = os.environb.get(b"HOME", b"")
    directory = os.environb.get(b"XDG_CONFIG_HOME") or (os.path.join(home, b".config") if home else b"")
    sources = [b"/etc/gitconfig"] if os.environb.get(b"GIT_CONFIG_NOSYSTEM", b"0") in (b"", b"0", b"false") else []
    own = os.environb.get(b"GIT_CONFIG_GLOBAL")
    if own is not None:
        sources.append(own)
    else:
        sources += [os.path.join(directory, b"git/config")] if directory else []
        sources += [os.path.join(home, b".gitconfig")] if home else []
    if repository is not None:
        sources.append(repository.common_dir + b"config")
    found = default_exclude_file()
    for source in sources:
        for key, value in _settings(source):
            if key == b"core.excludesfile":
                found = _expanded(value, home)
    return found or None


def read_file(path: bytes, limit: int = MAX_RULE_FILE_BYTES, *, follow: bool = True) -> bytes | None:
    """Return at most `limit` bytes of a regular file; None for anything else. Never waits for a pipe."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        pieces: list[bytes] = []
        try:
            while limit > 0 and (piece := file.read(min(limit, 1 << 20))):
                pieces.append(piece)
                limit -= len(piece)
        except OSError:
            return None
        return b"".join(pieces)


def _git_directory(root: bytes) -> bytes | None:
    path = root + b".git"
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return path + b"/"
    content = read_file(path, _MAX_CONFIG_BYTES)
    if content is None or not content.startswith(b"gitdir: "):
        return None
    target = os.path.normpath(os.path.join(root, content[len(b"gitdir: ") :].rstrip(b"\r\n")))
    return target + b"/" if os.path.isdir(target) else None


@lru_cache(maxsize=8)
def _read_index(path: bytes, hash_size: int, _changed: int, _size: int, _inode: int) -> TrackedFiles:
    data = read_file(path, _MAX_INDEX_BYTES)
    if data is None or data[:4] != b"DIRC":
        return NOTHING_TRACKED
    try:
        names = list(_index_names(data, hash_size))
    except (IndexError, ValueError):
        return NOTHING_TRACKED
    link = _extension(data, b"link")
    if link is not None:
        # A split index: the entries here replace or add to those of a shared file; both count as tracked.
        shared = os.path.join(os.path.dirname(path), b"sharedindex." + link[:hash_size].hex().encode())
        base = read_file(shared, _MAX_INDEX_BYTES)
        if base is not None and base[:4] == b"DIRC":
            names += _index_names(base, hash_size)
    return TrackedFiles(tuple(sorted(filter(None, names))))


def _index_names(data: bytes, hash_size: int) -> Iterator[bytes]:
    """Yield the names of an index of version 2, 3 or 4. Raises IndexError, ValueError."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in (2, 3, 4):
        raise ValueError(f"index version {version}")
    header = 40 + hash_size + 2
    position, name = 12, b""
    find = data.index
    for _ in range(count):
        start = position + header
        if data[start - 2] & 0x40 and version > 2:
            start += 2
        if version < 4:
            end = find(b"\0", start)
            yield data[start:end]
            position += (end - position + 8) & ~7
        else:
            dropped, start = _variable_length(data, start)
            end = find(b"\0", start)
            name = name[: len(name) - dropped] + data[start:end]
            yield name
            position = end + 1


def _variable_length(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, position + 1


def _extension(data: bytes, wanted: bytes) -> bytes | None:
    """Return the content of an index extension, found by its tag: the entries before it vary in length."""
    position = data.find(wanted, 12)
    while position >= 0:
        size = int.from_bytes(data[position + 4 : position + 8], "big")
        if 20 <= size <= len(data) - position - 8 - 20:
            return data[position + 8 : position + 8 + size]
        position = data.find(wanted, position + 1)
    return None


def _settings(path: bytes, depth: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """Key and value pairs of a git configuration file, files it includes in their place; conditions are not read."""
    data = read_file(path, _MAX_CONFIG_BYTES)
    if data is None:
        return
    section = b""
    for line in data.removeprefix(b"\xef\xbb\xbf").replace(b"\\\n", b"").splitlines():
        text = line.strip()
        if text.startswith(b"["):
            name, _, text = text[1:].partition(b"]")
            section, text = name.strip().lower(), text.strip()
        if not text or text[:1] in (b"#", b";"):
            continue
        key, has_value, value = text.partition(b"=")
        full_key = section + b"." + key.strip().lower()
        value = _unquoted(value.strip()) if has_value else b"true"
        if full_key == b"include.path" and depth < _INCLUDE_DEPTH:
            included = _expanded(value, os.environb.get(b"HOME", b""))
            yield from _settings(os.path.join(os.path.dirname(path), included), depth + 1)
        else:
            yield full_key, value


_ESCAPED = {b"n": b"\n", b"t": b"\t", b"b": b"\b"}


def _unquoted(value: bytes) -> bytes:
    """Return a configuration value without quotes, escapes and a comment behind it."""
    out, quoted, position, kept = b"", False, 0, 0
    while position < len(value):
        char = value[position : position + 1]
        if char == b"\\":
            following = value[position + 1 : position + 2]
            out, position = out + _ESCAPED.get(following, following), position + 2
            kept = len(out)
            continue
        if char == b'"':
            quoted, kept = not quoted, len(out)
        elif char in (b"#", b";") and not quoted:
            break
        else:
            out += char
            kept = len(out) if quoted or not char.isspace() else kept
        position += 1
    return out[:kept]


def _expanded(path: bytes, home: bytes) -> bytes:
    return home + path[1:] if path.startswith(b"~/") and home else path
