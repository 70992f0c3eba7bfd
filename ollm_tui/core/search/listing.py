"""List files: what `git ls-files -co --exclude-standard` would name, in a repository or outside (001 R4).

Paths are bytes; a directory's path ends with a slash. Everything blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from ollm_tui.core.fence.dir_handle import DirectoryCache, DirectoryEntries, DirHandle
from ollm_tui.core.fence.file_identity import CredentialFilter
from ollm_tui.core.fence.protected_paths import ProtectedPatterns
from ollm_tui.core.search.ignore_files import NO_RULES, IgnoreChain, is_common, rule_file
from ollm_tui.core.search.repository import (
    NOTHING_TRACKED,
    Repository,
    TrackedFiles,
    default_exclude_file,
    global_exclude_file,
    read_file,
)

_GIT = b".git"
_RULES = b".gitignore"
_DOT = 0x2E
_SLASH = 0x2F

directory_cache = DirectoryCache()
"""Shared by all listings of the process."""


@dataclass(frozen=True)
class ListingScope:
    """What decides in a directory which entries are listed."""

    rules: IgnoreChain = field(default=NO_RULES)
    repository: Repository | None = None
    tracked: TrackedFiles = NOTHING_TRACKED
    ignore_case: bool = False
    tracked_only: bool = False
    """In an ignored directory: only what is tracked all the same is listed."""


@dataclass(frozen=True)
class ListedDirectory:
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
        self.start_ignored = False
        """The directory asked for is itself ignored; its content is listed all the same, as it was asked for."""
        self.unreadable: list[bytes] = []
        """Directories that could not be read, relative to the start."""
        self.common = True
        """So far, every lister that knows ignore files would have listed the same: nothing tracked though ignored, no
        rules that are read in different ways. Known for sure after the walk."""
        self._check = check
        boundary = with_slash(boundary)
        self._credentials: CredentialFilter | None = None
        if options.skip_credentials:
            self._credentials = CredentialFilter(self.start, boundary, options.own_protection)
        self._scope = ListingScope() if options.include_ignored else self._scope_above(boundary)

    @property
    def in_repository(self) -> bool:
        """Whether the start lies in a repository."""
        return self._scope.repository is not None

    @property
    def credentials_skipped(self) -> int:
        """How many entries were left out as credentials."""
        return 0 if self._credentials is None else self._credentials.skipped

    @property
    def has_met_credentials(self) -> bool:
        """Whether credentials with other names were met, under which they may have been listed before."""
        return self._credentials is not None and self._credentials.has_met_linked

    def without_other_names(self, paths: list[bytes]) -> list[bytes]:
        """Return the listed paths that are no hard links to credentials which the walk has met after them."""
        if self._credentials is None or not self._credentials.has_met_linked:
            return paths
        return self._credentials.without_other_names(self.start, paths)

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

    def _scope_above(self, boundary: bytes) -> ListingScope:
        """Return the rules of the directories above the start, down from the repository's root or else the boundary."""
        repository = Repository.around(self.start)
        top = repository.root if repository is not None else boundary
        if repository is not None:
            scope = self._scope_in(repository)
        else:
            scope = ListingScope(self._chain(top, (global_exclude_file(None),), ignore_case=False))
            self.common = self.start == boundary and not scope.rules.files
        if not self.start.startswith(top):
            return scope
        directory = top
        for name in self.start[len(top) :].split(b"/")[:-1]:
            scope = self._with_rules_of(directory, scope)
            if scope.rules.ignored(directory, [name], directories=True):
                self.start_ignored, self.common = True, False
                scope = replace(scope, rules=NO_RULES)
            directory += name + b"/"
        return scope

    def _scope_in(self, repository: Repository) -> ListingScope:
        ignore_case = repository.ignores_case()
        general = global_exclude_file(repository)
        rules = self._chain(repository.root, (general, repository.exclude_file), ignore_case)
        unusual = general != default_exclude_file() or repository.common_dir != repository.git_dir
        if ignore_case or (rules.files and unusual):
            self.common = False
        return ListingScope(rules, repository, repository.tracked(), ignore_case)

    def _with_rules_of(self, directory: bytes, scope: ListingScope) -> ListingScope:
        # Git does not follow a link of that name either: it could lead anywhere.
        data = read_file(directory + _RULES, follow=False)
        if not data:
            return scope
        rules = self._stronger(scope.rules, directory, data, scope.ignore_case)
        return ListingScope(rules, scope.repository, scope.tracked, scope.ignore_case, scope.tracked_only)

    def _chain(self, directory: bytes, sources: tuple[bytes | None, ...], ignore_case: bool) -> IgnoreChain:
        chain = NO_RULES
        for source in sources:
            data = read_file(source) if source is not None else None
            if data:
                chain = self._stronger(chain, directory, data, ignore_case)
        return chain

    def _stronger(self, chain: IgnoreChain, directory: bytes, data: bytes, ignore_case: bool) -> IgnoreChain:
        self.common = self.common and is_common(data)
        file = rule_file(directory, data, ignore_case)
        return chain if file is None else chain.with_stronger(file)

    def _read(self, path: bytes, scope: ListingScope) -> ListedDirectory:
        self._check()
        entries = directory_cache.of(self.handle, path[len(self.start) :])
        secret = None if self._credentials is None else self._credentials.meet(path, entries.files)
        half_ignored: frozenset[bytes] = frozenset()
        if not self.options.include_ignored:
            scope = self._scope_of(path, entries, scope)
            entries, half_ignored = self._without_ignored(path, entries, scope)
        files, links, directories = map(self._without_hidden, entries)
        if self._credentials is not None:
            files = self._credentials.without_other_names(path, self._credentials.kept(path, files, secret))
            links = self._credentials.kept(path, links) if links else links
            directories = self._credentials.kept(path, directories) if directories else directories
        if self.options.off_limits and directories:
            directories = [name for name in directories if path + name + b"/" not in self.options.off_limits]
        return ListedDirectory(path, files, links, directories, half_ignored, scope)

    def _scope_of(self, path: bytes, entries: DirectoryEntries, scope: ListingScope) -> ListingScope:
        """Return what decides in a directory: that of its parent, its own rules, or its own repository's."""
        if (_GIT in entries.directories or _GIT in entries.files) and path != self.start:
            inner = Repository.at(path)
            if inner is not None:
                self.common = self.common and scope.repository is not None
                scope = self._scope_in(inner)
        return self._with_rules_of(path, scope) if _RULES in entries.files else scope

    def _without_ignored(
        self, path: bytes, entries: DirectoryEntries, scope: ListingScope
    ) -> tuple[DirectoryEntries, frozenset[bytes]]:
        """Return what rules leave, and the ignored directories that are listed for what is tracked in them."""
        files, links, directories = entries
        half_ignored: frozenset[bytes] = frozenset()
        gone = self._ignored(path, scope, [*files, *links] if links else files, directories=False)
        if gone:
            files, links = ([name for name in names if name not in gone] for names in (files, links))
        gone = self._ignored(path, scope, directories, directories=True)
        if gone:
            half_ignored = frozenset(name for name in gone if self._has_tracked(path + name, scope))
            self.common = self.common and not half_ignored
            directories = [name for name in directories if name not in gone or name in half_ignored]
        return DirectoryEntries(files, links, directories), half_ignored

    def _without_hidden(self, names: list[bytes]) -> list[bytes]:
        if not self.options.include_hidden:
            return [name for name in names if name[0] != _DOT]
        return [name for name in names if name != _GIT] if _GIT in names else names

    def _ignored(self, path: bytes, scope: ListingScope, names: list[bytes], *, directories: bool) -> frozenset[bytes]:
        """Return the entries that rules leave out; files not where they are tracked all the same."""
        gone = frozenset(names) if scope.tracked_only else scope.rules.ignored(path, names, directories=directories)
        if directories or not gone or scope.repository is None:
            return gone
        relative = path[len(scope.repository.root) :]
        tracked = {name for name in gone if scope.tracked.holds(relative + name)}
        self.common = self.common and not tracked
        return gone - tracked

    def _has_tracked(self, path: bytes, scope: ListingScope) -> bool:
        """Return whether a directory is tracked (as a submodule is), or anything below it."""
        if scope.repository is None:
            return False
        relative = path[len(scope.repository.root) :]
        return scope.tracked.holds_below(relative + b"/") or scope.tracked.holds(relative)


def with_slash(path: bytes) -> bytes:
    """Return a directory's path with a slash behind."""
    return path if path.endswith(b"/") else path + b"/"
