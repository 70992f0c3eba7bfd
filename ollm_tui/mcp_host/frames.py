"""What this program and its MCP host tell each other: JSON objects, one a line (contract 11)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

MAX_FRAME = 12_000_000
"""Bytes of the longest line."""
MAX_TOOLS = 256
"""Tools of one server; no window has room for more."""
MAX_RESULT = 1_000_000
"""Characters of a result's text."""
MAX_PICTURE_DATA = 4_000_000
"""Characters of all pictures of one result, in base64."""
MAX_LISTED = 200
"""Resources, and prompts, of one server that are known by name."""
CLOSING_SECONDS = 2.2
"""In which all servers are ended, however stubborn."""


class Frame(BaseModel):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ServerSpec(Frame):
    """How a server is reached: a command line, or a URL. Times are in seconds."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = "/"
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float = 60.0
    """How long a call may say nothing."""
    connect_timeout: float = 30.0
    protocol: str = ""
    """The version to speak; empty to find out."""
    stderr: str = ""
    """The file that what it writes there goes to."""
    root: str = ""
    """The workspace, for servers that ask for it."""


class ToolDefinition(Frame):
    """A tool as its server describes it; nothing of this is to be trusted."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, JsonValue]
    read_only: bool | None = None
    destructive: bool | None = None


class ResourceEntry(Frame):
    """Something of a server that can be read."""

    uri: str
    name: str
    """What a person may call it."""


class PromptArgument(Frame):
    """What a prompt's text has a place for."""

    name: str
    required: bool = False


class PromptEntry(Frame):
    """A text that a server keeps for the person to send."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


# -- to the host -----------------------------------------------------------------------------------------------------


class ConnectServer(Frame):
    """Connect to a server; one of the same name is connected anew."""

    do: Literal["connect"] = "connect"
    server: ServerSpec


class CallKind(StrEnum):
    """What is called, by the protocol's method."""

    TOOL = "tools/call"
    RESOURCE = "resources/read"
    PROMPT = "prompts/get"


class Call(Frame):
    """Call a tool, or get a resource or prompt."""

    do: Literal["call"] = "call"
    id: int
    server: str
    kind: CallKind = CallKind.TOOL
    name: str
    """Of the tool or prompt; the URI of a resource."""
    arguments: dict[str, JsonValue] = {}


class Cancel(Frame):
    """Give up a call."""

    do: Literal["cancel"] = "cancel"
    id: int


class ElicitationAnswer(Frame):
    """What the person answered to a question of a server."""

    do: Literal["answer"] = "answer"
    id: int
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, JsonValue] | None = None


Order = Annotated[ConnectServer | Call | Cancel | ElicitationAnswer, Field(discriminator="do")]

# -- from the host ---------------------------------------------------------------------------------------------------


class Connected(Frame):
    """A server is there, or has changed its tools."""

    say: Literal["connected"] = "connected"
    server: str
    title: str = ""
    """What it calls itself, with its version."""
    protocol: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    resources: tuple[ResourceEntry, ...] = ()
    prompts: tuple[PromptEntry, ...] = ()
    left_out: tuple[str, ...] = ()
    """Why some of its tools are not there."""


class Lost(Frame):
    """A server is not there: it could not be connected, or has ended."""

    say: Literal["lost"] = "lost"
    server: str
    reason: str


class Progress(Frame):
    """A call says how far it is."""

    say: Literal["progress"] = "progress"
    id: int
    text: str


class Picture(Frame):
    """A picture of a result, in base64."""

    media_type: str
    data: str


class Result(Frame):
    """A call's end."""

    say: Literal["result"] = "result"
    id: int
    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False


class Failed(Frame):
    """A call that brought no result."""

    say: Literal["failed"] = "failed"
    id: int
    reason: str
    timed_out: bool = False


class Asked(Frame):
    """A server asks the person for something."""

    say: Literal["asked"] = "asked"
    id: int
    server: str
    message: str
    requested: dict[str, JsonValue] | None = None
    """The schema of a form."""
    url: str = ""


Report = Annotated[Connected | Lost | Progress | Result | Failed | Asked, Field(discriminator="say")]
