"""`read_many_files`: read several files at once; each fails on its own (001 R2.8, 000 Property 9)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FileNotFound, OperationCancelled, ToolFailure
from ollm_tui.core.base.escape import quote_name, visible
from ollm_tui.core.base.output import OutputFormatter, TruncationConfig
from ollm_tui.core.base.results import ToolData, ToolError, ToolResult, UpdateOutput, Wire
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.search.glob_pattern import has_magic
from ollm_tui.core.search.listing import ListingOptions
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.glob import find_files, pattern_below
from ollm_tui.core.tools.listed_files import notes_of
from ollm_tui.core.tools.read_file import Content, ReadFileData, ReadFileParameters, read_content

MAX_FILES_OF_GLOB = 1000
"""Most files that are read for one pattern."""


class ReadFileOutcome(Wire):
    """One file's content, or the error that prevented reading it."""

    path: str
    file: ReadFileData | None = None
    error: ToolError | None = None


class ReadManyFilesData(ToolData):
    """The files in the requested order, each once."""

    files: tuple[ReadFileOutcome, ...]


class ReadManyFilesParameters(Parameters):
    """The files to read, as paths or patterns."""

    paths: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)


@dataclass(frozen=True)
class _Section:
    """One file's part of the result; without content or failure if unread."""

    path: str
    content: Content | None = None
    failure: ToolFailure | None = None

    @property
    def size(self) -> int:
        return self.content.data.size if self.content is not None else 0

    def for_model(self) -> str:
        if self.content is not None:
            return f"=== {self.path} ===\n{self.content.text}"
        return f"=== {self.path} ===\nError: {self.failure.message if self.failure is not None else 'not read'}"

    def outcome(self) -> ReadFileOutcome:
        file = self.content.data if self.content is not None else None
        return ReadFileOutcome(path=self.path, file=file, error=ToolError.of(self.failure) if self.failure else None)


class ReadManyFilesInvocation(ToolInvocation[ReadManyFilesParameters]):
    """A call that reads several files, one after the other."""

    def get_description(self) -> str:
        count = len(self.params.paths)
        named = ", ".join(quote_name(path) for path in self.params.paths[:3])
        return f"Read {named}" + (f" and {count - 3} more" if count > 3 else "")

    def tool_locations(self) -> list[str]:
        return list(self.params.paths)

    def touched_paths(self) -> list[TouchedPath]:
        """Return paths in the workspace, except patterns; others fail on their own."""
        touched: list[TouchedPath] = []
        for path in self.params.paths:
            try:
                location = self.context.fence.resolve(path)
            except ToolFailure:
                continue
            if os.path.lexists(location.real) or not has_magic(path):
                touched.append(TouchedPath(path, Access.READ))
        return touched

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Read the files. Fails only if all fail; OperationCancelled carries those read."""
        sections: list[_Section] = []
        notes: list[str] = []
        try:
            for wanted in await signal.in_thread(self._expanded, notes, signal):
                read = sum(section.size for section in sections)
                sections.append(await signal.in_thread(self._read, wanted, read, signal))
        except OperationCancelled:
            raise OperationCancelled(signal.reason, partial=_joined(sections)) from None
        return self._as_result(sections, notes)

    def _expanded(self, notes: list[str], signal: AbortSignal) -> list[_Section]:
        """Return the paths to read, each once, with patterns expanded."""
        wanted: dict[str, _Section] = {}
        for path in self.params.paths:
            if not has_magic(path) or self._is(os.path.lexists, path):
                wanted.setdefault(path, _Section(path))
                continue
            try:
                found = self._matching(path, notes, signal)
            except OperationCancelled:
                raise
            except ToolFailure as failure:
                wanted.setdefault(path, _Section(path, failure=failure))
                continue
            for each in found:
                wanted.setdefault(each, _Section(each))
        return list(wanted.values())

    def _is(self, test: Callable[[Path], bool], path: str) -> bool:
        try:
            return test(self.context.fence.resolve(path).real)
        except ToolFailure:
            return False

    def _matching(self, text: str, notes: list[str], signal: AbortSignal) -> list[str]:
        """Return the matching files. Raises FileNotFound, InvalidArguments and InvalidPath."""
        workspace = self.context.fence
        location = workspace.resolve(".")
        hidden = any(name.startswith(".") for name in text.split("/"))
        options = ListingOptions(include_hidden=hidden, skip_credentials=True)
        found = find_files(workspace, location, pattern_below(text, location), options, MAX_FILES_OF_GLOB, signal)
        notes += notes_of(found.listing, location)
        if found.stopped:
            notes.append(f"{visible(text)} matches more than {MAX_FILES_OF_GLOB} files; only the first were read")
        # A link to a folder is listed as a file, but nothing of it can be read.
        files = [path for path in found.paths if not self._is(Path.is_dir, path)]
        asking = [path for path in files if self._leads_to_protected(path)]
        if asking:
            notes.append(f"{len(asking)} left out that lead to credentials or settings; read_file asks a person")
            files = [path for path in files if path not in asking]
        if not files:
            raise FileNotFound(f"No file matches {visible(text)}. Try the pattern with glob.", {"path": text})
        return files

    def _leads_to_protected(self, path: str) -> bool:
        """Return whether a link that a pattern found leads to what asks: what it leads to was judged by no name."""
        fence = self.context.fence
        try:
            location = fence.resolve(path)
            is_link = location.real != fence.resolve(path, follow=False).real
        except ToolFailure:
            return False  # nor can it be read
        return is_link and fence.sensitivity(location, Access.READ) is not None

    def _read(self, wanted: _Section, already_read: int, signal: AbortSignal) -> _Section:
        if wanted.failure is not None:
            return wanted
        params = ReadFileParameters.model_validate({"path": wanted.path})
        try:
            return _Section(wanted.path, read_content(self.context, params, signal, already_read))
        except OperationCancelled:
            raise
        except ToolFailure as failure:
            return _Section(wanted.path, failure=failure)

    def _as_result(self, sections: Sequence[_Section], notes: Sequence[str]) -> ToolResult:
        limits = self.context.limits
        excerpt = OutputFormatter.excerpt(_joined(sections), TruncationConfig(limits.result_chars, limits.result_lines))
        failures = [section.failure for section in sections if section.failure is not None]
        read = len(sections) - len(failures)
        display = f"Read {read} {'file' if read == 1 else 'files'}"
        if excerpt.truncated:
            notes = [*notes, "what is left out can be read with read_file, file by file"]
        return ToolResult(
            llm_content=excerpt.content,
            return_display=f"{display}, {len(failures)} failed" if failures else display,
            error=ToolError.of(failures[0]) if failures and not read else None,
            data=ReadManyFilesData(files=tuple(section.outcome() for section in sections)),
            notes=tuple(notes),
            truncated=excerpt.truncated,
        )


def _joined(sections: Sequence[_Section]) -> str:
    """Join the sections with one blank line between them."""
    texts = [section.for_model() for section in sections]
    return "".join(text + ("\n" if text.endswith("\n") else "\n\n") for text in texts[:-1]) + "".join(texts[-1:])


READ_MANY_FILES = Tool(
    name="read_many_files",
    display_name="Read Many Files",
    description="Read several files at once. Paths may be patterns such as *.py.",
    group=ToolGroup.FS,
    effect=Effect.READS,
    parameters=ReadManyFilesParameters,
    invocation=ReadManyFilesInvocation,
    risk=Risk.LOW,
    returns=ReadManyFilesData,
)
