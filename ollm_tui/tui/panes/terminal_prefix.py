"""The prefix of the terminal pane: what the next key does, shown over its last row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from textual import events
from textual._keyboard_protocol import MODIFIER_FUNCTIONAL_KEYS
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, display_key, key_bindings, register_keys
from ollm_tui.tui.styled_text import StyledLine, TextRole, app_of, line
from ollm_tui.tui.widgets.text_box import OneRow

PREFIX_SECONDS = 1.0
"""How long the next key is waited for; without one the terminal is left."""

TAB_ID = "prefix.tab"
"""Of the keys that bring a tab to the front by its place."""


class PrefixAction(StrEnum):
    """What a key after the prefix does."""

    ZOOM = "zoom"
    NEXT = "next"
    PREVIOUS = "previous"
    TALLER = "taller"
    LOWER = "lower"
    READ = "read"
    SHELL = "shell"
    NEW_SHELL = "new_shell"
    CLOSE_SHELL = "close_shell"
    SEND_PREFIX = "send_prefix"
    SEND_REVIEW = "send_review"


def _row(key: str, action: PrefixAction, name: str, tooltip: str) -> tuple[str, str, str, str, str]:
    return key, f"choose('{action}')", name, f"prefix.{action}", tooltip


@register_keys(KeyGroup.PREFIX)
class TerminalPrefix(OneRow, can_focus=True):
    """Menu that has the focus while the next key is waited for; it takes no room of its own."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        _row("z", PrefixAction.ZOOM, "Zoom", "Give the terminal the whole screen, or end that"),
        _row("n", PrefixAction.NEXT, "Tab", "Next terminal"),
        _row("p", PrefixAction.PREVIOUS, "Tab", "Terminal before"),
        ("1,2,3,4,5,6,7,8,9", "choose_tab", "Tab", TAB_ID, "Terminal by its place in the line of tabs"),
        _row("plus", PrefixAction.TALLER, "Rows", "Give the terminal more rows; may be repeated"),
        _row("minus", PrefixAction.LOWER, "Rows", "Give the terminal fewer rows; may be repeated"),
        _row("left_square_bracket", PrefixAction.READ, "Read", "Scroll, search and select with keys"),
        _row("s", PrefixAction.SHELL, "Shell", "Your shell, started again if it has ended"),
        _row("c", PrefixAction.NEW_SHELL, "New", "Open a further shell of yours"),
        _row("x,ampersand", PrefixAction.CLOSE_SHELL, "Close", "Close the shell in front; asks if it is busy"),
        _row("right_square_bracket,ctrl+right_square_bracket", PrefixAction.SEND_PREFIX, "Send", "Send ctrl+] itself"),
        _row("f8", PrefixAction.SEND_REVIEW, "Send", "Send F8 to the program"),
        show=False,
    )

    @dataclass
    class KeyChosen(Message):
        """The person chose what to do."""

        action: PrefixAction

    @dataclass
    class TabChosen(Message):
        """The person chose a tab by its place."""

        number: int

    class Ended(Message):
        """No key of the menu came: the terminal is left."""

    def __init__(self) -> None:
        super().__init__("term-prefix")
        self._timer: Timer | None = None
        self._pressed = ""

    def on_mount(self) -> None:
        """Take the focus, and wait for a key."""
        self.focus()
        # The time runs from where the person can read the keys: a busy machine paints late.
        self.call_after_refresh(self._wait)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PREFIX_SECONDS, self._end)

    def _end(self) -> None:
        if self.screen.focused is self:
            self.post_message(self.Ended())

    def on_focus(self) -> None:
        """Show the keys that hold from now on."""
        self.call_after_refresh(self.refresh)

    def on_blur(self) -> None:
        """Go, since another widget has the focus."""
        self.remove()  # not awaited: its end waits for the end of this handler

    def yields_to(self, event: events.Key | events.Paste) -> bool:
        """Leave the terminal for a paste or a key of the app; True when the event has to wait for that."""
        if isinstance(event, events.Key):
            bound = self.screen.active_bindings.get(event.key)
            if event.key == "escape" or bound is None or bound.node not in (self.screen, app_of(self)):
                return False
        self._end()
        return True

    async def _on_key(self, event: events.Key) -> None:
        """Leave at a key that nobody knows; it does nothing, not even in the prompt."""
        self._pressed = event.key
        if event.key in (binding.key for binding in self._own_keys()) or event.key in (
            "escape",
            *MODIFIER_FUNCTIONAL_KEYS,
        ):
            return
        event.stop()
        event.prevent_default()
        name = event.character if event.is_printable and event.character else display_key(event.key)
        self.notify(f"^] knows no {visible(name)}: the key went to nobody.", markup=False)
        self._end()

    def _own_keys(self) -> list[Binding]:
        """Return the menu's keys, as they are set."""
        return [bound.binding for bound in self.screen.active_bindings.values() if bound.node is self]

    def action_choose(self, action: str) -> None:
        """Do what the key stands for; sizes may be changed by several keys in a row."""
        chosen = PrefixAction(action)
        if chosen in (PrefixAction.TALLER, PrefixAction.LOWER):
            self._wait()
        self.post_message(self.KeyChosen(chosen))

    def action_choose_tab(self) -> None:
        """Bring a tab to the front: the first key that is set for this stands for the first."""
        keys = [binding.key for binding in self._own_keys() if binding.id == TAB_ID]
        if self._pressed in keys:
            self.post_message(self.TabChosen(keys.index(self._pressed) + 1))

    def row(self, width: int) -> StyledLine:
        """Return the keys and what they do; those of one word stand together, so that 80 columns hold them all."""
        parts: list[str | tuple[str, TextRole]] = [("^] ", TextRole.STRONG)]
        for words, shown in self._keys_by_word().items():
            parts += [(" ".join(shown), TextRole.ACCENT), f" {words}  "]
        return line(*parts).cut(width)

    def _keys_by_word(self) -> dict[str, list[str]]:
        """Return the keys to show for each word: the first of an action, of the tabs' first and last."""
        by_id: dict[str, list[Binding]] = {}
        for binding in self._own_keys():
            by_id.setdefault(binding.id or binding.action, []).append(binding)
        by_word: dict[str, list[str]] = {}
        for bindings in by_id.values():
            shown = [display_key(app_of(self).get_key_display(binding)) for binding in bindings]
            is_range = bindings[0].id == TAB_ID and len(shown) > 1
            by_word.setdefault(bindings[0].description, []).append(f"{shown[0]}-{shown[-1]}" if is_range else shown[0])
        return by_word
