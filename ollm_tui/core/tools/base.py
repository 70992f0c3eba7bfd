"""What a tool is, and what one call of it is (000 DeclarativeTool and ToolInvocation, 001 R10, 003, 004)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.errors import InvalidArguments
from ollm_tui.core.base.results import JsonObject, ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import ConfirmationDetails, Preview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import RememberScope, Risk
from ollm_tui.core.files.snapshots import SeenFiles
from ollm_tui.core.tools.schema import parameters_in_words

if TYPE_CHECKING:
    from ollm_tui.core.fence.workspace import Access, Workspace
    from ollm_tui.core.files.trash import Trash
    from ollm_tui.core.memory import Memory
    from ollm_tui.core.shell.hub import CommandHub
    from ollm_tui.core.todos.todo_list import TodoList
    from ollm_tui.core.tools.command_reader import CommandReader
    from ollm_tui.core.web.client import WebAccess


class ToolGroup(StrEnum):
    """004's groups; the policy can name them."""

    RUNTIME = "runtime"
    FS = "fs"
    BROWSER = "browser"
    MEMORY = "memory"
    NET = "net"
    SYSTEM = "system"


class Effect(StrEnum):
    """What kind of thing a tool does to the world; the policy's modes go by it."""

    READS = "reads"
    WRITES = "writes"
    RUNS = "runs"
    SENDS = "sends"
    REMEMBERS = "remembers"
    """Changes memory that later sessions read."""
    PLANS = "plans"
    """Changes the todo list only."""


class Parameters(BaseModel):
    """Base of every tool's parameters, the one source of its schema: camelCase outside, snake_case accepted."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", defer_build=True
    )

    def on_the_wire(self) -> JsonObject:
        """All parameters under their wire names, defaults filled in, those that were not given left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True)
class Limits:
    """Bounds on what tools read and return (`[limits]`): bytes, lines, characters, seconds."""

    file_bytes: int = 20_000_000
    result_lines: int = 2_000
    result_chars: int = 100_000
    entries: int = 100_000
    call_seconds: float = 300.0


@dataclass(frozen=True)
class ToolContext:
    """What a call may use. `workspace` and the services are None only where a tool is built outside the executor."""

    bus: MessageBus
    workspace: Workspace | None = None
    commands: CommandHub | None = None
    todos: TodoList | None = None
    memory: Memory | None = None
    trash: Trash | None = None
    web: WebAccess | None = None
    command_reader: CommandReader | None = None
    """Set by the executor where a caller gives none."""
    clock: Clock = field(default_factory=SystemClock)
    limits: Limits = field(default_factory=Limits)
    seen: SeenFiles = field(default_factory=SeenFiles)
    strict_edits: bool = False
    attended: bool = False
    """A person is at the dashboard and can answer and type."""
    call_id: str = ""

    @property
    def fence(self) -> Workspace:
        """The workspace; raises RuntimeError where a caller built a context without one."""
        if self.workspace is None:
            raise RuntimeError("this tool needs a workspace: build its ToolContext with one")
        return self.workspace


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class TouchedPath:
    """A path a call would read or write, as the caller wrote it; judged against the fence before anyone is asked."""

    path: str
    access: Access
    follow: bool = True
    """False where the entry itself is meant, not what it links to (deleting, moving)."""


@dataclass(frozen=True)
class SessionOffer:
    """What a tool itself can go on allowing until the session ends, in words."""

    text: str
    virtual: Mapping[str, JsonValue]
    """The call's virtual parameters as they are from then on."""


