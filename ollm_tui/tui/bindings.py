"""All keys of the dashboard in one place: for the help, the palette, and the check of `[keys]` in the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import Binding, BindingType

from ollm_tui.tui.values import FileError

SHOWN = {
    "esc": "Esc",
    "escape": "Esc",
    "⏎": "Enter",
    "enter": "Enter",
    "right_square_bracket": "]",
    "pgup": "PgUp",
    "pgdn": "PgDn",
    "end": "End",
    "home": "Home",
    "tab": "Tab",
    "space": "Space",
    "↑": "Up",
    "↓": "Down",
    "←": "Left",
    "→": "Right",
    "slash": "/",
}


def shown_key(display: str) -> str:
    """A key as people read it, in plain letters: `F8`, `^P`, `Esc`, `Shift+F6`."""
    if display.startswith("^") and len(display) > 1:
        return f"^{SHOWN.get(display[1:].lower(), display[1:].upper())}"
    if display.lower().startswith("shift+"):
        return f"Shift+{shown_key(display[6:])}"
    known = SHOWN.get(display.lower())
    if known is not None:
        return known
    return display.upper() if display[:1] == "f" and display[1:].isdigit() else display


def key_groups() -> list[tuple[str, list[Binding]]]:
    """Every binding with an id, by where it holds. Imports all screens, so it is called when needed, not at start."""
    from ollm_tui.tui.app import DashboardApp
    from ollm_tui.tui.panes.confirmations_pane import QueuePane
    from ollm_tui.tui.panes.conversation_pane import ConversationPane
    from ollm_tui.tui.panes.terminal_pane import TerminalPane
    from ollm_tui.tui.panes.terminal_search_line import TerminalSearch
    from ollm_tui.tui.panes.todos_pane import TodoPane
    from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
    from ollm_tui.tui.screens.dashboard_screen import Dashboard
    from ollm_tui.tui.screens.help_screen import HelpScreen
    from ollm_tui.tui.screens.jobs_screen import JobsScreen
    from ollm_tui.tui.screens.memory_screen import MemoryScreen
    from ollm_tui.tui.screens.quit_screen import QuitScreen
    from ollm_tui.tui.screens.yes_no_screen import YesNoScreen
    from ollm_tui.tui.terminal.reading_view import ReadingView
    from ollm_tui.tui.widgets.prompt import Prompt
    from ollm_tui.tui.widgets.row_list import RowList
    from ollm_tui.tui.widgets.transcript import Transcript

    return [
        ("Everywhere", [*_named(DashboardApp.BINDINGS), *_named(Dashboard.BINDINGS)]),
        ("Prompt", _named(Prompt.BINDINGS)),
        ("Chat", [*_named(Transcript.BINDINGS), *_named(ConversationPane.BINDINGS)]),
        ("Confirmation", _named(ConfirmationScreen.BINDINGS)),
        ("Queue and todos", [*_named(RowList.BINDINGS), *_named(QueuePane.BINDINGS), *_named(TodoPane.BINDINGS)]),
        ("Memory", _named(MemoryScreen.BINDINGS)),
        ("Terminal tabs", _named(TerminalPane.BINDINGS)),
        ("Reading the terminal (F5)", [*_named(ReadingView.BINDINGS), *_named(TerminalSearch.BINDINGS)]),
        ("Jobs", _named(JobsScreen.BINDINGS)),
        ("Dialogues", [*_named(HelpScreen.BINDINGS), *_named(YesNoScreen.BINDINGS), *_named(QuitScreen.BINDINGS)]),
    ]


def faults_of(keys: Mapping[str, str], source: str) -> tuple[FileError, ...]:
    """What is wrong with `[keys]`: ids that do not exist, keys that no terminal sends."""
    if not keys:
        return ()  # without loading every screen at the start
    known = {binding.id for _, bindings in key_groups() for binding in bindings}
    faults: list[FileError] = []
    for name, key in keys.items():
        if name not in known:
            faults.append(FileError(source, None, f"[keys] knows no {name!r}.", "F1 lists all ids."))
        elif not key or any(not part.strip() for part in key.split(",")):
            faults.append(FileError(source, None, f"[keys] {name!r} has no key.", 'Write one like "f9" or "ctrl+b".'))
    return tuple(faults)


def _named(bindings: Iterable[BindingType]) -> list[Binding]:
    return [binding for binding in bindings if isinstance(binding, Binding) and binding.id]
