"""Own folders follow the XDG variables, and their defaults below the home directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.core.base import app_dirs


def test_folders_follow_the_variables_and_ignore_relative_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/ann")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/data")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert app_dirs.config_dir() == Path("/etc/ann/ollm-tui")
    assert app_dirs.data_dir() == Path("/home/ann/.local/share/ollm-tui")
    assert app_dirs.state_dir() == Path("/home/ann/.local/state/ollm-tui")


def test_a_home_that_is_not_absolute_makes_no_folder_in_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    for home in ("work", "", "."):
        monkeypatch.setenv("HOME", home)
        assert app_dirs.state_dir().is_absolute()
