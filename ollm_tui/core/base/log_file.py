"""The program's own log: a file with rotation, where unexpected errors leave their tracebacks."""

from __future__ import annotations

import logging
from pathlib import Path

from ollm_tui.core.base.app_dirs import state_dir

MAX_BYTES = 1_000_000
OLDER_FILES = 3


def log_path() -> Path:
    """Return where the log is, or would be: it is made by its first line."""
    return state_dir() / "ollm-tui.log"


def unexpected(error: BaseException) -> str:
    """Return an unexpected error in words, with where its traceback is."""
    return f"{type(error).__name__}: {error} ({log_path()} says more)"


def open_log() -> None:
    """Write warnings and errors of this program into the log, and no longer over the screen."""
    logger = logging.getLogger("ollm_tui")
    if not any(isinstance(handler, LogFile) for handler in logger.handlers):
        logger.addHandler(LogFile(logging.WARNING))


class LogFile(logging.Handler):
    """Opens the file when there is something to write; where it cannot be written, nothing else fails."""

    _file: logging.Handler | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record."""
        try:
            if self._file is None:
                self._file = self._open()
            self._file.emit(record)
        except OSError:
            self._file = None

    def _open(self) -> logging.Handler:
        from logging.handlers import RotatingFileHandler  # 9 ms that a start without an error saves

        class Quiet(RotatingFileHandler):
            def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # as in Handler
                """Stay off stderr, which is the screen."""

        path = log_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        file = Quiet(path, maxBytes=MAX_BYTES, backupCount=OLDER_FILES, encoding="utf-8", errors="backslashreplace")
        file.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
        return file
