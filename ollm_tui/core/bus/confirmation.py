"""What is asked of a person and what comes back (001 R7.8, R8; contract section 3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ollm_tui.core.base.results import ExecutionPlace, JsonObject, Wire
from ollm_tui.core.bus.states import Origin, RememberScope, Risk
from ollm_tui.core.files.diff import FileDiff


class CommandPreview(Wire):
    """A command as it will run: the whole line, never shortened."""

    kind: Literal["command"] = "command"
    command: str
    cwd: str
    place: ExecutionPlace = ExecutionPlace.THIS_MACHINE
    parts: tuple[str, ...] = ()
    """The simple commands found in it."""
    warnings: tuple[str, ...] = ()
    """What a person should know before saying yes, in words."""


class DiffPreview(Wire):
    """The change a write or an edit makes."""

    kind: Literal["diff"] = "diff"
    diff: FileDiff
    created: bool
    warnings: tuple[str, ...] = ()


class FileToDelete(Wire):
    """One entry a deletion takes; `size` in bytes."""

    path: str
    size: int


class DeletionPreview(Wire):
    """What a deletion takes; `files` may be cut, `count` and `total_size` never are."""

    kind: Literal["deletion"] = "deletion"
    files: tuple[FileToDelete, ...]
    count: int
    total_size: int
    warnings: tuple[str, ...] = ()


class TextPreview(Wire):
    """Anything else, as plain text."""

    kind: Literal["text"] = "text"
    text: str
    warnings: tuple[str, ...] = ()


class UrlPreview(Wire):
    """A request to a web server; what looks like a secret is masked, the host never is."""

    kind: Literal["url"] = "url"
    url: str
    scheme: str
    host: str
    """In ASCII, with the port where it is not the scheme's own."""
    method: str
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    body: str | None = None
    on_this_machine: bool = False
    """Whether it never leaves the machine."""
    warnings: tuple[str, ...] = ()


Preview = Annotated[
    CommandPreview | DiffPreview | DeletionPreview | TextPreview | UrlPreview, Field(discriminator="kind")
]


class ConfirmationDetails(Wire):
    """What a person is shown: always our own words and the parsed action, never the model's narration of it."""

    tool_name: str = Field(min_length=1)
    description: str = Field(min_length=1)
    risk: Risk
    locations: tuple[str, ...] = ()
    args: JsonObject = Field(default_factory=dict)
    preview: Preview | None = None
    cage_problem: str | None = None
    """Why it cannot run in the cage for work; empty where a yes can choose that, None where there is no choice."""


class ConfirmationRequest(Wire):
    """A question waiting for its one answer; times are UTC in ISO 8601, `timeout` is in seconds."""

    id: str
    call_id: str = ""
    details: ConfirmationDetails
    reason: str = ""
    """One sentence naming the deciding rule."""
    origin: str = Origin.MODEL
    """Who proposed the call, as `origin_of` words it."""
    created_at: str
    timeout: float | None = None
    deadline: str | None = None
    replaces: str | None = None
    """The request that this one follows, as its arguments or what it is about changed after that was shown."""

    @property
    def proposed_by(self) -> Origin:
        """The origin without the name of a sub-agent."""
        kind, _, _ = self.origin.partition(", task:")
        return Origin.MODEL if kind.startswith("task:") else Origin(kind)


def origin_of(origin: Origin, task: str) -> str:
    """Return an origin in words, with the name of the sub-agent where one proposed the call."""
    named = f"task:{task}"
    return origin if not task else named if origin is Origin.MODEL else f"{origin}, {named}"


class ConfirmationResponse(Wire):
    """The answer to the request of the same id."""

    id: str
    approved: bool
    modified_args: JsonObject | None = None
    reviewed: str | None = None
    """The digest of the review that showed the effect of `modified_args`; without it they are asked about anew."""
    caged: bool = False
    """Run it in the cage for work, whatever the settings say."""
    reason: str | None = None
    """Given to the model word for word when denied."""
    remember: RememberScope | None = None
    remember_pattern: str | None = None
    """The pattern to remember where the person edited the proposed one."""
