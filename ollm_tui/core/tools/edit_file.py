"""`edit_file`: replace passages of a file, and no other byte (001 R3.5-R3.7, 000 Properties 13-15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_field

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    EditNoChange,
    EditTargetAmbiguous,
    EditTargetNotFound,
    FileChanged,
    FileEditFailed,
)
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult, Wire
from ollm_tui.core.bus.confirmation import DiffPreview, Preview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access, Location
from ollm_tui.core.files.diff import FileDiff, diff_replacement, diff_texts
from ollm_tui.core.files.snapshots import FileSnapshot, is_same_file, read_snapshot, replace, require_file
from ollm_tui.core.files.text_files import Encoding, decode
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, TouchedPath
from ollm_tui.core.tools.edit_matching import AmbiguousEdit, Edit, EditMatch, MatchKind, NoEditMatch, Text, find
from ollm_tui.core.tools.edit_messages import ambiguous, not_found
from ollm_tui.core.tools.file_changes import FileChangeInvocation, link_notes, link_warnings


class EditFileParameters(Parameters):
    """The file, and its edits in order."""

    path: str
    edits: list[Edit] = Field(min_length=1)


class AppliedEdit(Wire):
    """Where one edit was made; lines count after the edits before it."""

    match: MatchKind
    first_line: int
    last_line: int


class EditFileData(ToolData):
    """The edited file: `size` in bytes, `match` the least exact of `applied`."""

    path: str
    size: int
    edits: int
    match: MatchKind
    applied: tuple[AppliedEdit, ...]
    encoding: str
    diff: FileDiff


@dataclass(frozen=True)
class _EditPlan:
    """The edits applied to one state of the file."""

    snapshot: FileSnapshot
    raw: bytes
    """The whole new content."""
    encoding: Encoding
    matches: tuple[EditMatch, ...]
    diff: FileDiff


class EditFileInvocation(FileChangeInvocation[EditFileParameters]):
    """A call that edits one file."""

    _planned: _EditPlan | None = None
    """The plan made when the call was checked or previewed."""
    _previewed: FileDiff | None = None
    """The diff in the preview that a person saw."""

    def get_description(self) -> str:
        count = len(self.params.edits)
        return f"Edit {visible(self.params.path)} ({count} {'edit' if count == 1 else 'edits'})"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.path, Access.WRITE)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise FileNotFound, BinaryFile, EDIT_* and the like before anyone is asked."""
        await signal.in_thread(self._plan, *self._locations())
        return None

    async def _preview(self) -> Preview | None:
        """Return the diff; None if the edits fail, which the call reports."""
        (location,) = self._locations()
        try:
            plan = await AbortSignal().in_thread(self._plan, location)
        except (EditTargetNotFound, EditTargetAmbiguous, EditNoChange):
            return None
        self._previewed = plan.diff
        warnings = (note.capitalize() for note in _match_notes(plan.matches))
        warnings = (*warnings, *link_warnings(location, plan.snapshot.status))
        return DiffPreview(diff=plan.diff, created=False, warnings=warnings)

    def _read(self, location: Location) -> FileSnapshot:
        if require_file(self.context.fence, location) is None:
            raise self.context.fence.missing(location, "Check the path with ls or glob; write_file creates new files.")
        return read_snapshot(self.context.fence, location, self.context.limits.file_bytes)

    def _fingerprint(self, locations: Sequence[Location]) -> str:
        (location,) = locations
        return f"{location.shown}\0{self._read(location).fingerprint}"

    def _plan(self, location: Location) -> _EditPlan:
        """Plan the edits, without changes. Blocks; raises ToolFailure."""
        snapshot = self._read(location)
        planned = self._planned
        if planned is not None and planned.snapshot.raw == snapshot.raw:
            return replace_field(planned, snapshot=snapshot)
        self._planned = _plan_edits(location.shown, snapshot, self.params.edits, strict=self.context.strict_edits)
        return self._planned

    def _change(self, locations: Sequence[Location], signal: AbortSignal) -> ToolResult:
        """Apply all edits or none."""
        (location,) = locations
        plan, notes = self._plan_for_writing(location)
        if not notes and self.context.seen.differs(location.real, plan.snapshot.raw):
            notes.append("the file was changed since it was read; the targets still fit and the edit was applied")
        written = replace(
            self.context.fence, location, [plan.raw], plan.snapshot.status, signal, otherwise=FileEditFailed
        )
        self._planned = None
        self.context.seen.note(location.real, plan.raw)
        if not is_same_file(written, self.context.fence.status(location)):
            notes.append("another program has changed the file again since it was written")
        notes += [*_match_notes(plan.matches), *link_notes(location, plan.snapshot.status)]
        count = len(self.params.edits)
        return ToolResult.of_text(
            f"Successfully applied {count} edits to {location.shown}",
            plan.diff.as_text(),
            data=EditFileData(
                path=location.shown,
                size=written.st_size,
                edits=count,
                match=max((match.kind for match in plan.matches), key=list(MatchKind).index),
                applied=tuple(
                    AppliedEdit(match=match.kind, first_line=match.first_line, last_line=match.last_line)
                    for match in plan.matches
                ),
                encoding=plan.encoding.codec,
                diff=plan.diff,
            ),
            notes=tuple(notes),
        )

    def _plan_for_writing(self, location: Location) -> tuple[_EditPlan, list[str]]:
        """Plan again, with notes. Raises FileChanged if it differs from the preview."""
        before = self._planned
        try:
            plan = self._plan(location)
        except (EditTargetNotFound, EditTargetAmbiguous, EditNoChange) as failure:
            if self._previewed is None:
                raise
            raise self._changed(location, failure.message) from None
        if before is None or before.snapshot.raw == plan.snapshot.raw:
            return plan, []
        if self._previewed is None:
            return plan, ["the file was changed while the call waited; the targets still fit and the edit was applied"]
        if not _same_change(self._previewed, plan.diff):
            raise self._changed(location, "The edits would now change something else.")
        return plan, ["the file was changed after the edit was shown; the edit still fits and was applied"]

    @staticmethod
    def _changed(location: Location, why: str) -> FileChanged:
        return FileChanged(
            f"{location.shown} was changed after the edit was shown to the person, and nothing was written. {why} "
            "Read it again and send the edit anew.",
            {"path": location.shown},
        )


