"""What a tool call ends in (000 `ToolResult`, 003 `value`/`error`, 004 `output`/`artifacts`; 001 R10.7, R12.6)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SerializeAsAny
from pydantic.alias_generators import to_camel

from ollm_tui.core.base.errors import Slug, ToolFailure

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object as it comes from a model or goes to a program."""

UpdateOutput: TypeAlias = Callable[[str], None]
"""Takes each further piece of folded text while a tool runs (001 R9.4)."""


class Wire(BaseModel):
    """A frozen value at a border: camelCase outside, snake_case inside."""

    # Built at first use: most of a hundred models are not needed for the first screen, and each costs memory.
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", defer_build=True
    )


class ToolError(Wire):
    """The error of a result; `type` and `message` are always set (000 Property 57)."""

    type: str
    code: str
    slug: Slug
    message: str
    details: JsonObject = Field(default_factory=dict)

    @classmethod
    def of(cls, failure: ToolFailure) -> ToolError:
        """Return the error as results carry it."""
        return cls(
            type=failure.type,
            code=failure.code,
            slug=failure.slug,
            message=failure.message,
            details=dict(failure.details),
        )


class Artifact(Wire):
    """Something a tool left behind beside its text: a full log, a screenshot."""

    kind: str
    path: str


class ToolData(Wire):
    """Base of what a tool reports to programs as `data`; each tool has its own model."""


class ExecutionPlace(StrEnum):
    """Where a call's programs run, as a person reads it (contract section 8)."""

    READING_CAGE = "caged, reads only"
    WORK_CAGE = "caged, writes in the workspace"
    THIS_MACHINE = "on this machine"


class ToolResult(Wire):
    """The outcome of one call, for the model (`llm_content`), the screen (`return_display`) and programs (`data`)."""

    llm_content: str = Field(min_length=1)
    return_display: str
    error: ToolError | None = None
    data: SerializeAsAny[ToolData] | None = None
    notes: tuple[str, ...] = ()
    exit_code: int | None = None
    artifacts: tuple[Artifact, ...] = ()
    truncated: bool = False
    place: ExecutionPlace | None = None
    """Where its programs ran; None where it started none."""
    duration_ms: int = 0
    waited_ms: int = 0

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None

    @property
    def value(self) -> ToolData | None:
        """003's name for `data`."""
        return self.data

    @property
    def output(self) -> str:
        """004's name for `llm_content`."""
        return self.llm_content

    def for_model(self) -> str:
        """Return the text a model reads: the content, then the notes."""
        return "\n".join((self.llm_content, *(f"[note: {note}]" for note in self.notes)))

    def on_stdout(self) -> JsonObject:
        """Return the result as programs read it: camelCase, nothing where there is nothing (contract section 1)."""
        shown: JsonObject = {"ok": self.ok}
        try:
            shown.update(self.model_dump(mode="json", by_alias=True, exclude_none=True))
        except ValueError as error:  # data of a plug-in's tool: nested too deeply, or no JSON at all
            left_out = f"the data is left out, since it cannot be written as JSON: {error}"
            return self.model_copy(update={"data": None, "notes": (*self.notes, left_out)}).on_stdout()
        return {key: value for key, value in shown.items() if value != []}

    @classmethod
    def of_text(
        cls, llm_content: str, display: str = "", *, data: ToolData | None = None, notes: tuple[str, ...] = ()
    ) -> ToolResult:
        """Return a success; `display` defaults to the content."""
        return cls(llm_content=llm_content, return_display=display or llm_content, data=data, notes=notes)

    @classmethod
    def of_failure(cls, failure: ToolFailure, *, notes: tuple[str, ...] = ()) -> ToolResult:
        """Return a failure; output produced before it is kept in front of the message."""
        said = f"{failure.type}: {failure.message}"
        content = f"{failure.partial}\n\n{said}" if failure.partial else said
        return cls(llm_content=content, return_display=content, error=ToolError.of(failure), notes=notes)
