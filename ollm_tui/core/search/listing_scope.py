"""What decides in each directory of a listing which entries are named: rules, repository, tracked files (001 R4).

Paths are bytes; a directory's path ends with a slash. Everything blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ollm_tui.core.fence.dir_handle import DirectoryEntries
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


@dataclass(frozen=True)
class ListingScope:
    """What decides in a directory which entries are listed."""

    rules: IgnoreChain = field(default=NO_RULES)
    repository: Repository | None = None
    tracked: TrackedFiles = NOTHING_TRACKED
    ignore_case: bool = False
    tracked_only: bool = False
    """In an ignored directory: only what is tracked all the same is listed."""


class ScopeReader:
    """Reads the scopes of one walk, from its start down."""

    def __init__(self, start: bytes) -> None:
        self._start = start
        self.start_ignored = False
        """The directory asked for is itself ignored; its content is listed all the same, as it was asked for."""
        self.common = True
        """So far, every lister that knows ignore files would have listed the same: nothing tracked though ignored, no
        rules that are read in different ways. Known for sure after the walk."""

    def above(self, boundary: bytes) -> ListingScope:
        """Return the rules of the directories above the start, down from the repository's root or else the boundary."""
        repository = Repository.around(self._start)
        top = repository.root if repository is not None else boundary
        if repository is not None:
            scope = self._scope_in(repository)
        else:
            scope = ListingScope(self._chain(top, (global_exclude_file(None),), ignore_case=False))
            self.common = self._start == boundary and not scope.rules.files
        if not self._start.startswith(top):
            return scope
        directory = top
        for name in self._start[len(top) :].split(b"/")[:-1]:
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

    def of(self, path: bytes, entries: DirectoryEntries, scope: ListingScope) -> ListingScope:
        """Return what decides in a directory: that of its parent, its own rules, or its own repository's."""
        if (_GIT in entries.directories or _GIT in entries.files) and path != self._start:
            inner = Repository.at(path)
            if inner is not None:
                self.common = self.common and scope.repository is not None
                scope = self._scope_in(inner)
        return self._with_rules_of(path, scope) if _RULES in entries.files else scope

    def without_ignored(
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
