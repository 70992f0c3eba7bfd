"""Help: every key that can be pressed, written from the bindings, and the topics of the documentation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from ollm_tui.docs import list_topics, read_topic
from ollm_tui.tui.bindings import KeyGroup, display_key, key_bindings, key_groups, register_keys
from ollm_tui.tui.layout import WIDE_COLUMNS
from ollm_tui.tui.slash_commands import SlashCommands
from ollm_tui.tui.styled_text import StyledLine, TextRole, app_of, line
from ollm_tui.tui.values import NoteEntry
from ollm_tui.tui.widgets.block_painting import Block, LinesBlock
from ollm_tui.tui.widgets.entry_blocks import markdown_blocks
from ollm_tui.tui.widgets.markdown_blocks import split_markdown
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen
from ollm_tui.tui.widgets.row_list import ListRow, RowList
from ollm_tui.tui.widgets.scroll_surface import ScrollSurface

SHELL_LINE = "!command   types the command into your shell"
ALL_KEYS = ListRow("", (line("All keys"),))
"""The first row of the list; the others are topics, by name."""


class HelpText(ScrollSurface):
    """Blocks of one page, painted where they are in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_rows(1)", show=False),
        Binding("up,k", "scroll_rows(-1)", show=False),
        Binding("pagedown,space", "scroll_pages(1)", show=False),
        Binding("pageup", "scroll_pages(-1)", show=False),
        Binding("home,g", "scroll_pages(-1000)", show=False),
        Binding("end,G", "scroll_pages(1000)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(lambda _: self._blocks, "help-text")
        self._blocks: Sequence[Block] = ()

    def show_blocks(self, blocks: Sequence[Block]) -> None:
        """Show another page from its top."""
        self._blocks = blocks
        self.document.clear()
        self.document.upsert(NoteEntry("page", ""))
        self.go_to(0)
        self.reset_position()
        self.following = False
        self.update_layout()

    def action_scroll_rows(self, rows: int) -> None:
        """Scroll by rows, at once."""
        self.go_to(self.scroll_offset.y + rows)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by pages, at once."""
        self.go_to(self.scroll_offset.y + pages * max(1, self.size.height - 2))


@register_keys(KeyGroup.DIALOGS)
class HelpScreen(OverlayScreen[None]):
    """The topics and the text of the marked one; a narrow window has room for one of them."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("escape,f1,q", "close", "Close", "help.close", "Close the help"),
        ("tab,shift+tab", "swap", "Topics", "help.topics", "In the help: to the topics, and back to the text"),
    )

    def __init__(self, commands: SlashCommands) -> None:
        super().__init__(name="help")
        self._commands = commands
        self._topics = RowList("help-topics")
        self._text = HelpText()

    def compose(self) -> ComposeResult:
        """Compose the list and the text."""
        with Vertical(id="help-box") as box:
            box.border_title = "Help"
            box.border_subtitle = "PgUp/PgDn scroll   Tab topics   Esc close"
            with Horizontal():
                yield self._topics
                yield self._text

    def on_mount(self) -> None:
        """Show all keys, and list the topics."""
        self._text.show_blocks([LinesBlock(tuple(help_lines(app_of(self), self._commands)))])
        self.set_focus(self._text)
        self._topics.show_rows([ALL_KEYS])
        self.run_worker(self._list_topics, group="topics")

    async def _list_topics(self) -> None:
        topics = await asyncio.to_thread(list_topics)
        self._topics.show_rows([ALL_KEYS, *(ListRow(topic.name, (line(topic.name),)) for topic in topics)])

    def on_resize(self, event: events.Resize) -> None:
        """Adapt to the width."""
        self.set_class(event.size.width < WIDE_COLUMNS, "-narrow")
        self._show_part(topics=self._topics.has_focus)

    @on(RowList.Moved)
    def _show_marked(self) -> None:
        # A factory: a worker replaced before it began leaves no coroutine that was never awaited.
        self.run_worker(partial(self._show_topic, self._topics.chosen_id or ""), exclusive=True)

    async def _show_topic(self, name: str) -> None:
        if not name:
            self._text.show_blocks([LinesBlock(tuple(help_lines(app_of(self), self._commands)))])
        else:
            text = await asyncio.to_thread(read_topic, name)
            self._text.show_blocks([*markdown_blocks(split_markdown(text))])

    @on(RowList.Opened)
    def action_swap(self) -> None:
        """Focus the topics, or the text."""
        to_topics = not self._topics.has_focus
        self._show_part(topics=to_topics)
        self.set_focus(self._topics if to_topics else self._text)  # at once: the next key may be on its way

    def _show_part(self, *, topics: bool) -> None:
        narrow = self.has_class("-narrow")
        self._topics.display = topics or not narrow
        self._text.display = not topics or not narrow

    def action_close(self) -> None:
        """Close the help."""
        if self.is_current:
            self.dismiss()


def help_lines(app: App[object], commands: SlashCommands) -> Iterator[StyledLine]:
    """Yield groups of keys with their effects, then the words of the prompt."""
    changed = app._keymap  # pyright: ignore[reportPrivateUsage]  # textual has no reader for set_keymap

    def shown_keys(binding: Binding) -> str:
        keys = changed.get(binding.id or "", binding.key)
        return " ".join(display_key(app.get_key_display(Binding(key, ""))) for key in keys.split(","))

    groups = [(title, [(shown_keys(binding), binding) for binding in bindings]) for title, bindings in key_groups()]
    wide = max(len(keys) for _, rows in groups for keys, _ in rows)
    for title, rows in groups:
        yield line((title, TextRole.PRIMARY))
        for keys, binding in rows:
            yield line((f"  {keys:<{wide}} ", TextRole.ACCENT), binding.tooltip, hang=wide + 3, prose=True)
        yield line()
    yield line(("In the prompt", TextRole.PRIMARY))
    for words in (*commands.help_lines(), SHELL_LINE):
        yield line(f"  {words}", hang=2, prose=True)
    yield line()
    yield line(("Keys can be changed; the topic `keys` tells how, and lists the name of each.", TextRole.MUTED))
