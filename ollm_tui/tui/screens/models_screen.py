"""Models screen: what the servers have, and taking another one."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import BindingType

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.protocol.intents import ChooseModel
from ollm_tui.tui.protocol.models import ListModels, ModelRow, ModelsUpdate
from ollm_tui.tui.protocol.updates import Update
from ollm_tui.tui.screens.list_and_text import KeyHint, ListAndTextScreen
from ollm_tui.tui.styled_text import TextRole, app_of, line
from ollm_tui.tui.widgets.row_list import ListRow, RowList

NONE = (
    "No model server answers. Start one (`ollama serve`, or `llama-server -m FILE --jinja`), then r looks again. "
    "/pull NAME has Ollama load a model."
)


@register_keys(KeyGroup.MODELS)
class ModelsScreen(ListAndTextScreen):
    """List of models; Enter takes the marked one for the session."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("r", "look", "Look again", "models.look", "Ask the servers again"),
        ("tab", "read", "Read", "models.read", "From the list to the text, and back"),
        ("escape,q", "close", "Close", "models.close", "Close the models"),
    )
    TITLE_TEXT = "Models"
    KEYS = (
        KeyHint("Enter", "take it", "take"),
        KeyHint("r", "look again", "look"),
        KeyHint("Tab", "read", "read"),
        KeyHint("Esc", "close", "close"),
    )

    def __init__(self) -> None:
        super().__init__("models")
        self._listed: dict[str, ModelRow] = {}

    def on_mount(self) -> None:
        """Ask the servers."""
        self.action_look()

    def take(self, message: Update) -> None:
        """Show what the servers have."""
        if isinstance(message, ModelsUpdate):
            self._listed = {f"{row.server} {row.name}": row for row in message.rows}
            self._rows.show_rows([_list_row(row_id, row) for row_id, row in self._listed.items()])
            self.entitle(f"Models  {len(message.rows)}")
            current = next((row_id for row_id, row in self._listed.items() if row.current), None)
            if current is not None:
                self._rows.choose(current)
            self._show_marked()

    @on(RowList.Moved)
    def _show_marked(self) -> None:
        row = self._listed.get(self._rows.chosen_id or "")
        self.show(row.name if row is not None else "", row.details if row is not None else NONE)

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.action_take()

    def action_take(self) -> None:
        """Take the marked model, and close."""
        row = self._listed.get(self._rows.chosen_id or "")
        if row is not None and self.is_current:
            if not row.current:
                app_of(self).post_message(ChooseModel(row.name, row.server))
            self.dismiss()

    def action_look(self) -> None:
        """Ask the servers again."""
        self.post_message(ListModels())


def _list_row(row_id: str, row: ModelRow) -> ListRow:
    mark = "* " if row.current else "  "
    name = line((mark, TextRole.OK), (visible(row.name), TextRole.STRONG if row.current else TextRole.PLAIN))
    facts = (line((f"  {visible(row.facts)}", TextRole.MUTED)),) if row.facts else ()
    return ListRow(row_id, (name, *facts))
