"""Files that a person declared protected (`[tools] protected`), by patterns of the kind `.gitignore` has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ollm_tui.core.base.protected import Sensitivity

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

DECLARED = Sensitivity("ask", "is protected by your settings")


class OwnProtection:
    """A person's own list of protected files, relative to the workspace; they ask for reading and for writing."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec  # a twentieth of a second that most people never need

        return GitIgnoreSpec.from_lines(self.patterns)

    def check(self) -> None:
        """Raises ValueError naming a pattern that cannot be read."""
        if self.patterns:
            try:
                _ = self._spec
            except ValueError as error:
                raise ValueError(f"tools.protected: {error}") from None

    def judge(self, relative: str) -> Sensitivity | None:
        """What the list says about a place; a folder's pattern covers everything in it."""
        if not self.patterns:
            return None
        return DECLARED if self._spec.match_file(relative) or self._spec.match_file(f"{relative}/") else None
