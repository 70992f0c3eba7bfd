"""Cutting a result to what a model should read; the whole text goes where `read_file` can reach it (001 R9)."""

from __future__ import annotations

from ollm_tui.core.base.output import OutputFormatter, OutputStore, TruncationConfig
from ollm_tui.core.base.results import Artifact, ToolResult
from ollm_tui.core.tools.base import Limits

NOTES_KEPT = 100
"""Notes of one result; a call with ten thousand unknown parameters gets one for each."""

NOTE_CHARS = 2_000
"""A longer note is cut: it may name what the model sent."""


async def excerpted(result: ToolResult, limits: Limits, outputs: OutputStore | None, call_id: str) -> ToolResult:
    """The result, cut where it is over the limits; where its whole text cannot be kept, a note says so."""
    text = result.llm_content
    config = _config(limits)
    if not OutputFormatter.exceeds(text, config):
        return result
    path: str | None = None
    notes = result.notes
    if outputs is not None:
        try:
            path = str(await outputs.save(call_id, text))
        except OSError as error:
            notes = (*notes, f"the full text could not be kept: {error.strerror or error}")
    cut = OutputFormatter.excerpt(text, config, path)
    artifacts = (*result.artifacts, Artifact(kind="full-text", path=path)) if path else result.artifacts
    changes = {"llm_content": cut.content, "truncated": True, "artifacts": artifacts, "notes": notes}
    return result.model_copy(update=changes)


def notes_kept(notes: tuple[str, ...]) -> tuple[str, ...]:
    """What a model should read of the notes, which stand outside of the text that is cut."""
    kept = tuple(note if len(note) <= NOTE_CHARS else f"{note[:NOTE_CHARS]}..." for note in notes[:NOTES_KEPT])
    more = len(notes) - len(kept)
    return (*kept, f"{more} more notes are left out") if more else kept


def shown(text: str, limits: Limits) -> str:
    """What the screen and the log get of a result's display."""
    config = _config(limits)
    return OutputFormatter.excerpt(text, config).content if OutputFormatter.exceeds(text, config) else text


def _config(limits: Limits) -> TruncationConfig:
    return TruncationConfig(max_chars=limits.result_chars, max_lines=limits.result_lines)
