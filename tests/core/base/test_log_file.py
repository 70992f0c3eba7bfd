"""The program's own log: where errors nobody foresaw can be read afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ollm_tui.core.base.log_file import MAX_BYTES, OLDER_FILES, LogFile, log_path, open_log, unexpected

log = logging.getLogger("ollm_tui.core.something")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The log, opened twice, in a folder that is not there yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    logger = logging.getLogger("ollm_tui")
    before = [*logger.handlers]
    logger.handlers, logger.propagate = [], False
    open_log()
    open_log()
    yield tmp_path / "state" / "ollm-tui" / "ollm-tui.log"
    logger.handlers, logger.propagate = before, True


def test_an_error_leaves_its_traceback_once_in_the_file_it_names(path: Path) -> None:
    assert log_path() == path
    log.info("not of interest")
    assert not path.exists(), "made by the first line"
    error = KeyError("missing")
    log.error("something failed", exc_info=error)
    assert unexpected(error) == f"KeyError: 'missing' ({path} says more)"
    text = path.read_text()
    assert text.count("ERROR ollm_tui.core.something: something failed") == 1
    assert "KeyError: 'missing'" in text and "not of interest" not in text
    assert path.stat().st_mode & 0o077 == 0


def test_the_log_is_bounded(path: Path) -> None:
    for _ in range(OLDER_FILES + 3):
        log.warning("x" * (MAX_BYTES - 1_000))
    files = sorted(path.parent.iterdir())
    assert len(files) == 1 + OLDER_FILES
    assert all(file.stat().st_size <= MAX_BYTES for file in files)


def test_where_it_cannot_be_written_nothing_else_fails(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.parent.parent.write_text("a file is in the way")
    log.error("lost")
    path.parent.parent.unlink()
    log.error("half of a pair: \udc80")
    assert "\\udc80" in path.read_text()
    assert capsys.readouterr().err == ""


def test_lines_of_other_libraries_do_not_go_there(path: Path) -> None:
    assert not any(isinstance(handler, LogFile) for handler in logging.getLogger().handlers)