class ToolInvocation(ABC, Generic[P]):
    """One call with validated parameters. Creating it changes nothing."""

    def __init__(self, tool: Tool[P], params: P, context: ToolContext) -> None:
        self.tool = tool
        self.params = params
        self.context = context

    @abstractmethod
    def get_description(self) -> str:
        """One line for a person: what this call does (000 Property 45). Never empty."""

    def effect(self) -> Effect:
        """What kind of thing this very call does to the world."""
        return self.tool.effect

    def tool_locations(self) -> list[str]:
        """Paths or resources it affects, as the caller wrote them (000 Property 46)."""
        return [touched.path for touched in self.touched_paths()]

    def touched_paths(self) -> list[TouchedPath]:
        """What the fence and the protected names are checked against."""
        return []

    def virtual_parameters(self) -> dict[str, JsonValue]:
        """Facts that rules may ask about beside the parameters: `$exists` where it means something."""
        return {}

    def refuse(self) -> None:
        """Raises what must fail whatever anybody answers, by the parameters alone: `policy check` says so, too."""

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Preconditions: raise what must fail whatever anybody answers, before anyone is asked.

        Returns a result where the call is already done because nothing would change.
        """
        return None

    async def should_confirm_execute(self, signal: AbortSignal) -> ConfirmationDetails | Literal[False]:
        """The tool's own question, a floor that rules can not take away; False when it has none (000 Property 47).

        Goes by the parameters alone: the policy calls it to judge, without touching the disk.
        """
        if not self.tool.needs_approval(self.params):
            return False
        return await self.confirmation_details(self.tool.risk)

    async def confirmation_details(self, risk: Risk, preview: Preview | None = None) -> ConfirmationDetails:
        """What a person is shown about this call (000 Property 37)."""
        return ConfirmationDetails(
            tool_name=self.tool.name,
            description=self.get_description(),
            risk=risk,
            locations=tuple(self.tool_locations()),
            args=self.params.on_the_wire(),
            preview=preview,
        )

    async def preview(self) -> Preview | None:
        """The effect in detail; None where the arguments say it all."""
        return None

    async def state_digest(self) -> str:
        """A fingerprint of the file states the preview was made from; recomputed right before the effect."""
        return ""

    def session_offer(self) -> SessionOffer | None:
        """What a yes for the session would mean; None where the policy remembers approvals of this tool, or nobody."""
        return None

    def approved(self, kept: RememberScope | None) -> None:
        """A person said yes to exactly this call; told right before `execute`. `kept`: how far the yes reaches."""

    @abstractmethod
    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Do it. Raises ToolFailure; OperationCancelled on abort, with the partial output (000 Property 48)."""


@dataclass(frozen=True)
class Tool(Generic[P]):
    """A declared capability. `risk`, `requires_approval` and `dangerous` are what the policy starts from."""

    name: str
    display_name: str
    description: str
    group: ToolGroup
    effect: Effect
    parameters: type[P]
    invocation: type[ToolInvocation[P]]
    risk: Risk
    returns: type[ToolData] | None = None
    requires_approval: bool | Callable[[P], bool] = False
    dangerous: bool = False
    """Never allowed by a `*` rule alone."""
    time_limit: float | None = 300.0
    """Seconds the executor grants; None where the tool keeps a limit of its own."""
    plugin: bool = False
    cuts_itself: bool = False
    """Its results keep to the limits, which count less than all of their text."""

    def needs_approval(self, params: P) -> bool:
        return self.requires_approval(params) if callable(self.requires_approval) else self.requires_approval

    def create_invocation(self, params: object, context: ToolContext | MessageBus) -> ToolInvocation[P]:
        """Validate strictly and bind (001 R10.1, 000 Property 44).

        `params` is a JSON object or an instance of the parameter model. A bare bus is accepted as context.
        Raises InvalidArguments naming every fault at once.
        """
        bound = context if isinstance(context, ToolContext) else ToolContext(bus=context)
        return self.invocation(self, self._validate(params), bound)

    def _validate(self, params: object) -> P:
        if isinstance(params, self.parameters):
            return params
        if not isinstance(params, dict):
            raise InvalidArguments(
                f"{self.name} takes its arguments as a JSON object, not {_json_kind(params)}. {self._takes}"
            )
        try:
            # Through JSON: pydantic's strict mode then takes JSON's own types, and nothing else.
            return self.parameters.model_validate_json(json.dumps(params), strict=True)
        except ValidationError as error:
            faults = _all_faults(error)
            more = len(faults) - FAULTS_NAMED
            named = [*faults[:FAULTS_NAMED], f"and {more} more faults"] if more > 0 else faults
            details: dict[str, JsonValue] = {"faults": list[JsonValue](faults)}
            raise InvalidArguments(f"{self.name}: {'; '.join(named)}. {self._takes}", details) from None
        except (TypeError, ValueError) as error:
            raise InvalidArguments(f"{self.name}: the arguments are not JSON: {error}.") from None
        except RecursionError:
            raise InvalidArguments(f"{self.name}: the arguments are nested too deeply.") from None

    @property
    def _takes(self) -> str:
        """For models: the same fault twice in a row is a loop, and the schema may be far back in the conversation."""
        return f"It takes {parameters_in_words(self.parameters) or 'nothing'}."


AnyTool = Tool[Any]
"""A tool of whatever parameters: Any, since each tool takes only its own model and no common one could say so."""

AnyInvocation = ToolInvocation[Any]
"""A call of whatever tool; Any for the same reason."""


FAULTS_NAMED = 50
"""Faults in the message of wrong arguments; a list of ten thousand wrong items has as many. The details have all."""


def _all_faults(error: ValidationError) -> list[str]:
    return [
        # What the models themselves raise is a sentence already.
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors()
    ]


def _json_kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "an array"
        case _:
            return type(value).__name__
