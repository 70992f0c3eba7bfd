"""Screens: the dashboard, and those that open over it."""

from types import ModuleType


def load_all() -> tuple[ModuleType, ...]:
    """Import all that is otherwise imported when it is first opened, so that its keys are registered."""
    from ollm_tui.tui.panes import terminal_search_line
    from ollm_tui.tui.screens import (
        confirmation_screen,
        help_screen,
        jobs_screen,
        memory_screen,
        quit_screen,
        yes_no_screen,
    )
    from ollm_tui.tui.terminal import reading_view

    screens = (confirmation_screen, help_screen, jobs_screen, memory_screen, quit_screen, yes_no_screen)
    return (*screens, terminal_search_line, reading_view)
