"""`OfflineProvider`: answers a few plain forms without a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import takewhile

from ollm_tui.agent.providers.call_assembly import CallIds
from ollm_tui.agent.providers.offline_forms import FORMS, Form, PlannedCall, asks_for_help, understand
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    Message,
    ModelInfo,
    ProviderDescription,
    StreamEvent,
    StreamFinished,
    TextDelta,
    ToolCall,
    ToolCallReady,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ToolFailure

BADGE = "offline - no AI model"

CONNECT = """Three ways to connect a model:
1. Ollama on this machine: `ollama serve`, `ollama pull NAME`, then `ollm-tui --provider ollama --model NAME`
2. LM Studio, llama.cpp or vLLM: start its server, then `ollm-tui --provider openai --base-url http://127.0.0.1:PORT/v1`
3. A service with an API key: set OLLM_API_KEY, then `ollm-tui --provider openai --base-url URL --model NAME`"""

GREETING = """No AI model is connected, so nothing here thinks. What you can do now:
1. Connect one: start `ollama serve` or `llama-server -m FILE.gguf --port 8080`, then type `/connect`
2. Watch the tour, where a script plays the model: `ollm-tui --provider scripted`
3. Use the tools by plain forms: `ls`, `read FILE`, `run COMMAND`; `help` lists them, and other ways to connect"""


class OfflineProvider:
    """Answers known sentences with tool calls, and all others with a list of these."""

    name = "offline"

    @property
    def model(self) -> str | None:
        """None: there is no model."""
        return None

    def describe(self) -> ProviderDescription:
        """Return the notice that no model is connected."""
        return ProviderDescription(self.name, None, badge=BADGE, greeting=GREETING)

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return nothing."""
        return ()

    async def aclose(self) -> None:
        """Do nothing."""

    async def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Answer the last sentence, or sum up the results of its calls."""
        signal.throw_if_aborted()
        results = results_since_last_sentence(request.messages)
        if results:
            yield TextDelta(summary(results))
            yield StreamFinished(FinishReason.STOP)
            return
        sentence = last_sentence(request.messages)
        offered = {tool.name for tool in request.tools}
        text, calls = answer(sentence, offered)
        yield TextDelta(text)
        ids = CallIds(request.messages)
        for call in calls:
            yield ToolCallReady(ToolCall(ids.take(), call.tool, call.arguments))
        yield StreamFinished(FinishReason.TOOL_CALLS if calls else FinishReason.STOP)


def answer(sentence: str, offered: set[str]) -> tuple[str, list[PlannedCall]]:
    """Return what to say to a sentence, and the calls it asks for."""
    if asks_for_help(sentence):
        return help_text(offered), []
    understood = understand(sentence)
    if understood is None:
        return f"No AI model is connected, and this is not one of the known forms.\n\n{help_text(offered)}", []
    form, calls = understood
    if form.tool not in offered:
        return f"`{form.usage}` needs the tool {form.tool}, which is not available in this version.", []
    return _announcement(form, calls), calls


def help_text(offered: set[str]) -> str:
    """Return the forms whose tools are offered, and how to connect a model."""
    forms = [f"- `{form.usage}`" for form in FORMS if form.tool in offered]
    listed = "\n".join([*forms, "- `help`"])
    return f"These forms work without a model (names with blanks in quotes):\n\n{listed}\n\n{CONNECT}"


def summary(results: list[ToolMessage]) -> str:
    """Return one sentence about how the calls ended."""
    outcomes = [result.outcome for result in results]
    names = " and ".join(dict.fromkeys(f"`{result.name}`" for result in results))
    if ToolOutcome.DENIED in outcomes:
        return f"{names} was denied, so nothing was done."
    if ToolOutcome.FAILED in outcomes:
        failed = results[outcomes.index(ToolOutcome.FAILED)]
        return f"`{failed.name}` failed: {_reason(failed.content)}"
    return f"Done: the result of {names} is above."


def last_sentence(messages: tuple[Message, ...]) -> str:
    """Return what the person wrote last."""
    return next((each.text for each in reversed(messages) if isinstance(each, UserMessage) and each.text), "")


def results_since_last_sentence(messages: tuple[Message, ...]) -> list[ToolMessage]:
    """Return the results of calls since then, oldest first."""
    since = takewhile(lambda message: not isinstance(message, UserMessage), reversed(messages))
    return [message for message in since if isinstance(message, ToolMessage)][::-1]


def _reason(content: str) -> str:
    """Return the line of an error's text that says why."""
    lines = [_first_line(content), _first_line(content.rpartition("\n\n")[2])]
    failures = _types(ToolFailure)
    return next((line for line in lines if line.partition(":")[0] in failures), lines[0]) or "no reason was given"


def _types(failure: type[ToolFailure]) -> set[str]:
    return {failure.type}.union(*(_types(kind) for kind in failure.__subclasses__()))


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def _announcement(form: Form, calls: list[PlannedCall]) -> str:
    shown = ", ".join(_subject(call) for call in calls)
    hint = ""
    if form.tool == "glob" and "/" not in str(calls[0].arguments.get("pattern")):
        hint = " That searches the folder itself; put `**/` before the pattern to search below it too."
    return f"Understood as `{form.tool}`{f' {shown}' if shown else ''}.{hint}"


def _subject(call: PlannedCall) -> str:
    """Return the first thing a call is about, as the person wrote it."""
    about = next((value for value in call.arguments.values() if isinstance(value, str) and value), "")
    first, *more = about.splitlines() or [""]
    return f"{first} ..." if more else first
