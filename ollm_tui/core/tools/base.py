"""The types of a tool and of one call (000 DeclarativeTool and ToolInvocation, 001 R10, 003, 004)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar, final

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, ToolFailure
from ollm_tui.core.base.results import ExecutionPlace, JsonObject, ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import ConfirmationDetails, Preview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.schema import parameters_in_words

if TYPE_CHECKING:
    from pathlib import Path

    from ollm_tui.core.fence.workspace import Access


class ToolGroup(StrEnum):
    """The groups of tools that the policy can name (004)."""

    RUNTIME = "runtime"
    FS = "fs"
    BROWSER = "browser"
    MEMORY = "memory"
    NET = "net"
    SYSTEM = "system"
    GIT = "git"
    MCP = "mcp"


class Effect(StrEnum):
    """The kind of effect a tool has; the policy's modes depend on it."""

    READS = "reads"
    WRITES = "writes"
    RUNS = "runs"
    SENDS = "sends"
    REMEMBERS = "remembers"
    """Changes memory that later sessions read."""
    PLANS = "plans"
    """Changes the todo list only."""


class Parameters(BaseModel):
    """Base of all tool parameters; camelCase in JSON, snake_case also accepted."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", defer_build=True
    )

    def on_the_wire(self) -> JsonObject:
        """Return the parameters under their wire names, with defaults, without None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class TouchedPath:
    """A path that a call would read or write, as the caller wrote it."""

    path: str
    access: Access
    follow: bool = True
    """False to affect a symbolic link itself, not its target (deleting, moving)."""


async def _no_preview() -> Preview | None:
    return None


def _nothing_to_hold() -> None:
    return None


@dataclass(frozen=True)
class Question:
    """A confirmation's preview, and a fingerprint of the files it depends on."""

    state: str = ""
    """The fingerprint, compared again right before the effect."""
    preview: Callable[[], Awaitable[Preview | None]] = _no_preview
    """Builds the preview; None where the arguments are enough."""
    cage_problem: Callable[[], str | None] = _nothing_to_hold
    """Why the cage for work cannot take the call, empty where it can; None where there is nothing to hold.

    Runs a probe the first time: not on the event loop.
    """


@dataclass(frozen=True)
class SessionOffer:
    """A permission that a tool can grant until the session ends."""

    text: str
    """The description for the person."""
    virtual: Mapping[str, JsonValue]
    """The call's virtual parameters once it is granted."""
    accept: Callable[[], None]
    """Grants it; called when a person approves for the session."""


@dataclass(frozen=True)
class CallFacts:
    """Facts for the policy beside parameters and paths; collecting them reads no more than `stat`."""

    effect: Effect
    """The kind of effect of this call."""
    virtual: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Facts that rules can test, such as `$exists`."""
    refusal: ToolFailure | None = None
    """The error, known from the parameters, that no approval can prevent."""
    offer: SessionOffer | None = None
    """The tool's own session permission; None where the policy keeps approvals."""
    question: str | None = None
    """Why a person is asked whatever the rules say."""
    command: str | None = None
    """The command line that it runs, judged as one of the shell."""
    new_path: Path | None = None
    """The real path that the call takes for free; one that a call vacated within a day counts as existing."""


