"""The one lister of files: what `git ls-files -co --exclude-standard` would name, in a repository or outside (001 R4).

`glob`, `grep` and `ls` all walk with it. Paths are bytes here; a folder's path ends with a slash. Everything blocks:
call it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ollm_tui.core.fence import protected_paths
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.fence.hard_links import Identity, home_folder, identity_of_linked, linked_credentials
from ollm_tui.core.fence.protected_paths import ProtectedPatterns
from ollm_tui.core.search.directory_cache import DirectoryCache
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

_entries = DirectoryCache()


@dataclass(frozen=True)
class ListingScope:
    """What decides in a folder which entries are listed."""

    rules: IgnoreChain = field(default=NO_RULES)
    repository: Repository | None = None
    tracked: TrackedFiles = NOTHING_TRACKED
    ignore_case: bool = False
    tracked_only: bool = False
    """In an ignored folder: only what is tracked all the same is listed."""


@dataclass(frozen=True)
class ListedDirectory:
    """The listed entries of one folder, unsorted; `half_ignored` are directories listed for what is tracked in them."""

    path: bytes
    files: list[bytes]
    links: list[bytes]
    directories: list[bytes]
    half_ignored: frozenset[bytes]
    scope: ListingScope


@dataclass(frozen=True)
class ListingOptions:
    """What is listed beyond the plain case. `skip_credentials` leaves out what nobody may read without being asked."""

    include_hidden: bool = False
    include_ignored: bool = False
    skip_credentials: bool = False
    own_protection: ProtectedPatterns | None = None
    """A person's own list of such files, asked with `skip_credentials`."""
    off_limits: Collection[bytes] = ()
    """Folders that are never entered (with a slash behind)."""
    prefix: tuple[bytes, ...] = ()
    """Only what lies below these folders is wanted, one inside the other from the start on."""
    max_depth: int | None = None
    """So many levels below the start are entered; None for all."""


