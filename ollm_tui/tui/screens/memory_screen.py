"""Memory screen: search, read, edit and delete memories (001 R11)."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content

from ollm_tui.core.base.escape import visible
from ollm_tui.core.memory import MemoryScope
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import CloseMemory, DeleteMemory, ListMemories, SaveMemory, UndoMemoryChange
from ollm_tui.tui.screens.list_and_text import KeyHint
from ollm_tui.tui.screens.memory_browser import MemoryBrowser, list_row, listed_words, size_words
from ollm_tui.tui.screens.memory_editor import Editable, MemoryEditor
from ollm_tui.tui.screens.question_screens import YesNoScreen, ask_first
from ollm_tui.tui.styled_text import TextRole, app_of, set_rule
from ollm_tui.tui.values import MemoryListing, MemoryOutcome, MemoryText

READING = (
    KeyHint("e", "edit", "edit"),
    KeyHint("n", "new", "new('workspace')"),
    KeyHint("N", "new for all workspaces", "new('user')"),
    KeyHint("d", "delete", "delete"),
    KeyHint("u", "undo", "undo"),
    KeyHint("/", "search", "search"),
    KeyHint("s", "scope", "scope"),
    KeyHint("c", "copy", "copy"),
    KeyHint("Esc", "close", "back"),
)
EDITING = (KeyHint("^S", "save", "save"), KeyHint("Esc", "back", "back"))
CONFLICT = (EDITING[0], KeyHint("^T", "the other text, and back", "theirs"), EDITING[1])


@register_keys(KeyGroup.MEMORY)
class MemoryScreen(MemoryBrowser):
    """Screen of the memory: list, marked text, or the editor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *key_bindings(("escape", "back", "Back", "memory.back", "Leave editor, search, memory"), priority=True),
        Binding("ctrl+n", "back", "Close", show=False, priority=True),
        *key_bindings(
            ("slash", "search", "Search", "memory.search", "Search keys and texts"),
            ("s", "scope", "Scope", "memory.scope", "Show both scopes, the workspace's, the user's"),
            ("e", "edit", "Edit", "memory.edit", "Edit the marked memory"),
            ("n", "new('workspace')", "New", "memory.new", "A new memory for this workspace"),
            ("N", "new('user')", "New for all", "memory.new_user", "A new memory for all workspaces"),
            ("d", "delete", "Delete", "memory.delete", "Delete the marked memory, after a question"),
            ("u", "undo", "Undo", "memory.undo", "Undo your last change or deletion"),
            ("c", "copy", "Copy", "memory.copy", "Copy the text to the clipboard"),
        ),
        *key_bindings(
            ("ctrl+s", "save", "Save", "memory.save", "Save what is edited"),
            ("ctrl+t", "theirs", "Other text", "memory.theirs", "The text stored meanwhile"),
            priority=True,
        ),
    ]

    def __init__(self, presses: KeyPresses, containing: str = "", waiting: int = 0) -> None:
        """Initialize; `waiting` is the number of open questions."""
        super().__init__(containing)
        self._presses = presses
        self._waiting = waiting
        self._editor: MemoryEditor | None = None
        self._wanted = ""
        """The row to mark once a list contains it."""

    def on_mount(self) -> None:
        """Query the memories."""
        self._draw()
        self.post_message(ListMemories(self._query))

    def on_unmount(self) -> None:
        """Tell the backend that the memory is closed."""
        app_of(self).post_message(CloseMemory())

    # -- updates -------------------------------------------------------------------------------------------------------

    def take(self, message: updates.Update) -> None:
        """Show an update that concerns the memory."""
        match message:
            case updates.MemoryListUpdate(listing) if listing.query == self._query:
                self._show_listing(listing)
            case updates.MemoryTextUpdate(text):
                self._show_text(text)
            case updates.MemoryChangeUpdate():
                self._settle(message)
            case updates.QueueUpdate(queue):
                self._waiting = len(queue.pending)
                self._draw()
            case _:
                pass

    def _show_listing(self, listing: MemoryListing) -> None:
        self._listing = listing
        self._rows.show_rows([list_row(row) for row in listing.rows])
        self._rows.choose(self._wanted)
        self._wanted = ""
        self._read_marked()
        self._draw()

    def _show_text(self, text: MemoryText) -> None:
        editor = self._editor
        if editor is not None and editor.memory == text.name and text.value != editor.expected:
            editor.show_conflict(text.value)
        marked = self._marked
        if marked is not None and marked.name == text.name:
            same = self._text is not None and self._text.name == text.name
            self._text = text
            if text.value:
                self._shown.show_text(text.value, keep_place=same)
            else:
                self._shown.show_text("(gone)" if text.value is None else "(empty)", role=TextRole.MUTED)
        self._draw()

    def _settle(self, settled: updates.MemoryChangeUpdate) -> None:
        name = visible(settled.name.key) if settled.name is not None else ""
        match settled.outcome:
            case MemoryOutcome.SAVED:
                self._leave_editor()
                self.say(f"Saved {name}.", TextRole.OK)
                self._wanted = settled.name.row_id if settled.name is not None else ""
            case MemoryOutcome.DELETED:
                self.say(f"Deleted {name}. u brings it back.", TextRole.OK)
            case MemoryOutcome.RESTORED:
                self.say(f"Undone: {name} is as it was.", TextRole.OK)
            case MemoryOutcome.CONFLICT if self._editor is not None:
                self._editor.show_conflict(settled.stored)
            case MemoryOutcome.CONFLICT:
                self.say(f"{name} was changed elsewhere meanwhile: nothing was done.")
            case MemoryOutcome.FAILED:
                self.say(settled.message)
        self._draw()

    # -- changing ----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        editing = self._editor is not None
        match action:
            case "save":
                return editing
            case "theirs":
                return self._editor is not None and self._editor.conflicting
            case "search" | "scope" | "edit" | "new" | "delete" | "undo" | "copy":
                return not editing
            case _:
                return True

    async def action_edit(self) -> None:
        """Edit the marked memory."""
        text = self._text
        if text is None or text.value is None:
            return
        editable = await asyncio.to_thread(Editable.of, text.value)
        await self._open_editor(MemoryEditor(text.name, text.name.scope, text.value, editable))

    async def action_new(self, scope: str) -> None:
        """Write a new memory."""
        await self._open_editor(MemoryEditor(None, MemoryScope(scope), None, Editable("")))

    async def _open_editor(self, editor: MemoryEditor) -> None:
        if self._editor is not None:
            return
        self._editor = editor
        self.say("")
        self._shown.display = False
        self.add_class("-editing")
        await self._side.mount(editor)
        self._draw()

    def _leave_editor(self) -> None:
        if self._editor is not None:
            self._editor.remove()
            self._editor = None
            self.remove_class("-editing")
            self._shown.display = True
            self._rows.focus()

    async def action_save(self) -> None:
        """Save the edited text."""
        editor = self._editor
        if editor is None:
            return
        name = editor.memory
        if name is None:
            editor.ask_for_key()
            self.say("Give it a key first: what the text is about.")
            self._draw()
            return
        self.post_message(SaveMemory(name, editor.expected, await editor.value()))

    def action_theirs(self) -> None:
        """Show the text stored meanwhile, or go back."""
        if self._editor is not None:
            self._editor.show_theirs()

    def action_delete(self) -> None:
        """Delete the marked memory after asking."""
        marked = self._marked
        if marked is None:
            return
        first = visible(marked.first_line)
        facts = (f"{marked.name.scope.value}: {visible(marked.name.key)}", *((first,) if first else ()))
        question = YesNoScreen("Delete this memory?", facts, "delete; u brings it back", self._presses)
        ask_first(self, question, lambda: self.post_message(DeleteMemory(marked.name)))

    def action_undo(self) -> None:
        """Undo the last change."""
        self.post_message(UndoMemoryChange())

    def action_back(self) -> None:
        """Leave the editor, the search or the screen, in this order."""
        editor = self._editor
        if editor is not None and editor.touched:
            facts = ("What you typed here is not saved.",)
            question = YesNoScreen("Leave without saving?", facts, "leave, and drop it", self._presses)
            ask_first(self, question, self._drop)
        elif editor is not None:
            self._drop()
        elif not self.leave_search():
            self.action_close()

    def _drop(self) -> None:
        self._leave_editor()
        self._draw()

    # -- texts -------------------------------------------------------------------------------------------------------

    @property
    def hints(self) -> tuple[KeyHint, ...]:
        """The keys to show now."""
        if self._editor is None:
            return READING
        return CONFLICT if self._editor.conflicting else EDITING

    @on(MemoryEditor.PartShown)
    def _draw(self) -> None:
        """Draw titles and keys."""
        editor, text, marked = self._editor, self._text, self._marked
        self.entitle(f"Memory  {listed_words(self._listing)}" if self._listing is not None else self.TITLE_TEXT)
        waits = f"{self._waiting} question{'s' if self._waiting > 1 else ''} waiting: close, then F8"
        self._box.border_subtitle = Content(waits if self._waiting else "")
        if editor is not None:
            title = visible(editor.title)
        elif marked is None:
            title = ""
        else:
            title = f"{visible(marked.name.key)}  {marked.name.scope.value}  {size_words(marked.size)}"
        concern = text.concern if text is not None and marked is not None and editor is None else ""
        told = f"looks like {concern}: it does not go along with a first message" if concern else ""
        set_rule(self._side, title, told)
        self.draw_keys()
        self.refresh_bindings()
