"""`write_file`: create a file or replace its whole content (001 R3.1-R3.4, 000 Properties 10-12)."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    EncodingFailure,
    FileChanged,
    FileExists,
    FileNotFound,
    FileWriteFailed,
    InvalidArguments,
    IsADirectory,
    ToolFailure,
)
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult
from ollm_tui.core.bus.confirmation import DiffPreview, Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access, Location
from ollm_tui.core.files.diff import FileDiff, diff_texts
from ollm_tui.core.files.snapshots import ABSENT, fingerprint_of, read_snapshot, replace, require_file
from ollm_tui.core.files.text_files import (
    UTF_8,
    DecodedText,
    Encoding,
    Newline,
    decode,
    newline_style,
)
from ollm_tui.core.tools.base import (
    CallFacts,
    Effect,
    Parameters,
    Tool,
    ToolGroup,
    TouchedPath,
)
from ollm_tui.core.tools.file_changes import (
    FileChangeInvocation,
    facts_of_writing,
    find_omission,
    link_notes,
    link_warnings,
)


class WriteFileParameters(Parameters):
    """Where to write, and what."""

    path: str
    content: str
    overwrite: bool = False
    encoding: Literal["utf-8", "base64"] = "utf-8"
    create_dirs: bool = True


class WriteFileData(ToolData):
    """The written file: `size` in bytes; `diff` only between texts."""

    path: str
    size: int
    created: bool
    encoding: str | None = None
    diff: FileDiff | None = None


@dataclass(frozen=True)
class _Existing:
    """The existing file; `raw` is None if too large, `decoded` if not text."""

    status: os.stat_result
    raw: bytes | None
    decoded: DecodedText | None

    @property
    def fingerprint(self) -> str:
        if self.raw is not None:
            return fingerprint_of(self.raw)
        return f"{self.status.st_dev}:{self.status.st_ino}:{self.status.st_size}:{self.status.st_mtime_ns}"


@dataclass(frozen=True)
class _WritePlan:
    """The bytes to write, based on one state of the file."""

    raw: bytes
    encoding: Encoding | None
    """None for base64."""
    old: _Existing | None
    diff: FileDiff | None = None
    notes: tuple[str, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        return self.old is not None and self.old.raw == self.raw

    @property
    def fingerprint(self) -> str:
        return ABSENT if self.old is None else self.old.fingerprint

    def data(self, location: Location, size: int) -> WriteFileData:
        return WriteFileData(
            path=location.shown,
            size=size,
            created=self.old is None,
            encoding=self.encoding.codec if self.encoding else None,
            diff=self.diff,
        )


class WriteFileInvocation(FileChangeInvocation[WriteFileParameters]):
    """A call that writes one file."""

    _judged_new: bool = False
    """Whether the policy judged the file as new."""
    _previewed: str | None = None
    """Fingerprint of the file in the preview that a person saw."""

    def get_description(self) -> str:
        verb = "Overwrite" if self.params.overwrite else "Write"
        return f"{verb} {visible(self.params.path)} ({_amount(self.params)})"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.path, Access.WRITE)]

    def facts(self) -> CallFacts:
        """Return `$exists` among the rest: whether the file exists."""
        path = self._locations()[0].real
        self._judged_new = not os.path.lexists(path)
        return facts_of_writing(self.tool, path, is_free=self._judged_new)

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise FileExists and the like; return a result if nothing would change."""
        (location,) = self._locations()
        plan = await signal.in_thread(self._plan, location)
        return _no_change(location, plan) if plan.changes_nothing else None

    async def _preview(self) -> Preview | None:
        (location,) = self._locations()
        plan, warnings = await AbortSignal().in_thread(self._plan_with_warnings, location)
        self._previewed = plan.fingerprint
        if plan.diff is not None:
            return DiffPreview(diff=plan.diff, created=plan.old is None, warnings=warnings)
        old = f" in the place of {plan.old.status.st_size:,}" if plan.old else ""
        return TextPreview(text=f"Write {len(plan.raw):,} bytes{old} to {location.shown}", warnings=warnings)

    def _fingerprint(self, locations: Sequence[Location]) -> str:
        (location,) = locations
        old = self._existing(location)
        return f"{location.real}\0{ABSENT if old is None else old.fingerprint}"

    def _existing(self, location: Location) -> _Existing | None:
        status = require_file(self.context.fence, location)
        if status is None:
            return None
        if status.st_size > self.context.limits.file_bytes:
            return _Existing(status, None, None)
        snapshot = read_snapshot(self.context.fence, location, self.context.limits.file_bytes)
        try:
            decoded = decode(snapshot.raw, location.shown, "")
        except ToolFailure:
            decoded = None
        return _Existing(snapshot.status, snapshot.raw, decoded)

    def _plan(self, location: Location) -> _WritePlan:
        """Plan the write, without changes. Blocks; raises ToolFailure."""
        old = self._existing(location)
        if old is None:
            self._refuse_missing_folder(location)
        elif not self.params.overwrite:
            raise FileExists(
                f"{location.shown} exists already. To replace its whole content send overwrite=true; to change a part "
                "of it use edit_file.",
                {"path": location.shown, "size": old.status.st_size},
            )
        if self.params.encoding == "base64":
            return _WritePlan(_bytes_of(self.params.content), None, old)
        return _text_plan(self.params.content, location, old)

    def _refuse_missing_folder(self, location: Location) -> None:
        if self.params.path.endswith("/"):
            raise IsADirectory(
                f"{visible(self.params.path)} names a directory. Give the path of the file.",
                {"path": location.shown},
            )
        if not self.params.create_dirs and not location.real.parent.is_dir():
            parent = self.context.fence.shown(location.real.parent)
            raise FileNotFound(
                f"{location.shown}: the directory {parent} does not exist. Send createDirs=true to create it.",
                {"path": location.shown},
            )

    def _change(self, locations: Sequence[Location], signal: AbortSignal) -> ToolResult:
        """Write the file atomically."""
        (location,) = locations
        plan = self._plan(location)
        if plan.changes_nothing:
            return _no_change(location, plan)
        self._refuse_unseen(location, plan)
        made = self.context.fence.create_parents(location) if plan.old is None and self.params.create_dirs else []
        try:
            old_status = plan.old.status if plan.old else None
            written = replace(self.context.fence, location, [plan.raw], old_status, signal, otherwise=FileWriteFailed)
        except ToolFailure:
            self.context.fence.remove_created(location, made)
            raise
        self.context.seen.note(location.real, plan.raw)
        notes = (*plan.notes, *(link_notes(location, plan.old.status) if plan.old else ()))
        return ToolResult.of_text(
            f"Successfully wrote {_amount(self.params)} to {location.shown}",
            plan.diff.as_text() if plan.diff else "",
            data=plan.data(location, written.st_size),
            notes=notes,
        )

    def _refuse_unseen(self, location: Location, plan: _WritePlan) -> None:
        """Raise FileChanged if the file changed since it was judged or previewed."""
        appeared = self._judged_new and plan.old is not None
        if appeared or (self._previewed is not None and self._previewed != plan.fingerprint):
            raise FileChanged(
                f"{location.shown} was {'created' if appeared else 'changed'} by somebody else while the call waited. "
                "Nothing was written; read it and decide again.",
                {"path": location.shown},
            )

    def _plan_with_warnings(self, location: Location) -> tuple[_WritePlan, tuple[str, ...]]:
        plan = self._plan(location)
        warnings: list[str] = []
        omission = find_omission(self.params.content) if plan.encoding else None
        if omission is not None:
            line, text = omission
            warnings.append(f"Line {line} looks like a placeholder for left-out text: {visible(text)}")
        if plan.old is not None:
            warnings += link_warnings(location, plan.old.status)
            if plan.old.raw is None:
                warnings.append("The old content is too large to be compared")
        return plan, (*warnings, *(note.capitalize() for note in plan.notes))


