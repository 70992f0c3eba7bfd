"""What a tool is, and what one call of it is (000 DeclarativeTool and ToolInvocation, 001 R10, 003, 004)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, final

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, ToolFailure
from ollm_tui.core.base.results import JsonObject, ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import ConfirmationDetails, Preview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.schema import parameters_in_words

if TYPE_CHECKING:
    from ollm_tui.core.fence.workspace import Access


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


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class TouchedPath:
    """A path a call would read or write, as the caller wrote it; judged against the fence before anyone is asked."""

    path: str
    access: Access
    follow: bool = True
    """False where the entry itself is meant, not what it links to (deleting, moving)."""


async def _no_preview() -> Preview | None:
    return None


@dataclass(frozen=True)
class Question:
    """What a person is asked about: what a call would do, and a fingerprint of the files that goes by."""

    state: str = ""
    """Compared right before the effect with what it is then."""
    preview: Callable[[], Awaitable[Preview | None]] = _no_preview
    """Works out the effect in detail; None where the arguments say it all."""


@dataclass(frozen=True)
class SessionOffer:
    """What a tool itself can go on allowing until the session ends."""

    text: str
    """In words, for the person."""
    virtual: Mapping[str, JsonValue]
    """The call's virtual parameters as they are from then on."""
    accept: Callable[[], None]
    """Allows it; called when a person said yes for the session."""


@dataclass(frozen=True)
class CallFacts:
    """What the policy judges a call by, beside its parameters and paths; goes by `stat` at most."""

    effect: Effect
    """What kind of thing this very call does to the world."""
    virtual: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Facts that rules may ask about: `$exists` where it means something."""
    refusal: ToolFailure | None = None
    """Why it must fail whatever anybody answers, as far as the parameters alone say."""
    offer: SessionOffer | None = None
    """What a yes for the session would mean; None where the policy remembers approvals of this tool, or nobody."""


class ToolInvocation(ABC, Generic[P]):
    """One call with validated parameters. Creating it changes nothing.

    A tool overrides `get_description` and `execute`, and of the other hooks those it has an answer to.
    """

    approved: bool = False
    """A person said yes to exactly this call; set right before `execute`."""

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

    def touched_paths(self) -> list[TouchedPath]:
        """Return what is checked against the workspace and its protected names."""
        return []

    def facts(self) -> CallFacts:
        """Return what the policy judges this call by."""
        return CallFacts(self.tool.effect)

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise what must fail whatever anybody answers, before anyone is asked.

        Returns a result where the call is already done because nothing would change.
        """
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
        """Do it. Raises ToolFailure; OperationCancelled on abort, with the partial output (000 Property 48)."""

    @final
    def confirmation_details(self, risk: Risk, preview: Preview | None = None) -> ConfirmationDetails:
        """Return what a person is shown about this call (000 Property 37)."""
        return ConfirmationDetails(
            tool_name=self.tool.name,
            description=self.get_description(),
            risk=risk,
            locations=tuple(self.tool_locations()),
            args=self.params.on_the_wire(),
            preview=preview,
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
    """How much a call can hurt in general; `risk_of_call` knows about one."""
    returns: type[ToolData] | UnionType | None = None
    """The model of `data`, or the union of several."""
    requires_approval: bool | Callable[[P], bool] = False
    risk_of_call: Callable[[Mapping[str, JsonValue]], Risk] | None = None
    """The risk by the arguments under their wire names, where it depends on them."""
    dangerous: bool = False
    """Never allowed by a `*` rule alone."""
    time_limit: float | None = 300.0
    """Seconds the executor grants; None where the tool keeps a limit of its own."""
    plugin: bool = False
    cuts_itself: bool = False
    """Its results keep to the limits, which count less than all of their text."""

    def needs_approval(self, params: P) -> bool:
        """Return whether a call always asks, whatever the rules say."""
        return self.requires_approval(params) if callable(self.requires_approval) else self.requires_approval

    def call_risk(self, arguments: Mapping[str, JsonValue] | None) -> Risk:
        """Return how much a call with these arguments can hurt; None for a call in general."""
        return self.risk if arguments is None or self.risk_of_call is None else self.risk_of_call(arguments)

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