def _plan_edits(shown: str, snapshot: FileSnapshot, edits: Sequence[Edit], *, strict: bool) -> _EditPlan:
    """Apply `edits` in order to a file's bytes, changing only the matches. Raises ToolFailure."""
    advice = "Only text can be edited; write_file with encoding=base64 replaces the whole file."
    decoded = decode(snapshot.raw, shown, advice)
    raw, encoding, text = snapshot.raw, decoded.encoding, Text(decoded.text)
    matches: list[EditMatch] = []
    for number, edit in enumerate(edits, 1):
        match = _locate(shown, number, len(edits), edit, text, strict=strict)
        head, tail = _byte_span(match, text.text, len(raw), encoding, shown)
        rest = memoryview(raw)
        raw = b"".join((rest[:head], encoding.encode_part(match.replacement, shown), rest[tail:]))
        matches.append(match)
        if len(edits) > 1:
            text = Text(f"{text.text[: match.start]}{match.replacement}{text.text[match.end :]}")
    if raw == snapshot.raw:
        raise EditNoChange(
            f"The edits leave {shown} as it is: what one of them changes another changes back.", {"path": shown}
        )
    if len(matches) == 1:
        only = matches[0]
        diff = diff_replacement(shown, text.text, only.start, only.end, only.replacement, only.first_line)
    else:
        diff = diff_texts(shown, decoded.text, text.text)
    return _EditPlan(snapshot, raw, encoding, tuple(matches), diff)


def _locate(shown: str, number: int, count: int, edit: Edit, text: Text, *, strict: bool) -> EditMatch:
    if edit.target == edit.replacement:
        raise EditNoChange(
            f"Edit {number} of {count}: target and replacement are the same text. Nothing was written to {shown}.",
            {"path": shown, "edit": number},
        )
    match find(text, edit, strict=strict):
        case EditMatch() as match:
            return match
        case NoEditMatch() as miss:
            raise not_found(shown, number, count, edit, text, miss)
        case AmbiguousEdit() as found:
            raise ambiguous(shown, number, count, found)


def _byte_span(match: EditMatch, text: str, size: int, encoding: Encoding, shown: str) -> tuple[int, int]:
    """Return the match's byte offsets, encoding only the shorter side around it."""
    if encoding.unit == 1 and text.isascii():
        return match.start, match.end
    span = len(encoding.encode_part(text[match.start : match.end], shown))
    if match.start <= len(text) - match.end:
        head = len(encoding.mark) + len(encoding.encode_part(text[: match.start], shown))
        return head, head + span
    tail = size - len(encoding.encode_part(text[match.end :], shown))
    return tail - span, tail


def _same_change(shown: FileDiff, now: FileDiff) -> bool:
    """Return whether both diffs change the same lines, at any line number."""
    return [hunk.lines for hunk in shown.hunks] == [hunk.lines for hunk in now.hunks] and shown.omitted == now.omitted


def _match_notes(matches: Sequence[EditMatch]) -> list[str]:
    notes: list[str] = []
    for number, match in enumerate(matches, 1):
        one = match.first_line == match.last_line
        lines = f"line {match.first_line}" if one else f"lines {match.first_line}-{match.last_line}"
        matched = f"edit {number} was matched at {lines}"
        if match.kind is MatchKind.TRAILING_SPACE:
            notes.append(f"{matched}, which differ from the target in trailing white space")
        elif match.kind is MatchKind.INDENTATION:
            notes.append(f"{matched}, which differ from the target in indentation; the replacement was indented to fit")
    return notes


EDIT_FILE = Tool(
    name="edit_file",
    display_name="Edit File",
    description="Replace text in a file. Copy each target exactly; it must occur once, or lineHint picks one.",
    group=ToolGroup.FS,
    effect=Effect.WRITES,
    parameters=EditFileParameters,
    invocation=EditFileInvocation,
    risk=Risk.MEDIUM,
    returns=EditFileData,
)
