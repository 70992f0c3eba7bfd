"""Frame of the dashboard: pane arrangement and focus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.layout import ALL_CLASSES, LEAST_ROWS, LEAST_TERMINAL_ROWS, ROWS_STEP, Arrangement, Pane
from ollm_tui.tui.links import LinkToPrompt, prompt_text
from ollm_tui.tui.panes.confirmations_pane import QueuePane
from ollm_tui.tui.panes.conversation_pane import ConversationPane
from ollm_tui.tui.panes.messages_pane import MessagesPane
from ollm_tui.tui.panes.terminal_pane import TerminalPane
from ollm_tui.tui.panes.terminal_prefix import PrefixAction, TerminalPrefix
from ollm_tui.tui.panes.todos_pane import TodoPane
from ollm_tui.tui.styled_text import TextRole
from ollm_tui.tui.terminal import LEAVE_KEY, REVIEW_KEY
from ollm_tui.tui.widgets.footer import KeyFooter
from ollm_tui.tui.widgets.prompt import Prompt
from ollm_tui.tui.widgets.row_list import RowList
from ollm_tui.tui.widgets.status_line import StatusLine, WaitingBanner
from ollm_tui.tui.widgets.tab_strip import Tab, TabStrip

TOO_SMALL = "Window too small (need 40x10)"

_CLOSED = {Pane.QUEUE: "Queue: nothing to approve", Pane.TODO: "Todo: none yet", Pane.TERM: "Terminal: ^T your shell"}


class PaneScreen(Screen[None]):
    """Screen that applies an `Arrangement` and moves the focus along."""

    AUTO_FOCUS = "#prompt"
    ESCAPE_TO_MINIMIZE = False

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(id="dashboard")
        self._now = now
        self.presses = KeyPresses(now)
        """The keys pressed anywhere in the app."""
        self.status = StatusLine()
        self.tabs = TabStrip("tabs")
        self.chat = ConversationPane(now)
        self.banner = WaitingBanner()
        self.messages = MessagesPane()
        self.prompt = Prompt()
        self.queue = QueuePane(self.presses)
        self.todo = TodoPane(self.presses)
        self.term = TerminalPane(now)
        self.keys = KeyFooter()
        self._holders = {Pane.CHAT: self.chat, Pane.QUEUE: self.queue, Pane.TODO: self.todo, Pane.TERM: self.term}
        self.arrangement = Arrangement()

    def compose(self) -> ComposeResult:
        """Compose the panes."""
        yield self.status
        yield self.tabs
        with Vertical(id="body"):
            with Horizontal(id="top"):
                with Vertical(id="left"):
                    yield self.chat
                    yield self.banner
                    yield self.messages
                    yield self.prompt.menu
                    yield self.prompt
                with Vertical(id="side"):
                    yield self.queue
                    yield self.todo
            yield self.term
        yield self.keys
        yield Static(TOO_SMALL, id="too-small", markup=False)

    @property
    def waiting(self) -> int:
        """How many questions are open."""
        return len(self.queue.queue.pending)

    def on_resize(self, event: events.Resize) -> None:
        """Arrange the panes for the size."""
        self.rearrange(columns=event.size.width, rows=event.size.height)

    def rearrange(self, **changes: int | Pane | bool | frozenset[Pane] | None) -> None:
        """Change the arrangement; a hidden focus returns to the prompt."""
        self.arrangement = replace(self.arrangement, **changes)
        classes = self.arrangement.classes()
        # At once: each single change would restyle the whole screen.
        self.update_classes({name: name in classes for name in ALL_CLASSES})
        self.term.styles.height = self.arrangement.terminal_rows if self.arrangement.shares_height else None
        self.draw_tabs()
        focused = self.focused
        if focused is None or not _in_sight(focused):
            self.call_after_refresh(self._rescue_focus)

    def _rescue_focus(self) -> None:
        if self.focused is None or not _in_sight(self.focused):
            self.prompt.focus()

    def give_room(self, *, also_less: bool = False) -> None:
        """Give panes that have something to show their room; with `also_less` take it from those that have nothing.

        That is for moments in which the person moves the screen anyway: text that is being read stays where it is.
        """
        full = {Pane.QUEUE: bool(self.waiting), Pane.TODO: bool(self.todo.todos), Pane.TERM: self.term.has_content}
        empty = frozenset(pane for pane, filled in full.items() if not filled)
        if not also_less:
            empty &= self.arrangement.empty
        if empty != self.arrangement.empty:
            self.rearrange(empty=empty)

    def draw_tabs(self) -> None:
        """Draw the narrow layout's tabs, or words for panes with nothing to show."""
        waiting, closed = self.waiting, self.arrangement.closed
        if closed:
            self.tabs.show_tabs([Tab(pane, _CLOSED[pane], TextRole.MUTED) for pane in closed], "")
            return
        self.tabs.show_tabs(
            [
                Tab(Pane.CHAT, "Chat"),
                Tab(Pane.TERM, "Term"),
                Tab(Pane.TODO, self.todo.title),
                Tab(Pane.QUEUE, f"Queue {waiting}!" if waiting else "Queue"),
            ],
            self.arrangement.tab,
        )

    def go_to(self, pane: Pane) -> None:
        """Bring a pane into sight and focus it."""
        in_sight = self.arrangement.in_sight(pane)
        self.bring(pane)
        if in_sight:
            self.set_focus(self._holders[pane].focus_target)
        else:
            self.call_after_refresh(self._focus_pane, pane)

    def bring(self, pane: Pane) -> None:
        """Bring a pane into sight."""
        zoomed = pane if self.arrangement.zoomed else None
        self.rearrange(tab=pane, zoomed=zoomed, visited=pane)

    def _focus_pane(self, pane: Pane) -> None:
        self._holders[pane].focus_target.focus()

    def go_to_prompt(self) -> None:
        """Bring the prompt into sight and focus it."""
        zoomed = self.arrangement.zoomed
        self.rearrange(visited=None, zoomed=zoomed if zoomed is Pane.CHAT else None)
        if self.arrangement.tab is Pane.TERM and not self.arrangement.wide:
            self.rearrange(tab=Pane.CHAT)
        self.call_after_refresh(self.prompt.focus)

    def _focused_pane(self) -> Pane | None:
        return next((pane for pane, holder in self._holders.items() if holder.has_focus_within), None)

    @on(TabStrip.Chosen, "#tabs")
    def _tab_clicked(self, event: TabStrip.Chosen) -> None:
        self.go_to(Pane(event.tab_id))

    @on(RowList.Opened, "#prompt-menu")
    def _choice_clicked(self) -> None:
        self.prompt.accept()
        self.prompt.focus()

    @on(Prompt.ScrollAsked)
    def _scroll_asked(self, event: Prompt.ScrollAsked) -> None:
        if event.pages:
            self.chat.transcript.action_page(event.pages)
        else:
            self.chat.transcript.action_follow()

    # -- actions of layout -------------------------------------------------------------------------------------------

    def action_pane(self, step: int) -> None:
        """Focus the next or previous pane."""
        ring: list[Pane | None] = [None, *Pane]
        if self.arrangement.wide and self.arrangement.sidebar is False:
            ring = [None, Pane.CHAT, Pane.TERM]
        current = self._focused_pane()
        place = ring.index(current) if current in ring else 0
        pane = ring[(place + step) % len(ring)]
        if pane is None:
            self.go_to_prompt()
        else:
            self.go_to(pane)

    def action_sidebar(self) -> None:
        """Show or hide the sidebar."""
        self.rearrange(sidebar=not self.arrangement.in_sight(Pane.QUEUE))

    def action_zoom(self) -> None:
        """Zoom the focused pane, or undo that."""
        self.rearrange(zoomed=None if self.arrangement.zoomed else self._focused_pane() or Pane.CHAT)


