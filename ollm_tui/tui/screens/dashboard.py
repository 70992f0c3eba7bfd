"""The dashboard: panes in their places, focus, and the news of the house handed to whom it concerns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.tui import news
from ollm_tui.tui.ink import app_of
from ollm_tui.tui.intents import Intent
from ollm_tui.tui.layout import ALL_CLASSES, Arrangement, Pane
from ollm_tui.tui.panes.confirmations import QueuePane
from ollm_tui.tui.panes.conversation import ConversationPane
from ollm_tui.tui.panes.terminal import TerminalPane
from ollm_tui.tui.panes.todos import TodoPane
from ollm_tui.tui.screens.reviewing import Reviewing
from ollm_tui.tui.values import Activity, Surroundings
from ollm_tui.tui.widgets.banner import Banner
from ollm_tui.tui.widgets.keybar import KeyBar
from ollm_tui.tui.widgets.prompt import Prompt
from ollm_tui.tui.widgets.status import StatusLine
from ollm_tui.tui.widgets.tabs import Tab, TabStrip
from ollm_tui.tui.widgets.transcript import Transcript

TOO_SMALL = "Window too small (need 40x10)"
UNDER_TERMINAL = ("review", "leave_terminal")
"""Actions whose keys stay with the app while a program has the keyboard."""


class Dashboard(Screen[None]):
    """The one main screen. Knows panes and values; never bus, agent or store."""

    AUTO_FOCUS = "#prompt"
    ESCAPE_TO_MINIMIZE = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f4", "mode", "Mode", id="app.mode", tooltip="Next policy mode: ask, auto-edit, plan", priority=True),
        Binding("f6", "pane(1)", "Next pane", id="pane.next", tooltip="Go to the next pane", priority=True),
        Binding(
            "shift+f6", "pane(-1)", "Pane before", id="pane.previous", tooltip="Go to the pane before", priority=True
        ),
        Binding("f7", "terminal_tab", "Next tab", id="terminal.tab", tooltip="Next tab of the terminal", priority=True),
        Binding(
            "f8", "review", "Review", id="queue.review", tooltip="Decide on the oldest open question", priority=True
        ),
        Binding("f9", "sidebar", "Sidebar", id="layout.sidebar", tooltip="Show or hide queue and todos", priority=True),
        Binding(
            "f10",
            "zoom",
            "Zoom",
            id="layout.zoom",
            tooltip="Give one pane the whole screen, or end that",
            priority=True,
        ),
        Binding("ctrl+t", "terminal", "Terminal", id="terminal.focus", tooltip="Go to the terminal", priority=True),
        Binding(
            "ctrl+right_square_bracket",
            "leave_terminal",
            "Leave terminal",
            id="terminal.leave",
            tooltip="From the terminal to the prompt; twice within a second sends the key itself",
        ),
        Binding("ctrl+f", "search", "Search", id="chat.search", tooltip="Search the conversation", priority=True),
        Binding("ctrl+o", "fold", "Fold all", id="chat.fold", tooltip="Open or fold all tool calls", priority=True),
        Binding("escape", "interrupt", "Interrupt", id="turn.interrupt", tooltip="Stop the running turn"),
    ]

    @dataclass
    class ModeWanted(Intent):
        """Another policy mode; None for the next in the circle."""

        mode: str | None

    @dataclass
    class InterruptWanted(Intent):
        """Stop the running turn."""

    def __init__(self, now: Callable[[], float], *, blink: bool = True) -> None:
        super().__init__(id="dashboard")
        self._now = now
        self.status = StatusLine()
        self.tabs = TabStrip("tabs")
        self.chat = ConversationPane(now)
        self.banner = Banner()
        self.prompt = Prompt(blink=blink)
        self.queue = QueuePane(now)
        self.todo = TodoPane()
        self.term = TerminalPane()
        self.keys = KeyBar()
        self.reviewing = Reviewing(self, now)
        self.arrangement = Arrangement()
        self._started = 0.0
        self._what = ""
        self._ticker: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.tabs
        with Horizontal(id="top"):
            with Vertical(id="left"):
                yield self.chat
                yield self.banner
                yield self.prompt
            with Vertical(id="side"):
                yield self.queue
                yield self.todo
        yield self.term
        yield self.keys
        yield Static(TOO_SMALL, id="too-small", markup=False)

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1.0, self.tick, pause=True)
        self._arrange(columns=self.app_size[0], rows=self.app_size[1])

    # -- news --------------------------------------------------------------------------------------------------------

    @on(news.News)
    def take(self, message: news.News) -> None:
        """Hand news to whom it concerns."""
        match message:
            case news.ConversationChanged(change):
                self.chat.apply(change)
            case news.QueueChanged(queue):
                self.reviewing.take(queue)
                self._show_waiting()
            case news.TodosChanged(todos):
                self.todo.todos = todos
                self._draw_tabs()
            case news.ActivityChanged(activity, what, fault):
                self._take_activity(activity, what, fault)
            case news.SurroundingsChanged(around):
                self._take_surroundings(around)
            case news.CommandsChanged(commands):
                self.term.show_commands(commands)
                self._draw_tabs()
            case news.Reviewed(item_id, review, arguments):
                self.reviewing.show_review(item_id, review, arguments)
            case news.MessageTaken(text):
                if self.prompt.text.strip() == text:
                    self.prompt.clear_draft()
            case news.FaultsFound(faults):
                for fault in faults:
                    self.notify(fault.as_text(), severity="warning", timeout=30, markup=False)
            case news.Said(text, failed):
                self.notify(text, severity="error" if failed else "information", markup=False)
            case _:
                pass

    @on(Intent)
    def _pass_on(self, intent: Intent) -> None:
        """Wishes go to the app by hand: Textual ends the bubbling of what was made while this screen handled news."""
        intent.stop()
        app_of(self).post_message(intent)

    def tick(self) -> None:
        """A second has passed while something runs or a question's clock does."""
        self._show_detail()
        self.reviewing.tick()
        self.chat.transcript.tick()
        self._show_waiting()

    def _take_activity(self, activity: Activity, what: str, fault: str) -> None:
        if activity is not self.status.activity:
            self._started = self._now()
        self._what = what
        self.status.activity = activity
        self.chat.fault = fault
        self._show_detail()
        self._pace()
        self.refresh_bindings()

    def _take_surroundings(self, around: Surroundings) -> None:
        self.status.surroundings = around
        self.queue.policy_words = around.mode if not around.denied_because else "everything is denied"
        words = [] if not around.model else [f"Model: {around.model}{'  (offline)' if around.offline else ''}"]
        self.chat.welcome([*words, f"Workspace: {around.workspace}", f"Policy: {around.mode}"])

    def _show_detail(self) -> None:
        seconds = f"{int(self._now() - self._started)}s"
        self.status.detail = " ".join(part for part in (self._what, seconds) if part)

    def _show_waiting(self) -> None:
        queue = self.reviewing.queue
        waiting = len(queue.pending)
        self.status.waiting = self.banner.waiting = waiting
        deadline = queue.next_deadline
        self.banner.seconds_left = None if deadline is None else max(0.0, deadline - self._now())
        self.keys.labels = {"queue.review": f"Review({waiting})"}
        self._draw_tabs()
        self._pace()
        self.refresh_bindings()

    def _pace(self) -> None:
        """Count seconds only while some are to be seen: an idle screen runs no timer."""
        busy = self.status.activity not in (Activity.IDLE, Activity.FAILED)
        if self._ticker is not None:
            if busy or self.reviewing.queue.next_deadline is not None:
                self._ticker.resume()
            else:
                self._ticker.pause()

    # -- layout and focus --------------------------------------------------------------------------------------------

    @property
    def app_size(self) -> tuple[int, int]:
        return self.size.width, self.size.height

    def on_resize(self, event: events.Resize) -> None:
        self._arrange(columns=event.size.width, rows=event.size.height)

    def _arrange(self, **changes: int | Pane | bool | None) -> None:
        self.arrangement = replace(self.arrangement, **changes)
        classes = self.arrangement.classes()
        for name in ALL_CLASSES:
            self.set_class(name in classes, name)
        self._draw_tabs()
        focused = self.focused
        if focused is None or not _in_sight(focused):
            self.call_after_refresh(self._rescue_focus)

    def _rescue_focus(self) -> None:
        if self.focused is None or not _in_sight(self.focused):
            self.prompt.focus()

    def _draw_tabs(self) -> None:
        waiting = len(self.reviewing.queue.pending)
        self.tabs.show_tabs(
            [
                Tab(Pane.CHAT, "Chat"),
                Tab(Pane.TERM, "Term"),
                Tab(Pane.TODO, str(self.todo.border_title or "Todo")),
                Tab(Pane.QUEUE, f"Queue {waiting}!" if waiting else "Queue"),
            ],
            self.arrangement.tab,
        )

    def go_to(self, pane: Pane) -> None:
        """Bring a pane into sight and focus it."""
        zoomed = self.arrangement.zoomed
        self._arrange(
            tab=pane, zoomed=pane if zoomed else None, sidebar=self.arrangement.sidebar, in_terminal=pane is Pane.TERM
        )
        target = self._target(pane)
        self.call_after_refresh(target.focus)

    def show_terminal(self) -> None:
        """Bring the terminal into sight without going there."""
        if not self.arrangement.in_sight(Pane.TERM):
            self._arrange(tab=Pane.TERM, in_terminal=True)

    def go_to_prompt(self) -> None:
        zoomed = self.arrangement.zoomed
        self._arrange(in_terminal=False, zoomed=zoomed if zoomed is Pane.CHAT else None)
        if self.arrangement.tab is Pane.TERM and not self.arrangement.wide:
            self._arrange(tab=Pane.CHAT)
        self.call_after_refresh(self.prompt.focus)

    def _target(self, pane: Pane) -> Widget:
        match pane:
            case Pane.CHAT:
                return self.chat.focus_target
            case Pane.QUEUE:
                return self.queue.focus_target
            case Pane.TODO:
                return self.todo.focus_target
            case Pane.TERM:
                return self.term.focus_target

    def _focused_pane(self) -> Pane | None:
        holders = {Pane.CHAT: self.chat, Pane.QUEUE: self.queue, Pane.TODO: self.todo, Pane.TERM: self.term}
        return next((pane for pane, holder in holders.items() if holder.has_focus_within), None)

    @on(TabStrip.Chosen, "#tabs")
    def _tab_clicked(self, event: TabStrip.Chosen) -> None:
        self.go_to(Pane(event.tab_id))

    # -- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if self.term.captures_keys and action not in UNDER_TERMINAL:
            return False
        match action:
            case "review":
                return bool(self.reviewing.queue.pending)
            case "leave_terminal":
                return self.term.has_focus_within
            case "interrupt":
                return self.status.activity not in (Activity.IDLE, Activity.FAILED)
            case _:
                return True

    def action_mode(self) -> None:
        self.post_message(self.ModeWanted(None))

    def action_choose_mode(self, mode: str) -> None:
        """Another mode by name; the one without questions is asked about first."""
        if mode != "yolo":
            self.post_message(self.ModeWanted(mode))
            return
        from ollm_tui.tui.screens.ask import AskScreen

        facts = ("What the policy would ask about runs without a question.", "Denies and deletions' questions stay.")
        app_of(self).push_screen(AskScreen("Mode yolo?", facts, "let it run"), self._yolo_if)

    def _yolo_if(self, yes: bool | None) -> None:
        if yes:
            self.post_message(self.ModeWanted("yolo"))

    def action_pane(self, step: int) -> None:
        ring: list[Pane | None] = [None, *Pane]
        if self.arrangement.wide and not self.arrangement.sidebar:
            ring = [None, Pane.CHAT, Pane.TERM]
        current = self._focused_pane()
        place = ring.index(current) if current in ring else 0
        pane = ring[(place + step) % len(ring)]
        if pane is None:
            self.go_to_prompt()
        else:
            self.go_to(pane)

    def action_terminal_tab(self) -> None:
        self.term.action_turn(1)

    def action_review(self) -> None:
        self.reviewing.open_oldest()

    def action_sidebar(self) -> None:
        self._arrange(sidebar=not self.arrangement.sidebar)

    def action_zoom(self) -> None:
        self._arrange(zoomed=None if self.arrangement.zoomed else self._focused_pane() or Pane.CHAT)

    def action_terminal(self) -> None:
        self.go_to(Pane.TERM)

    def action_leave_terminal(self) -> None:
        self.go_to_prompt()

    def action_search(self) -> None:
        self.go_to(Pane.CHAT)
        self.chat.action_search()

    def action_fold(self) -> None:
        self.chat.transcript.fold_all()

    def action_interrupt(self) -> None:
        self.post_message(self.InterruptWanted())

    @on(TerminalPane.Left)
    def _left_terminal(self) -> None:
        self.go_to_prompt()

    @on(QueuePane.ReviewAsked)
    def _review_asked(self, event: QueuePane.ReviewAsked) -> None:
        self.reviewing.open(event.item_id)

    @on(Prompt.ScrollAsked)
    def _scroll_asked(self, event: Prompt.ScrollAsked) -> None:
        if event.pages:
            self.chat.transcript.action_page(event.pages)
        else:
            self.chat.transcript.action_follow()

    @on(Transcript.CopyAsked)
    def _copy(self, event: Transcript.CopyAsked) -> None:
        app_of(self).copy_to_clipboard(event.text)
        self.notify(f"{len(event.text)} characters copied.", markup=False)

    @on(Prompt.Edited)
    def _draft_edited(self) -> None:
        self.reviewing.key_pressed()


def _in_sight(widget: Widget) -> bool:
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
