"""Turn the many ways in which model servers report errors into one typed error."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pydantic import JsonValue

from ollm_tui.agent.providers.json_values import as_count, parse_json
from ollm_tui.agent.providers.provider import JsonObject, ProviderError, ProviderErrorKind

RETRY_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504})
"""Answers that may be different a moment later."""

_SHOWN_CHARACTERS = 400
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]+")
_NO_TOOLS = re.compile(
    r"does not support tools|tool.{0,3}choice requires|enable-auto-tool-choice|tools? (?:is|are) not supported"
    r"|does not support (?:function|tool)[ -]?call|tools param requires --jinja",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"exceed_context_size|context_length_exceeded|exceeds? the (?:available )?context|context (?:size|window) exceeded"
    r"|maximum context length|context length (?:of|is)|(?:prompt|input) (?:is )?too long|input length exceeds",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|model\b.{0,200}?(?:not found|does not exist|not exist|is not available)"
    r"|no such model|no model loaded",
    re.IGNORECASE | re.DOTALL,
)
_NO_MEMORY = re.compile(r"more system memory|out of memory|not enough memory|cudaMalloc failed", re.IGNORECASE)
_LOADING = re.compile(r"loading model|model is (?:still )?loading|is loading|still starting", re.IGNORECASE)
_WINDOW_NUMBERS = (
    re.compile(r"\((?P<prompt>\d+) tokens?\) exceeds.{0,60}?\((?P<window>\d+) tokens?\)", re.DOTALL),
    re.compile(r"maximum context length (?:is|of) (?P<window>\d+).{0,200}?(?P<prompt>\d+)", re.DOTALL),
)


@dataclass(frozen=True)
class ServerErrorReply:
    """What a server wrote about an error, with codes and numbers where it gave them."""

    message: str
    code: str = ""
    """`type` and `code` of the answer, for recognition."""
    prompt_tokens: int | None = None
    context_window: int | None = None

    @property
    def no_tools(self) -> bool:
        """Whether the model or server cannot take tools."""
        return bool(_NO_TOOLS.search(self.message))


def read_error(value: JsonValue) -> ServerErrorReply:
    """Find the message in any of the shapes servers use; a string holding JSON is read once.

    `{"error": {"message", "type", "code"}}`, `{"object": "error", "message"}`, `{"error": "text"}`, `{"detail": ...}`.
    """
    if isinstance(value, str):
        return _from_text(value)
    if not isinstance(value, dict):
        return ServerErrorReply("")
    inner = value.get("error")
    if isinstance(inner, dict):
        return _from_members(inner)
    if isinstance(inner, str) and inner:
        return _from_text(inner)
    return _from_members(value)


def read_error_body(body: bytes) -> ServerErrorReply:
    """Read the body of an HTTP answer, JSON or not."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return read_error(parse_json(text))
    except ValueError:
        return ServerErrorReply("an HTML page" if text[:1] == "<" else text)


def error_from(
    error: ServerErrorReply, *, url: str, status: int | None, model: str | None, retry_after: float | None = None
) -> ProviderError:
    """Return the typed error with its remedy; `status` is None within a stream."""
    kind, remedy = _judge(error, status, model)
    where = f"{url} answered HTTP {status}" if status is not None else f"{url} reported an error while answering"
    reason = shown(error.message) or "no reason given"
    numbers = _numbers(error)
    if kind is ProviderErrorKind.RATE_LIMITED and retry_after is not None:
        remedy = f"Wait {retry_after:g} s, then try again."
    retryable = kind in (ProviderErrorKind.RATE_LIMITED, ProviderErrorKind.LOADING) or (
        kind is ProviderErrorKind.REFUSED and status in RETRY_STATUSES and not _NO_MEMORY.search(error.message)
    )
    return ProviderError(
        kind,
        f"{where}: {reason}. {remedy}",
        retryable=retryable,
        url=url,
        status=status,
        prompt_tokens=numbers[0],
        context_window=numbers[1],
        retry_after=retry_after,
    )


def shown(text: str) -> str:
    """Return a server's words on one line, without control characters, shortened."""
    line = " ".join(_CONTROL.sub(" ", text).split()).rstrip(".")
    return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."


def _judge(error: ServerErrorReply, status: int | None, model: str | None) -> tuple[ProviderErrorKind, str]:
    text = f"{error.message} {error.code}"
    named = f"model {model!r}" if model else "the model"
    if error.context_window is not None or _OVERFLOW.search(text):
        return ProviderErrorKind.CONTEXT_OVERFLOW, _overflow_remedy(error)
    if error.no_tools:
        return ProviderErrorKind.NO_TOOLS, f"Choose a model that can call tools, or use {named} for talking only."
    if status in (401, 403) or "invalid_api_key" in text:
        return ProviderErrorKind.AUTH, "Check the API key in the settings."
    if _LOADING.search(text):
        return ProviderErrorKind.LOADING, "Wait until the server has loaded the model, then try again."
    if _NO_MODEL.search(text) and (status in (None, 400, 404, 422)):
        return ProviderErrorKind.NO_SUCH_MODEL, f"Choose one the server has, or load {named} there first."
    if "insufficient_quota" in text or status == 402:
        return ProviderErrorKind.AUTH, "The account has no credit left; check it with the provider."
    if status == 429:
        return ProviderErrorKind.RATE_LIMITED, "Wait a moment, then try again."
    if _NO_MEMORY.search(text):
        return ProviderErrorKind.REFUSED, f"Choose a smaller model, or a smaller window for {named}."
    return ProviderErrorKind.REFUSED, _refused_remedy(status)


def _refused_remedy(status: int | None) -> str:
    if status is None:
        return "Try again; the log of the server says more."
    if status in (404, 405):
        return "Check the base URL; the server does not know this address."
    if 300 <= status < 400:
        return "The server points elsewhere; set the base URL to that address."
    if status >= 500:
        return "Try again; the log of the server says more."
    return "The server did not accept the request."


def _overflow_remedy(error: ServerErrorReply) -> str:
    prompt, window = _numbers(error)
    counts = f"The conversation has {prompt:,} tokens, the window {window:,}. " if prompt and window else ""
    return f"{counts}Shorten the conversation, or give the model a larger context window."


def _numbers(error: ServerErrorReply) -> tuple[int | None, int | None]:
    if error.context_window is not None:
        return error.prompt_tokens, error.context_window
    for pattern in _WINDOW_NUMBERS:
        if found := pattern.search(error.message):
            return int(found.group("prompt")), int(found.group("window"))
    return None, None


def _from_text(text: str) -> ServerErrorReply:
    if text.lstrip().startswith("{"):
        try:
            unpacked = parse_json(text)
        except ValueError:
            return ServerErrorReply(text)
        if isinstance(unpacked, dict):
            inner = unpacked.get("error", unpacked)
            return _from_members(inner) if isinstance(inner, dict) else ServerErrorReply(str(inner))
    return ServerErrorReply(text)


def _from_members(members: JsonObject) -> ServerErrorReply:
    words = members.get("message", members.get("detail", members.get("error_description")))
    message = words if isinstance(words, str) else json.dumps(words if words is not None else members)
    codes = [str(members[key]) for key in ("type", "code") if members.get(key) is not None]
    return ServerErrorReply(
        message, " ".join(codes), as_count(members.get("n_prompt_tokens")), as_count(members.get("n_ctx"))
    )
