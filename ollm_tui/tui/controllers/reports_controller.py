"""Reports in the conversation: doctor, MCP servers, other sessions. None becomes a part of it."""

from __future__ import annotations

import asyncio
from itertools import count

from ollm_tui.runtime import Core
from ollm_tui.runtime.sources import Sources
from ollm_tui.tui.protocol import PostUpdate, intents, updates
from ollm_tui.tui.themes import load_themes
from ollm_tui.tui.values import EntriesChanged, NoteEntry

NO_SERVERS = "There are no MCP servers. `ollm-tui help extending` says how to name one."
NO_SOURCES = (
    "No other session waits for a person. `ollm-tui run PROMPT --ask socket` starts one whose questions come here;"
    " /sources ssh HOST ollm-tui run \"'PROMPT'\" --ask stdio takes those of another machine."
)


class ReportsController:
    """Writes what was asked for; tells what other sessions say."""

    def __init__(self, core: Core, post: PostUpdate) -> None:
        self._core = core
        self._post = post
        self._numbers = count(1)
        self.sources = Sources(core.bus, self._note)

    async def show(self, report: intents.ShowReport) -> None:
        """Show a report."""
        match report.subject:
            case "mcp":
                mcp = self._core.mcp
                self._note("\n".join(await asyncio.to_thread(mcp.report)) if mcp is not None else NO_SERVERS)
            case "sources":
                self._note("\n".join(self.sources.report()) or NO_SOURCES)
            case "doctor":
                self._note(await self._doctor())

    async def _doctor(self) -> str:
        from ollm_tui.runtime.checks import examine  # not needed for a start

        themes = await asyncio.to_thread(load_themes)
        checks = await examine(self._core.configuration.options, themes.errors)
        return "\n".join(f"{check.status.value:<6} {check.what}: {check.text}" for check in checks)

    def _note(self, text: str) -> None:
        note = NoteEntry(f"report-{next(self._numbers)}", text)
        self._post(updates.ConversationUpdate(EntriesChanged((note,))))