def _in_sight(widget: Widget) -> bool:
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))


class TerminalFocusScreen(PaneScreen):
    """Screen with the keys that enter and leave the terminal."""

    def show_terminal(self) -> None:
        """Bring the terminal into sight without going there."""
        if not self.arrangement.in_sight(Pane.TERM):
            self.rearrange(tab=Pane.TERM, visited=Pane.TERM)

    def action_terminal(self) -> None:
        """Go to the terminal, preferably a running one."""
        self.term.prefer_live()
        self.go_to(Pane.TERM)

    def action_terminal_tab(self) -> None:
        """Show the next terminal tab."""
        self.term.action_turn(1)

    async def action_leave_terminal(self) -> None:
        """Wait for the key that says what the prefix is for; without one leave the terminal."""
        if not self.term.query(TerminalPrefix):
            await self.term.mount(TerminalPrefix())

    @on(TerminalPrefix.KeyChosen)
    def _prefix_chosen(self, event: TerminalPrefix.KeyChosen) -> None:
        match event.action:
            case PrefixAction.TALLER | PrefixAction.LOWER:
                self.resize_terminal(ROWS_STEP if event.action is PrefixAction.TALLER else -ROWS_STEP)
                return
            case PrefixAction.ZOOM:
                self.action_zoom()
            case PrefixAction.NEXT | PrefixAction.PREVIOUS:
                self.term.action_turn(1 if event.action is PrefixAction.NEXT else -1)
            case PrefixAction.READ:
                self.term.read()
            case PrefixAction.SHELL:
                self.term.go_to_shell()
            case PrefixAction.NEW_SHELL:
                self.term.new_shell()
            case PrefixAction.CLOSE_SHELL:
                self.term.close_shell()
            case PrefixAction.SEND_PREFIX | PrefixAction.SEND_REVIEW:
                if self.term.view is not None:
                    self.term.view.send_key(LEAVE_KEY if event.action is PrefixAction.SEND_PREFIX else REVIEW_KEY)
        self.go_to(Pane.TERM)

    @on(TerminalPrefix.TabChosen)
    def _tab_chosen(self, event: TerminalPrefix.TabChosen) -> None:
        self.term.choose_number(event.number)
        self.go_to(Pane.TERM)

    def resize_terminal(self, rows: int) -> None:
        """Give the terminal more or fewer rows, where it shares the height."""
        if self.arrangement.shares_height:
            wanted = self.term.outer_size.height + rows
            self.rearrange(terminal_rows=min(max(wanted, LEAST_TERMINAL_ROWS), self.size.height - LEAST_ROWS))
        else:
            self.notify("The terminal has all the rows there are.", markup=False)

    def action_read_terminal(self) -> None:
        """Open the terminal's output for reading."""
        self.go_to(Pane.TERM)
        self.call_after_refresh(self.term.read)

    def action_send_selection(self) -> None:
        """Send the terminal's selection to the prompt."""
        self.term.action_send()

    @on(TerminalPane.SelectionSent)
    def _selection_sent(self, event: TerminalPane.SelectionSent) -> None:
        self.prompt.refer_to(event.excerpt)
        self.go_to_prompt()

    @on(LinkToPrompt)
    def _link_to_prompt(self, event: LinkToPrompt) -> None:
        self.prompt.insert(f"{prompt_text(event.link, self.term.workspace)} ")
        self.go_to_prompt()

    @on(TerminalPane.SelectionChanged)
    def _selection_changed(self) -> None:
        self.refresh_bindings()

    async def action_search(self) -> None:
        """Search the terminal or the conversation."""
        if self.term.has_focus_within and self.term.view is not None:
            await self.term.search.ask(self.term.view)
            return
        self.bring(Pane.CHAT)
        self.call_after_refresh(self.chat.action_search)

    @on(TerminalPrefix.Ended)
    @on(TerminalPane.Left)
    def _left_terminal(self) -> None:
        self.go_to_prompt()
