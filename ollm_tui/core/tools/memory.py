"""`memory`, `memory_get`, `memory_search`: texts under keys, across sessions (001 R11, 000 Properties 50-52)."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import quoted_unless_plain
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput, Wire
from ollm_tui.core.bus.confirmation import ConfirmationDetails, Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.secrets import looks_secret_under
from ollm_tui.core.memory import Memory, MemoryEntry, MemoryMatch, MemoryScope, Ranking
from ollm_tui.core.tools.base import CallFacts, Effect, Parameters, Query, Question, Tool, ToolGroup, ToolInvocation

_SYNONYMS = {
    name: action
    for action, names in {
        "set": "save store add",
        "get": "recall read",
        "delete": "remove forget",
        "list": "keys",
    }.items()
    for name in names.split()
}

_OLD_VALUE_CHARS = 200
"""Characters of an overwritten value that a note repeats."""


def _known_action(given: object) -> object:
    """Return the action's own name for a synonym that models use."""
    return _SYNONYMS.get(given.lower(), given.lower()) if isinstance(given, str) else given


class MemoryAction(StrEnum):
    """The actions on a memory."""

    SET = "set"
    GET = "get"
    DELETE = "delete"
    LIST = "list"


class MemoryParameters(Parameters):
    """What to do, and with which key."""

    action: Annotated[MemoryAction, BeforeValidator(_known_action)] = Field()
    key: str | None = None
    value: str | None = None
    scope: MemoryScope | None = None

    @model_validator(mode="after")
    def _has_what_the_action_needs(self) -> MemoryParameters:
        errors = {
            f"{self.action} needs a key": self.key is None and self.action is not MemoryAction.LIST,
            "set needs a value (an empty text is one)": self.value is None and self.action is MemoryAction.SET,
        }
        if any(errors.values()):
            raise ValueError("; ".join(text for text, applies in errors.items() if applies))
        return self


class MemoryData(ToolData):
    """The value of one key; None where the key does not exist."""

    key: str
    value: str | None = None
    scope: MemoryScope | None = None


class MemoryKeysData(ToolData):
    """The keys in memory."""

    keys: tuple[str, ...]


class MemoryInvocation(ToolInvocation[MemoryParameters]):
    """Sets, gets, deletes or lists memories."""

    def get_description(self) -> str:
        if self.params.action is MemoryAction.LIST:
            return "List what is remembered"
        words = {MemoryAction.SET: "Remember", MemoryAction.GET: "Recall", MemoryAction.DELETE: "Forget"}
        where = " for this user, in every workspace" if self.params.scope is MemoryScope.USER else ""
        return f"{words[self.params.action]} {quoted_unless_plain(self._key)}{where}"

    def facts(self) -> CallFacts:
        """Return whether the call changes memory."""
        changes = self.params.action in (MemoryAction.SET, MemoryAction.DELETE)
        return CallFacts(Effect.REMEMBERS if changes else Effect.READS)

    async def question(self) -> Question:
        return Question(preview=self._preview)

    async def should_confirm_execute(self, signal: AbortSignal) -> ConfirmationDetails | Literal[False]:
        """Ask before storing a text that looks like a secret: every later session can read it."""
        if await self._secret() is None:
            return await super().should_confirm_execute(signal)
        return self.confirmation_details(Risk.MEDIUM, await self._preview())

    async def _preview(self) -> Preview | None:
        if self.params.action is not MemoryAction.SET:
            return None
        found = await self._secret()
        warnings = () if found is None else (f"looks like {found}; it is stored readably and shown to later sessions",)
        return TextPreview(text=self._value, warnings=warnings)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run the action; a missing key is no error. Raises MemoryFailed, StorageFailed."""
        signal.throw_if_aborted()
        return await signal.in_thread(self._run)

    @property
    def _key(self) -> str:
        return self.params.key or ""

    @property
    def _value(self) -> str:
        return self.params.value or ""

    async def _secret(self) -> str | None:
        if self.params.action is not MemoryAction.SET:
            return None
        return await asyncio.to_thread(looks_secret_under, self._key, self._value)

    def _run(self) -> ToolResult:
        memory = self.context.memories
        match self.params.action:
            case MemoryAction.SET:
                return self._set(memory)
            case MemoryAction.GET:
                return _recalled(self._key, memory.get(self._key, self.params.scope))
            case MemoryAction.DELETE:
                return self._delete(memory)
            case MemoryAction.LIST:
                keys = memory.keys(self.params.scope)
                lines = "\n".join(quoted_unless_plain(key) for key in keys) or "No keys"
                return ToolResult.of_text(
                    lines, f"{len(keys)} {'key' if len(keys) == 1 else 'keys'}", data=MemoryKeysData(keys=keys)
                )

    def _set(self, memory: Memory) -> ToolResult:
        scope = self.params.scope or MemoryScope.WORKSPACE
        old = memory.set(self._key, self._value, scope)
        notes: tuple[str, ...] = ()
        if old is not None and old != self._value:
            shown = quoted_unless_plain(old[:_OLD_VALUE_CHARS])
            cut = f" ... ({len(old)} characters)" if len(old) > _OLD_VALUE_CHARS else ""
            notes = (f"replaced the value: {shown}{cut}",)
        data = MemoryData(key=self._key, value=self._value, scope=scope)
        return ToolResult.of_text(f"Stored {quoted_unless_plain(self._key)}", data=data, notes=notes)

    def _delete(self, memory: Memory) -> ToolResult:
        scope = self.params.scope or MemoryScope.WORKSPACE
        done = memory.delete(self._key, scope)
        left = memory.get(self._key, MemoryScope.USER) if self.params.scope is None else None
        notes = (
            ("scope user has the key, too, and get falls back to it; delete it there with scope user",) if left else ()
        )
        text = f"Deleted {quoted_unless_plain(self._key)}" if done else "Key not found"
        return ToolResult.of_text(text, data=MemoryData(key=self._key, scope=scope if done else None), notes=notes)


def _recalled(key: str, memory: MemoryEntry | None, notes: tuple[str, ...] = ()) -> ToolResult:
    """Return the result of a get; `data` holds the exact value."""
    if memory is None:
        return ToolResult.of_text("Key not found", data=MemoryData(key=key), notes=notes)
    data = MemoryData(key=key, value=memory.value, scope=memory.scope)
    return ToolResult.of_text(memory.value or "(value is empty)", data=data, notes=notes)


MEMORY = Tool(
    name="memory",
    display_name="Memory",
    description="Remember short texts under keys, beyond this session. Scope user: for all workspaces.",
    group=ToolGroup.MEMORY,
    effect=Effect.REMEMBERS,
    parameters=MemoryParameters,
    invocation=MemoryInvocation,
    risk=Risk.LOW,
    returns=MemoryData | MemoryKeysData,
)


_NAMED_KEYS = 20
"""Number of keys named when the key is missing."""


class MemoryGetParameters(Parameters):
    """Which memory to read."""

    key: str


class MemoryGetInvocation(ToolInvocation[MemoryGetParameters]):
    """Reads one memory."""

    def get_description(self) -> str:
        return f"Recall {quoted_unless_plain(self.params.key)}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Read the memory of the workspace, else of the user; for a missing key, name existing ones."""
        signal.throw_if_aborted()
        return await signal.in_thread(self._run)

    def _run(self) -> ToolResult:
        memory = self.context.memories
        found = memory.get(self.params.key)
        if found is not None:
            return _recalled(self.params.key, found)
        keys = memory.keys()
        named = ", ".join(quoted_unless_plain(key) for key in keys[:_NAMED_KEYS])
        more = f" and {len(keys) - _NAMED_KEYS} more" if len(keys) > _NAMED_KEYS else ""
        notes = (f"the keys are: {named}{more}",) if keys else ()
        return _recalled(self.params.key, None, notes)


