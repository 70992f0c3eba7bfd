"""The memory screen opened over the real house, with the same database open as another process has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widgets import TextArea

from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.memory import Memory, MemoryScope
from ollm_tui.core.storage.store import Store
from ollm_tui.runtime import core
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.screens.memory_screen import MemoryScreen
from tests.tui.pilot import wait_until


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose memory is searched by words alone: what a model finds besides is its own affair."""
    monkeypatch.setattr(core, "installed_embedder", lambda: None)
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(own_folders: Path) -> Iterator[Store]:
    """The same database as another process has it open."""
    store = Store(data_dir() / "ollm.db")
    yield store
    store.close()


@pytest.fixture
def memory(outside: Store, workspace: Path) -> Memory:
    kept = Memory(outside, workspace)
    kept.set("build", "make all\nthen ctest")
    kept.set("release", "tag and push")
    kept.set("editor", "prefers tabs", MemoryScope.USER)
    return kept


@asynccontextmanager
async def opened(workspace: Path, size: tuple[int, int] = (120, 40)) -> AsyncGenerator[DashboardHarness]:
    """The dashboard with the memory open and its first text read."""
    async with open_dashboard(workspace) as here:
        if size != (120, 40):
            await here.pilot.resize_terminal(*size)
        await here.pilot.press("ctrl+n")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, MemoryScreen))
        await here.wait_for("remembered")
        yield here


async def editing(here: DashboardHarness) -> TextArea:
    await here.wait_for("^S save")
    area = here.app.screen.query_one("#memory-area", TextArea)
    await wait_until(
        here.pilot, lambda: area.has_focus or here.app.screen.query("#memory-key:focus").first() is not None
    )
    return area