class Listing:
    """One walk over `ground`. `boundary` is where rules begin to count outside a repository: the allowed root.

    `check` is called for every folder and may raise, to give up.
    """

    def __init__(
        self, ground: DirHandle, boundary: bytes, options: ListingOptions, check: Callable[[], object] = lambda: None
    ) -> None:
        self.ground = ground
        self.start = ground.path
        self.options = options
        self.start_ignored = False
        """The folder asked for is itself ignored; its content is listed all the same, as it was asked for."""
        self.unreadable: list[bytes] = []
        """Folders that could not be read, relative to the start."""
        self.credentials_skipped = 0
        self.common = True
        """So far, every lister that knows ignore files would have listed the same: nothing tracked though ignored, no
        rules that are read in different ways. Known for sure after the walk."""
        self._check = check
        self._harmless: set[bytes] = set()
        self._boundary = with_slash(boundary)
        self._secrets: set[Identity] = set()
        """Credentials that have further names, which are then left out too."""
        if options.skip_credentials:
            places = (self._boundary, *_folders_between(self._boundary, self.start), home_folder())
            self._secrets.update(linked_credentials(os.lstat(self.start).st_dev, places))
        self._known_at_start = len(self._secrets)
        self._scope = ListingScope() if options.include_ignored else self._scope_above(with_slash(boundary))

    @property
    def in_repository(self) -> bool:
        """Whether the start lies in a repository."""
        return self._scope.repository is not None

    def first(self) -> ListedDirectory:
        """The folder asked for. Raises OSError."""
        return self._read(self.start, self._scope)

    def enter(self, parent: ListedDirectory, name: bytes) -> ListedDirectory | None:
        """A folder in `parent`; None (and noted) where it cannot be read."""
        path = parent.path + name + b"/"
        scope = replace(parent.scope, tracked_only=True) if name in parent.half_ignored else parent.scope
        try:
            return self._read(path, scope)
        except OSError:
            self.unreadable.append(path[len(self.start) :])
            return None

    def files(self, *, links: bool) -> Iterator[bytes]:
        """Paths of files (and links) relative to the start, sorted by bytes, as they are found.

        Raises OSError where the start itself cannot be read.
        """
        return chain.from_iterable(self._runs(links))

    def _runs(self, links: bool) -> Iterator[list[bytes]]:
        """The paths in pieces: nearly all files lie in folders without further ones, and come all at once."""
        stack = [self._opened(b"", self.first(), links, 0)]
        while stack:
            prefix, folder, names = stack[-1]
            if not folder.directories:
                stack.pop()
                yield [prefix + name for name in names] if prefix else list(names)
                continue
            before: list[bytes] = []
            inner: ListedDirectory | None = None
            for name in names:
                if name[-1] != _SLASH:
                    before.append(prefix + name)
                    continue
                inner = self.enter(folder, name[:-1])
                if inner is not None:
                    break
            yield before
            if inner is None:
                stack.pop()
            else:
                stack.append(self._opened(inner.path[len(self.start) :], inner, links, len(stack)))

    def _opened(
        self, prefix: bytes, folder: ListedDirectory, links: bool, depth: int
    ) -> tuple[bytes, ListedDirectory, Iterator[bytes]]:
        return prefix, folder, iter(self._ordered(folder, links, depth))

    @property
    def has_met_credentials(self) -> bool:
        """Whether the walk came upon credentials with other names, under which they may have been listed before."""
        return len(self._secrets) > self._known_at_start

    def without_other_names(self, paths: Sequence[bytes]) -> Sequence[bytes]:
        """Those of the listed paths that are no hard links to credentials which the walk has met after them."""
        if not self.has_met_credentials:
            return paths
        kept = [path for path in paths if identity_of_linked(self.start + path) not in self._secrets]
        self.credentials_skipped += len(paths) - len(kept)
        return kept

    def folders(self) -> Iterator[ListedDirectory]:
        """Every folder, in no order that matters. Raises OSError where the start itself cannot be read."""
        waiting = [self.first()]
        while waiting:
            folder = waiting.pop()
            yield folder
            waiting += filter(None, (self.enter(folder, name) for name in folder.directories))

    def _ordered(self, folder: ListedDirectory, links: bool, depth: int) -> list[bytes]:
        """The wanted entries in the order of their whole paths: a directory sorts as its name with a slash behind."""
        if depth < len(self.options.prefix):
            wanted = self.options.prefix[depth]
            return [wanted + b"/"] if wanted in folder.directories else []
        names = folder.files
        if self.options.max_depth is None or depth < self.options.max_depth:
            names = [*names, *(name + b"/" for name in folder.directories)]
        if links and folder.links:
            names = names + folder.links
        return sorted(names)

    def _scope_above(self, boundary: bytes) -> ListingScope:
        """The rules of the folders above the start, down from the repository's root or else the boundary."""
        repository = Repository.around(self.start)
        top = repository.root if repository is not None else boundary
        if repository is not None:
            scope = self._scope_in(repository)
        else:
            scope = ListingScope(self._chain(top, (global_exclude_file(None),), ignore_case=False))
            self.common = self.start == boundary and not scope.rules.files
        if not self.start.startswith(top):
            return scope
        folder = top
        for name in self.start[len(top) :].split(b"/")[:-1]:
            scope = self._with_rules_of(folder, scope)
            if scope.rules.ignored(folder, [name], directories=True):
                self.start_ignored, self.common = True, False
                scope = replace(scope, rules=NO_RULES)
            folder += name + b"/"
        return scope

    def _scope_in(self, repository: Repository) -> ListingScope:
        ignore_case = repository.ignores_case()
        general = global_exclude_file(repository)
        rules = self._chain(repository.root, (general, repository.exclude_file), ignore_case)
        unusual = general != default_exclude_file() or repository.common_dir != repository.git_dir
        if ignore_case or (rules.files and unusual):
            self.common = False
        return ListingScope(rules, repository, repository.tracked(), ignore_case)

    def _with_rules_of(self, folder: bytes, scope: ListingScope) -> ListingScope:
        # Git does not follow a link of that name either: it could lead anywhere.
        data = read_file(folder + _RULES, follow=False)
        return scope if not data else replace(scope, rules=self._stronger(scope.rules, folder, data, scope.ignore_case))

    def _chain(self, folder: bytes, sources: tuple[bytes | None, ...], ignore_case: bool) -> IgnoreChain:
        chain = NO_RULES
        for source in sources:
            data = read_file(source) if source is not None else None
            if data:
                chain = self._stronger(chain, folder, data, ignore_case)
        return chain

    def _stronger(self, chain: IgnoreChain, folder: bytes, data: bytes, ignore_case: bool) -> IgnoreChain:
        self.common = self.common and is_common(data)
        file = rule_file(folder, data, ignore_case)
        return chain if file is None else chain.with_stronger(file)

    def _read(self, path: bytes, scope: ListingScope) -> ListedDirectory:
        self._check()
        files, links, directories = _entries.of(self.ground, path[len(self.start) :])
        if self.options.skip_credentials:
            self._meet_credentials(path, files)
        half_ignored: frozenset[bytes] = frozenset()
        if not self.options.include_ignored:
            if (_GIT in directories or _GIT in files) and path != self.start:
                inner = Repository.at(path)
                if inner is not None:
                    self.common = self.common and scope.repository is not None
                    scope = self._scope_in(inner)
            if _RULES in files:
                scope = self._with_rules_of(path, scope)
            gone = self._ignored(path, scope, [*files, *links] if links else files, directories=False)
            if gone:
                files, links = ([name for name in names if name not in gone] for names in (files, links))
            gone = self._ignored(path, scope, directories, directories=True)
            if gone:
                half_ignored = frozenset(name for name in gone if self._has_tracked(path + name, scope))
                self.common = self.common and not half_ignored
                directories = [name for name in directories if name not in gone or name in half_ignored]
        if not self.options.include_hidden:
            files = [name for name in files if name[0] != _DOT]
            links = [name for name in links if name[0] != _DOT]
            directories = [name for name in directories if name[0] != _DOT]
        else:
            files, links, directories = (
                [name for name in names if name != _GIT] if _GIT in names else names
                for names in (files, links, directories)
            )
        if self.options.skip_credentials:
            files, links, directories = (
                self._without_protected(path, self._without_credentials(path, names))
                for names in (files, links, directories)
            )
            if self._secrets:
                files = self._without_other_names(path, files)
        if self.options.off_limits:
            directories = [name for name in directories if path + name + b"/" not in self.options.off_limits]
        return ListedDirectory(path, files, links, directories, half_ignored, scope)

    def _ignored(self, path: bytes, scope: ListingScope, names: list[bytes], *, directories: bool) -> frozenset[bytes]:
        """The entries that rules leave out; files not where they are tracked all the same."""
        gone = frozenset(names) if scope.tracked_only else scope.rules.ignored(path, names, directories=directories)
        if directories or not gone or scope.repository is None:
            return gone
        relative = path[len(scope.repository.root) :]
        tracked = {name for name in gone if scope.tracked.holds(relative + name)}
        self.common = self.common and not tracked
        return gone - tracked

    def _has_tracked(self, path: bytes, scope: ListingScope) -> bool:
        """Whether a directory is tracked (as a submodule is), or anything below it."""
        if scope.repository is None:
            return False
        relative = path[len(scope.repository.root) :]
        return scope.tracked.holds_below(relative + b"/") or scope.tracked.holds(relative)

    def _meet_credentials(self, path: bytes, names: list[bytes]) -> None:
        """Remembers the credentials among the files of a folder, hidden and ignored ones too, for their other names."""
        self._secrets.update(filter(None, (identity_of_linked(path + name) for name in self._sensitive(path, names))))

    def _without_credentials(self, path: bytes, names: list[bytes]) -> list[bytes]:
        sensitive = self._sensitive(path, names)
        self.credentials_skipped += len(sensitive)
        return [name for name in names if name not in sensitive] if sensitive else names

    def _sensitive(self, path: bytes, names: list[bytes]) -> set[bytes]:
        """Those of the names in a folder that stand for credentials."""
        parent = path[len(self.start) : -1].rpartition(b"/")[2]
        # Only hidden folders (`.docker`, `.config`) make credentials of names that would not be so elsewhere.
        if parent[:1] != b".":
            if self._harmless.issuperset(names):
                return set()
            parent = b""
        return {name for name in names if self._is_sensitive(parent, name)}

    def _without_other_names(self, path: bytes, names: list[bytes]) -> list[bytes]:
        """The names of a folder that are no hard links to credentials, as far as those have been met."""
        kept = [name for name in names if identity_of_linked(path + name) not in self._secrets]
        self.credentials_skipped += len(names) - len(kept)
        return kept

    def _without_protected(self, path: bytes, names: list[bytes]) -> list[bytes]:
        protection = self.options.own_protection
        if protection is None or not protection.patterns or not path.startswith(self._boundary):
            return names
        parent = os.fsdecode(path[len(self._boundary) :])
        kept = [name for name in names if protection.judge(parent + os.fsdecode(name)) is None]
        self.credentials_skipped += len(names) - len(kept)
        return kept

    def _is_sensitive(self, parent: bytes, name: bytes) -> bool:
        if not parent and name in self._harmless:
            return False
        sensitive = protected_paths.judge_reading(os.fsdecode(parent + b"/" + name).split("/")) is not None
        if not parent and not sensitive:
            self._harmless.add(name)
        return sensitive


def _folders_between(boundary: bytes, start: bytes) -> list[bytes]:
    """Those below `boundary` on the way to `start`, which is the last one."""
    names = start[len(boundary) :].split(b"/")[:-1] if start.startswith(boundary) else []
    return [boundary + b"/".join(names[: index + 1]) + b"/" for index in range(len(names))]


def with_slash(path: bytes) -> bytes:
    return path if path.endswith(b"/") else path + b"/"
