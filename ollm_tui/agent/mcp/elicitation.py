"""Questions of MCP servers to the person: a form in the one queue, answered by nobody else (contract 11)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ConfirmationDenied
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview, TextPreview
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.tools.base import CallFacts, Effect, Question, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.schema_parameters import SchemaParameters, schema_parameters
from ollm_tui.mcp_host.frames import Asked, ElicitationAnswer

MOST_FIELDS = 20
_SECRET = re.compile(r"pass(word|phrase|wd)|secret|token|api.?key|credential|\bpin\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, eq=False)
class FormTool(Tool[SchemaParameters]):
    """One question as a call that only a person can let pass; no model is offered it."""

    asked: Asked
    kept: list[JsonObject] = field(default_factory=list[JsonObject])
    """The values that were sent."""


class FormInvocation(ToolInvocation[SchemaParameters]):
    """The values as they stand; a yes sends exactly these."""

    def get_description(self) -> str:
        return f"The MCP server {self._asked.server} asks: {' '.join(visible(self._asked.message).split())[:200]}"

    def facts(self) -> CallFacts:
        return CallFacts(self.tool.effect, question="only you can answer what a server asks")

    async def question(self) -> Question:
        asked = self._asked

        async def preview() -> Preview:
            values = self.params.on_the_wire()
            lines = [f"{name}: {json.dumps(values.get(name))}{_about(part)}" for name, part in _fields(asked).items()]
            body = [asked.message, *([asked.url] if asked.url else []), "", *lines]
            warnings = ["A yes sends these values to the server; e changes them first."] if lines else []
            if asked.url:
                warnings.append("A yes says that you will open the address yourself; nothing opens it for you.")
            return TextPreview(text=visible_block("\n".join(body)), warnings=tuple(warnings))

        return Question(preview=preview)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Keep the values as they were approved."""
        self._form.kept.append(self.params.on_the_wire())
        return ToolResult.of_text("The person has answered.")

    @property
    def _form(self) -> FormTool:
        assert isinstance(self.tool, FormTool), "only that is bound to this"
        return self.tool

    @property
    def _asked(self) -> Asked:
        return self._form.asked


class Elicitation:
    """Puts questions of servers into the queue of this process."""

    def __init__(self, executor: ToolExecutor, tell: Callable[[str], object]) -> None:
        self._executor = executor
        self._tell = tell
        self._numbers = count(1)

    async def ask(self, asked: Asked) -> ElicitationAnswer:
        """Return the person's answer; without one, or for what nobody may ask, a decline."""
        name = f"mcp__{asked.server}__asks_{next(self._numbers)}"
        try:
            tool = _form(name, asked)
        except ValueError as error:
            self._tell(f"The MCP server {asked.server} asked for something and was declined: {error}.")
            return ElicitationAnswer(id=asked.id, action="decline")
        registry = self._executor.registry
        registry.register(tool)
        try:
            result = await self._executor.execute(name, _initial(asked), call_id=name, origin=Origin.PLUGIN)
        finally:
            registry.unregister(name)
        if result.ok:
            return ElicitationAnswer(
                id=asked.id, action="accept", content=tool.kept[-1] if asked.requested is not None else None
            )
        denied = result.error is not None and result.error.type == ConfirmationDenied.type
        return ElicitationAnswer(id=asked.id, action="decline" if denied else "cancel")


def _form(name: str, asked: Asked) -> FormTool:
    """Return a question as a tool; raises ValueError for what no server may ask."""
    fields = _fields(asked)
    if secret := next((field for field, part in fields.items() if _SECRET.search(f"{field} {_about(part)}")), None):
        raise ValueError(f"{visible(secret)[:80]} looks like a secret, which no server may ask for")
    if len(fields) > MOST_FIELDS:
        raise ValueError(f"a form of {len(fields):,} fields is too long, {MOST_FIELDS} are the most")
    return FormTool(
        name=name,
        display_name=f"Question of {asked.server}",
        description="A question of an MCP server",
        group=ToolGroup.MCP,
        effect=Effect.READS,
        parameters=schema_parameters(name, asked.requested or {"type": "object"}),
        invocation=FormInvocation,
        risk=Risk.MEDIUM,
        time_limit=None,
        plugin=True,
        offered=False,
        asked=asked,
    )


def _fields(asked: Asked) -> JsonObject:
    properties = (asked.requested or {}).get("properties")
    return properties if isinstance(properties, dict) else {}


def _initial(asked: Asked) -> JsonObject:
    """Return the values that the form begins with: the server's own, else empty ones of the right kind."""
    return {name: _value_of(part) for name, part in _fields(asked).items() if isinstance(part, dict)}


def _value_of(part: JsonObject) -> JsonValue:
    choices = part.get("enum")
    if "default" in part:
        return part["default"]
    if isinstance(choices, list) and choices:
        return choices[0]
    match part.get("type"):
        case "boolean":
            return False
        case "integer" | "number":
            return part.get("minimum") or 0
        case "array":
            return []
        case _:
            return ""


def _about(part: JsonValue) -> str:
    """Return what a server says about a field, in brackets."""
    said = [part[key] for key in ("title", "description") if part.get(key)] if isinstance(part, dict) else []
    return f"  ({'; '.join(map(str, said))[:300]})" if said else ""
