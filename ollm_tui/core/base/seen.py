"""What the calls of one process last saw of each file, so that an edit can say that somebody else changed it since."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Lock

MOST_FILES = 10_000
"""Files remembered; those seen longest ago are forgotten first."""


class SeenFiles:
    """Fingerprints of contents by real path. May be used from several threads."""

    def __init__(self) -> None:
        self._fingerprints: OrderedDict[Path, str] = OrderedDict()
        self._lock = Lock()

    def note(self, real: Path, fingerprint: str) -> None:
        """The file was read, or written, with this content."""
        with self._lock:
            self._fingerprints[real] = fingerprint
            self._fingerprints.move_to_end(real)
            if len(self._fingerprints) > MOST_FILES:
                self._fingerprints.popitem(last=False)

    def forget(self, real: Path) -> None:
        """What it holds now is not known."""
        with self._lock:
            self._fingerprints.pop(real, None)

    def is_news(self, real: Path, fingerprint: str) -> bool:
        """Whether the file was seen with another content; touching it without changing it is no news."""
        with self._lock:
            return self._fingerprints.get(real, fingerprint) != fingerprint