def _text_plan(content: str, location: Location, old: _Existing | None) -> _WritePlan:
    decoded = old.decoded if old else None
    notes: list[str] = []
    if decoded and decoded.newline is Newline.CRLF and newline_style(content) is Newline.LF:
        content = content.replace("\n", "\r\n")
        notes.append("the file's lines end in CRLF; the new content was given the same line ends")
    raw, encoding = _encoded(content, location, decoded, notes)
    before = decoded.text if decoded else None if old else ""
    diff = None if before is None else diff_texts(location.shown, before, content)
    return _WritePlan(raw, encoding, old, diff, tuple(notes))


def _encoded(content: str, location: Location, decoded: DecodedText | None, notes: list[str]) -> tuple[bytes, Encoding]:
    """Encode in the old file's encoding if that round-trips, else in UTF-8."""
    if decoded is not None and decoded.encoding != UTF_8:
        old = decoded.encoding
        try:
            raw = old.encode(content, location.shown)
            if decode(raw, location.shown, "").text == content.removeprefix("\ufeff" if old.mark else ""):
                notes.append(f"the file's encoding {old.codec} was kept")
                return raw, old
        except ToolFailure:
            pass  # it cannot hold the new content, or would not be recognised by it
        notes.append(f"the file's encoding {old.codec} cannot hold the new content; it is UTF-8 now")
    try:
        return content.encode("utf-8"), UTF_8
    except UnicodeEncodeError as error:
        raise EncodingFailure(
            f"{location.shown}: the content has half of a surrogate pair (U+{ord(content[error.start]):04X}) at "
            f"character {error.start + 1}, which no file can hold. Send the whole character.",
            {"path": location.shown},
        ) from None


def _bytes_of(content: str) -> bytes:
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArguments(
            f"write_file: content is no valid base64 ({error}). Send standard base64 with padding, or leave out "
            "encoding to write text."
        ) from None


def _no_change(location: Location, plan: _WritePlan) -> ToolResult:
    text = f"No change: {location.shown} has this content already"
    return ToolResult.of_text(text, data=plan.data(location, len(plan.raw)), notes=plan.notes)


def _amount(params: WriteFileParameters) -> str:
    """Return the number of characters, or of bytes for base64."""
    if params.encoding == "base64":
        digits = sum(1 for character in params.content if not character.isspace() and character != "=")
        return f"{digits * 3 // 4} bytes"
    return f"{len(params.content)} characters"


def _leaves_out(params: WriteFileParameters) -> bool:
    return params.encoding == "utf-8" and find_omission(params.content) is not None


WRITE_FILE = Tool(
    name="write_file",
    display_name="Write File",
    description="Create a file with its whole content; overwrite=true replaces one. For parts use edit_file.",
    group=ToolGroup.FS,
    effect=Effect.WRITES,
    parameters=WriteFileParameters,
    invocation=WriteFileInvocation,
    risk=Risk.MEDIUM,
    returns=WriteFileData,
    requires_approval=_leaves_out,
)
