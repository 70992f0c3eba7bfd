"""List files: what `git ls-files -co --exclude-standard` would name, in a repository or outside (001 R4).

Paths are bytes; a directory's path ends with a slash. Everything blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from ollm_tui.core.fence.dir_handle import DirectoryCache, DirHandle
from ollm_tui.core.fence.file_identity import CredentialFilter
from ollm_tui.core.fence.protected_paths import ProtectedPatterns
from ollm_tui.core.search.listing_scope import ListingScope, ScopeReader, with_slash

_GIT = b".git"
_DOT = 0x2E
_SLASH = 0x2F

directory_cache = DirectoryCache()
"""Shared by all listings of the process."""


class ListedDirectory(NamedTuple):
    """The listed entries of one directory, unsorted; `half_ignored` are listed for what is tracked in them."""

    path: bytes
    files: list[bytes]
    links: list[bytes]
    directories: list[bytes]
    half_ignored: frozenset[bytes]
    scope: ListingScope


@dataclass(frozen=True)
class ListingOptions:
    """What to list. `skip_credentials` leaves out what nobody may read without being asked."""

    include_hidden: bool = False
    include_ignored: bool = False
    skip_credentials: bool = False
    own_protection: ProtectedPatterns | None = None
    """A person's own list of such files, asked with `skip_credentials`."""
    off_limits: Collection[bytes] = ()
    """Directories that are never entered (with a slash behind)."""
    prefix: tuple[bytes, ...] = ()
    """Only what lies below these directories is wanted, one inside the other from the start on."""
    max_depth: int | None = None
    """So many levels below the start are entered; None for all."""


class Listing:
    """One walk below a directory; outside a repository rules count from `boundary` on. `check` may raise."""

    def __init__(
        self, handle: DirHandle, boundary: bytes, options: ListingOptions, check: Callable[[], object] = lambda: None
    ) -> None:
        self.handle = handle
        self.start = handle.path
        self.options = options
        self.unreadable: list[bytes] = []
        """Directories that could not be read, relative to the start."""
        self.scopes = ScopeReader(handle.path)
        self._check = check
        boundary = with_slash(boundary)
        self._credentials: CredentialFilter | None = None
        if options.skip_credentials:
            self._credentials = CredentialFilter(self.start, boundary, options.own_protection)
        self._scope = ListingScope() if options.include_ignored else self.scopes.above(boundary)

    @property
    def in_repository(self) -> bool:
        """Whether the start lies in a repository."""
        return self._scope.repository is not None

    @property
    def credentials_skipped(self) -> int:
        """How many entries were left out as credentials."""
        return 0 if self._credentials is None else self._credentials.skipped

    def readable(self, paths: list[bytes]) -> list[bytes]:
        """Return the listed paths whose contents may be shown: a few, as each is looked at."""
        return paths if self._credentials is None else self._credentials.readable(self.start, paths)

    def first(self) -> ListedDirectory:
        """Return the directory asked for. Raises OSError."""
        return self._read(self.start, self._scope)

    def enter(self, parent: ListedDirectory, name: bytes) -> ListedDirectory | None:
        """Return a directory in `parent`; None (and noted) where it cannot be read."""
        path = parent.path + name + b"/"
        scope = replace(parent.scope, tracked_only=True) if name in parent.half_ignored else parent.scope
        try:
            return self._read(path, scope)
        except OSError:
            self.unreadable.append(path[len(self.start) :])
            return None

    def files(self, *, links: bool) -> Iterator[bytes]:
        """Yield files (and links) relative to the start, sorted by bytes. Raises OSError."""
        return chain.from_iterable(self._runs(links))

    def directories(self) -> Iterator[ListedDirectory]:
        """Yield every directory, in no order that matters. Raises OSError where the start itself cannot be read."""
        waiting = [self.first()]
        while waiting:
            directory = waiting.pop()
            yield directory
            waiting += filter(None, (self.enter(directory, name) for name in directory.directories))

    def _runs(self, links: bool) -> Iterator[list[bytes]]:
        """Yield the paths in pieces: nearly all files lie in directories without further ones, and come all at once."""
        stack = [self._opened(b"", self.first(), links, 0)]
        while stack:
            prefix, directory, names = stack[-1]
            if not directory.directories:
                stack.pop()
                yield [prefix + name for name in names] if prefix else list(names)
                continue
            before: list[bytes] = []
            inner: ListedDirectory | None = None
            for name in names:
                if name[-1] != _SLASH:
                    before.append(prefix + name)
                    continue
                inner = self.enter(directory, name[:-1])
                if inner is not None:
                    break
            yield before
            if inner is None:
                stack.pop()
            else:
                stack.append(self._opened(inner.path[len(self.start) :], inner, links, len(stack)))

    def _opened(
        self, prefix: bytes, directory: ListedDirectory, links: bool, depth: int
    ) -> tuple[bytes, ListedDirectory, Iterator[bytes]]:
        return prefix, directory, iter(self._ordered(directory, links, depth))

    def _ordered(self, directory: ListedDirectory, links: bool, depth: int) -> list[bytes]:
        """Return the wanted entries in the order of their whole paths: a directory sorts as its name with a slash."""
        if depth < len(self.options.prefix):
            wanted = self.options.prefix[depth]
            return [wanted + b"/"] if wanted in directory.directories else []
        names = directory.files
        if self.options.max_depth is None or depth < self.options.max_depth:
            names = [*names, *(name + b"/" for name in directory.directories)]
        if links and directory.links:
            names = names + directory.links
        return sorted(names)

    def _read(self, path: bytes, scope: ListingScope) -> ListedDirectory:
        self._check()
        entries = directory_cache.of(self.handle, path[len(self.start) :])
        secret = None if self._credentials is None else self._credentials.meet(path, entries.files)
        half_ignored: frozenset[bytes] = frozenset()
        if not self.options.include_ignored:
            scope = self.scopes.of(path, entries, scope)
            entries, half_ignored = self.scopes.without_ignored(path, entries, scope)
        files, links, directories = map(self._without_hidden, entries)
        if self._credentials is not None:
            files = self._credentials.without_other_names(path, self._credentials.kept(path, files, secret))
            links = self._credentials.kept(path, links) if links else links
            directories = self._credentials.kept(path, directories) if directories else directories
        if self.options.off_limits and directories:
            directories = [name for name in directories if path + name + b"/" not in self.options.off_limits]
        return ListedDirectory(path, files, links, directories, half_ignored, scope)

    def _without_hidden(self, names: list[bytes]) -> list[bytes]:
        if not names:
            return names
        if not self.options.include_hidden:
            return [name for name in names if name[0] != _DOT]
        return [name for name in names if name != _GIT] if _GIT in names else names
