"""Paths as a planned undo will leave them; nothing here acts."""

from __future__ import annotations

from ollm_tui.core.files.journal import Change
from ollm_tui.core.files.journal_states import ABSENT, FileKind, FileState, Place, look_at
from ollm_tui.core.files.trash import Trash


class Foresight:
    """The workspace with the steps planned so far taken; reads the disk, changes nothing."""

    def __init__(self, trash: Trash) -> None:
        self._trash = trash
        self._known: dict[Place, FileState] = {}
        self._moves: list[tuple[Place, Place]] = []

    def state(self, place: Place, expected: FileState) -> FileState:
        """Return what will lie there, as far as it can be compared with `expected`."""
        if place in self._known:
            return self._known[place]
        for source, target in reversed(self._moves):
            if place == source or _below(place, source) is not None:
                return ABSENT
            if (rest := _below(place, target)) is not None:
                place = Place(source.root, source.relative + rest)
        by_inode = expected.kind is FileKind.DIRECTORY and bool(expected.digest)
        return look_at(place, by_inode=by_inode).state

    def take_back(self, change: Change) -> None:
        """Go on as if the change were undone."""
        if change.origin is not None:
            self._forget_below(change.origin)
            for place in list(self._known):
                if (rest := _below(place, change.place)) is not None:
                    self._known[Place(change.origin.root, change.origin.relative + rest)] = self._known.pop(place)
            self._moves.append((change.place, change.origin))
            self._known[change.origin] = change.after
        elif change.trash:
            self._forget_below(change.place)
            content = self._trash.content_of(change.trash)
            self._moves.append((Place(str(content.parent), content.name), change.place))
        self._known[change.place] = change.before

    def _forget_below(self, directory: Place) -> None:
        for place in [each for each in self._known if _below(each, directory) is not None]:
            del self._known[place]


def _below(place: Place, above: Place) -> str | None:
    inside = place.root == above.root and place.relative.startswith(above.relative + "/")
    return place.relative[len(above.relative) :] if inside else None