class ToolInvocation(ABC, Generic[P]):
    """One call with validated parameters. Creating it changes nothing.

    A tool overrides `get_description` and `execute`, and of the other hooks those it has an answer to.
    """

    approved: bool = False
    """A person said yes to exactly this call; set right before `execute`."""
    looks: bool = False
    """It is allowed because it only reads, and runs where nothing else is possible; set right before `execute`."""
    chosen_place: ExecutionPlace | None = None
    """Where a person chose to run it, whatever the settings say."""
    refused: str = ""
    """What the cage refused it, once it ran."""
    refused_by: ExecutionPlace | None = None
    """The cage that refused it something, where a person is asked whether it may run outside."""
    further: str = ""
    """What it runs when executed once more, which a person has to be asked about; set by `execute`."""

    def __init__(self, tool: Tool[P], params: P, context: ToolContext) -> None:
        self.tool = tool
        self.params = params
        self.context = context

    @abstractmethod
    def get_description(self) -> str:
        """Return one line for a person: what this call does (000 Property 45). Never empty."""

    def tool_locations(self) -> list[str]:
        """Return the paths or resources it affects, as the caller wrote them (000 Property 46)."""
        return [touched.path for touched in self.touched_paths()]

    @property
    def place(self) -> ExecutionPlace | None:
        """Return where its programs run; None where it starts none of the caller's."""
        return None

    def touched_paths(self) -> list[TouchedPath]:
        """Return what is checked against the workspace and its protected names."""
        return []

    def facts(self) -> CallFacts:
        """Return what the policy judges this call by."""
        return CallFacts(self.tool.effect)

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise what must fail whatever anybody answers; return a result where nothing would change."""
        return None

    async def should_confirm_execute(self, signal: AbortSignal) -> ConfirmationDetails | Literal[False]:
        """Return the tool's own question, which rules cannot take away; False when it has none (000 Property 47).

        Goes by the parameters alone: the policy calls it to judge, without touching the disk.
        """
        if not self.tool.needs_approval(self.params):
            return False
        return self.confirmation_details(self.tool.risk)

    async def question(self) -> Question:
        """Return what a person is asked about, as things stand."""
        return Question()

    @abstractmethod
    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run the call. Raises ToolFailure, or OperationCancelled with partial output (000 Property 48)."""

    @final
    def confirmation_details(
        self, risk: Risk, preview: Preview | None = None, cage_problem: str | None = None
    ) -> ConfirmationDetails:
        """Return what a person is shown about this call (000 Property 37)."""
        return ConfirmationDetails(
            tool_name=self.tool.name,
            description=self.get_description(),
            risk=risk,
            locations=tuple(self.tool_locations()),
            args=self.params.on_the_wire(),
            preview=preview,
            cage_problem=cage_problem,
        )


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
    """The risk of a call in general; `risk_of_call` tells it for one."""
    returns: type[ToolData] | UnionType | None = None
    """The model of `data`, or the union of several."""
    requires_approval: bool | Callable[[P], bool] = False
    risk_of_call: Callable[[Mapping[str, JsonValue]], Risk] | None = None
    """The risk by the arguments under their wire names, where it depends on them."""
    dangerous: bool = False
    """A `*` rule alone never allows it."""
    time_limit: float | None = 300.0
    """Seconds the executor grants; None where the tool keeps a limit of its own."""
    plugin: bool = False
    offered: bool = True
    """Whether models are told of it."""
    cuts_itself: bool = False
    """The tool shortens its results to the limits itself."""

    def needs_approval(self, params: P) -> bool:
        """Return whether a call always asks, whatever the rules say."""
        return self.requires_approval(params) if callable(self.requires_approval) else self.requires_approval

    def call_risk(self, arguments: Mapping[str, JsonValue] | None) -> Risk:
        """Return how much a call with these arguments can hurt; None for a call in general."""
        return self.risk if arguments is None or self.risk_of_call is None else self.risk_of_call(arguments)

    def create_invocation(self, params: object, context: ToolContext | MessageBus) -> ToolInvocation[P]:
        """Validate strictly and bind (001 R10.1, 000 Property 44).

        `params` is a JSON object or an instance of the parameter model. A bare bus is accepted as context.
        Raises InvalidArguments naming every error at once.
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
            errors = _all_errors(error)
            more = len(errors) - _ERRORS_NAMED
            named = [*errors[:_ERRORS_NAMED], f"and {more} more errors"] if more > 0 else errors
            details: dict[str, JsonValue] = {"errors": list[JsonValue](errors)}
            raise InvalidArguments(f"{self.name}: {'; '.join(named)}. {self._takes}", details) from None
        except (TypeError, ValueError) as error:
            raise InvalidArguments(f"{self.name}: the arguments are not JSON: {error}.") from None
        except RecursionError:
            raise InvalidArguments(f"{self.name}: the arguments are nested too deeply.") from None

    @property
    def _takes(self) -> str:
        """Return the parameters in words: the schema may be far back in the conversation."""
        return f"It takes {parameters_in_words(self.parameters) or 'nothing'}."


AnyTool = Tool[Any]
"""A tool with parameters of any type."""

AnyInvocation = ToolInvocation[Any]
"""A call of any tool."""


_ERRORS_NAMED = 50
"""Most validation errors that a message names; the details hold all."""


def _all_errors(error: ValidationError) -> list[str]:
    return [
        # What the models themselves raise is a sentence already.
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors()
    ]


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names: dict[type, str] = {str: "a string", int: "a number", float: "a number", list: "an array", tuple: "an array"}
    return names.get(type(value), type(value).__name__)


def _says_something(query: str) -> str:
    if not query.strip():
        raise ValueError("give at least one word")
    # Half of a surrogate pair can be neither sent nor looked up.
    return query.encode("utf-8", "replace").decode("utf-8")


Query: TypeAlias = Annotated[str, AfterValidator(_says_something)]
"""Text with at least one visible character, and valid Unicode."""
