"""What a command writes: kept, and handed on to whoever listens, the past first and then every byte."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from ollm_tui.core.shell.rawlog import RawLog

log = logging.getLogger(__name__)

OnBytes: TypeAlias = Callable[[bytes], None]


class Broadcast:
    """Published to by the command's thread; all other methods may be called from any thread. `of` names the command
    in our log."""

    def __init__(self, kept: RawLog, of: str, listener: OnBytes | None = None) -> None:
        self._kept = kept
        self._of = of
        self._order = threading.RLock()
        """Held while bytes are handed on, so that a late listener gets the backlog and then all that follows."""
        self._lock = threading.Lock()
        self._listeners: tuple[OnBytes, ...] = () if listener is None else (listener,)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._kept.size

    def attach(self, listener: OnBytes) -> Callable[[], None]:
        """Hand `listener` the backlog now and every further byte as it comes, from the command's thread."""
        with self._order:
            backlog = self._kept.backlog()
            if backlog:
                listener(backlog)
            with self._lock:
                self._listeners = (*self._listeners, listener)

        return lambda: self.detach(listener)

    def detach(self, listener: OnBytes) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

    def pieces(self, start: int) -> Iterator[bytes]:
        """What was written from byte `start` up to now, in pieces. Reads the disk."""
        with self._order:
            return self._kept.pieces(start)

    def publish(self, data: bytes) -> None:
        with self._order:
            self._kept.append(data)
            for listener in self._listeners:
                try:
                    listener(data)
                except Exception:  # whoever listens may fail; the command must be read on, or it would hang
                    log.exception("A listener of command %s failed and is dropped", self._of)
                    self.detach(listener)

    def to_disk(self) -> tuple[Path, int]:
        """As `RawLog.to_disk`."""
        return self._kept.to_disk()

    def close(self) -> None:
        """After the last byte."""
        self._kept.close()