MEMORY_GET = Tool(
    name="memory_get",
    display_name="Recall",
    description="Read what is remembered under a key.",
    group=ToolGroup.MEMORY,
    effect=Effect.READS,
    parameters=MemoryGetParameters,
    invocation=MemoryGetInvocation,
    risk=Risk.LOW,
    returns=MemoryData,
)


_KEYWORD_NOTE = "keyword only: no semantic model is installed, so try other words for the same thing"


class MemorySearchParameters(Parameters):
    """What to search for."""

    query: Query
    limit: int = Field(10, ge=1, le=100)


class MemoryHit(Wire):
    """One memory found; `by` tells how it was found."""

    key: str
    value: str
    scope: MemoryScope
    snippet: str
    by: Ranking


class MemorySearchData(ToolData):
    """The results, best first; `ranking` tells how they were ranked."""

    results: tuple[MemoryHit, ...]
    ranking: Ranking


class MemorySearchInvocation(ToolInvocation[MemorySearchParameters]):
    """Searches the memories."""

    def get_description(self) -> str:
        return f"Search memory for {quoted_unless_plain(self.params.query)}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Search. Raises StorageFailed, OperationCancelled; no results is no error."""
        signal.throw_if_aborted()
        memory = self.context.memories
        outcome = await signal.in_thread(memory.search, self.params.query, self.params.limit, signal=signal)
        data = MemorySearchData(results=tuple(_hit(hit) for hit in outcome.found), ranking=outcome.ranking)
        if not outcome.found:
            ranked = _KEYWORD_NOTE if outcome.ranking is Ranking.KEYWORD_ONLY else f"ranked by {outcome.ranking}"
            return ToolResult.of_text("No results", data=data, notes=outcome.notes or (ranked,))
        heading = f"{len(outcome.found)} found ({outcome.ranking})"
        text = "\n".join((f"{heading}:", *map(_line, outcome.found)))
        return ToolResult.of_text(text, heading, data=data, notes=outcome.notes)


def _line(found: MemoryMatch) -> str:
    marks = [found.memory.scope.value] if found.memory.scope is MemoryScope.USER else []
    marks += [found.by.value] if found.by is Ranking.MEANING_ONLY else []
    where = f" ({', '.join(marks)})" if marks else ""
    return f"{quoted_unless_plain(found.memory.key)}{where}: {quoted_unless_plain(found.snippet)}"


def _hit(found: MemoryMatch) -> MemoryHit:
    memory = found.memory
    return MemoryHit(key=memory.key, value=memory.value, scope=memory.scope, snippet=found.snippet, by=found.by)


MEMORY_SEARCH = Tool(
    name="memory_search",
    display_name="Search Memory",
    description="Find what is remembered by words in keys and values, and by meaning where a model is installed.",
    group=ToolGroup.MEMORY,
    effect=Effect.READS,
    parameters=MemorySearchParameters,
    invocation=MemorySearchInvocation,
    risk=Risk.LOW,
    returns=MemorySearchData,
)
