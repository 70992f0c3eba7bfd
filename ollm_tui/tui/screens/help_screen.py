"""Help: every key that can be pressed, written from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ollm_tui.tui.bindings import KeyGroup, display_key, key_bindings, key_groups, register_keys
from ollm_tui.tui.styled_text import StyledLine, TextRole, app_of, line
from ollm_tui.tui.widgets.line_view import LineView

WORDS = (
    "/help  /mode ask|auto-edit|plan|yolo  /theme NAME  /retry  /fold  /jobs  /quit   in the prompt",
    "/memory WORDS   in the prompt: what is remembered, narrowed to what has the words in it",
    "/trust   in the prompt: shows this folder's own .ollm/config.toml and asks whether it may count",
    "!command   in the prompt: types the command into your shell",
)


@register_keys(KeyGroup.DIALOGS)
class HelpScreen(ModalScreen[None]):
    """A scrollable list of keys by pane."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("escape,f1,q", "close", "Close", "help.close", "Close the help")
    )

    def __init__(self) -> None:
        super().__init__(name="help")
        self._lines = LineView("help-lines")

    def compose(self) -> ComposeResult:
        """Compose the list."""
        with Vertical(id="help-box") as box:
            box.border_title = "Help"
            box.border_subtitle = "PgUp/PgDn scroll   Esc close"
            yield self._lines

    def on_mount(self) -> None:
        """Fill and focus the list."""
        self._lines.show_lines(list(help_lines(app_of(self))))
        self._lines.focus()

    def action_close(self) -> None:
        """Close the help."""
        if self.is_current:
            self.dismiss()


def help_lines(app: App[object]) -> Iterator[StyledLine]:
    """Yield groups of keys with effects and their ids in `[keys]`."""
    changed = app._keymap  # pyright: ignore[reportPrivateUsage]  # textual has no reader for set_keymap

    def shown_keys(binding: Binding) -> str:
        keys = changed.get(binding.id or "", binding.key)
        return " ".join(display_key(app.get_key_display(Binding(key, ""))) for key in keys.split(","))

    groups = [(title, [(shown_keys(binding), binding) for binding in bindings]) for title, bindings in key_groups()]
    wide = max(len(keys) for _, rows in groups for keys, _ in rows)
    for title, rows in groups:
        yield line((title, TextRole.PRIMARY))
        for keys, binding in rows:
            spans = (
                (f"  {keys:<{wide}} ", TextRole.ACCENT),
                f"{binding.tooltip:<56}",
                (f" {binding.id}", TextRole.MUTED),
            )
            yield line(*spans, hang=wide + 3)
        yield line()
    yield line(("Prompt words", TextRole.PRIMARY))
    for words in WORDS:
        yield line(f"  {words}", hang=2)
    yield line()
    yield line(('Keys are changed by id under [keys] in config.toml:  "queue.review" = "f9"', TextRole.MUTED))
