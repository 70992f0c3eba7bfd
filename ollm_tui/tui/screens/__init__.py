"""Screens: the dashboard and the modal ones."""

from types import ModuleType


def load_all() -> tuple[ModuleType, ...]:
    """Import all lazily loaded screens, so that their keys are registered."""
    from ollm_tui.tui.panes import terminal_search_line
    from ollm_tui.tui.screens import (
        confirmation_screen,
        group_screen,
        help_screen,
        jobs_screen,
        memory_screen,
        models_screen,
        policy_screen,
        question_screens,
        rewind_screen,
        sessions_screen,
        undo_screen,
    )
    from ollm_tui.tui.terminal import link_view, reading_view

    screens = (
        confirmation_screen,
        group_screen,
        help_screen,
        jobs_screen,
        memory_screen,
        models_screen,
        policy_screen,
        question_screens,
    )
    return (*screens, rewind_screen, sessions_screen, undo_screen, terminal_search_line, reading_view, link_view)
