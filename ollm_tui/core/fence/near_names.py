"""Names that come near one that does not exist: most paths that lead nowhere are nearly right."""

from __future__ import annotations

import difflib
import os
from itertools import islice
from pathlib import Path

_MOST_NAMES = 2_000
"""Names of a directory that are compared."""

_SUGGESTIONS = 3


def near_paths(place: Path, root: Path) -> list[Path]:
    """What exists nearest to a place below `root` at which nothing is: the closest first, none where nothing is close.

    The first component that is missing is compared with the names beside it; case does not count. Blocking.
    """
    missing, rest = place, Path()
    while missing != root and not os.path.lexists(missing.parent):
        rest = missing.name / rest
        missing = missing.parent
    if missing == root:
        return []
    try:
        with os.scandir(missing.parent) as entries:
            by_folded = {entry.name.casefold(): entry.name for entry in islice(entries, _MOST_NAMES)}
    except OSError:
        return []
    close = difflib.get_close_matches(missing.name.casefold(), by_folded, n=_SUGGESTIONS, cutoff=0.6)
    found = [missing.parent / by_folded[name] for name in close]
    whole = [each / rest for each in found if os.path.lexists(each / rest)]
    return whole or found
