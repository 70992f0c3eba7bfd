"""Turn the many ways in which model servers report errors into one typed error."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pydantic import JsonValue

from ollm_tui.agent.providers.json_values import as_count, parse_json
from ollm_tui.agent.providers.provider import ProviderError, ProviderErrorKind

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
    def numbers(self) -> tuple[int | None, int | None]:
        """Tokens of the prompt and of the window, as given or found in the message."""
        if self.context_window is not None:
            return self.prompt_tokens, self.context_window
        found = next(filter(None, (pattern.search(self.message) for pattern in _WINDOW_NUMBERS)), None)
        return (int(found["prompt"]), int(found["window"])) if found else (None, None)


def read_error(value: JsonValue) -> ServerErrorReply:
    """Find the message in any of the shapes servers use, also in a string that holds JSON.

    `{"error": {"message", "type", "code"}}`, `{"object": "error", "message"}`, `{"error": "text"}`, `{"detail": ...}`.
    """
    if isinstance(value, str):
        try:
            packed = parse_json(value)
        except ValueError:
            return ServerErrorReply(value)
        return read_error(packed) if isinstance(packed, dict) else ServerErrorReply(value)
    if not isinstance(value, dict):
        return ServerErrorReply("")
    inner = value.get("error")
    if isinstance(inner, str) and inner:
        return read_error(inner)
    members = inner if isinstance(inner, dict) else value
    words = members.get("message", members.get("detail", members.get("error_description")))
    message = words if isinstance(words, str) else json.dumps(words if words is not None else members)
    codes = [str(members[key]) for key in ("type", "code") if members.get(key) is not None]
    return ServerErrorReply(
        message, " ".join(codes), as_count(members.get("n_prompt_tokens")), as_count(members.get("n_ctx"))
    )


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
    kind, remedy = _kind_and_remedy(error, status, model)
    where = f"{url} answered HTTP {status}" if status is not None else f"{url} reported an error while answering"
    reason = shown(error.message) or "no reason given"
    if kind is ProviderErrorKind.RATE_LIMITED and retry_after is not None:
        remedy = f"Wait {retry_after:g} s, then try again."
    retryable = kind in (ProviderErrorKind.RATE_LIMITED, ProviderErrorKind.LOADING) or (
        kind is ProviderErrorKind.REFUSED and status in RETRY_STATUSES and not _NO_MEMORY.search(error.message)
    )
    prompt, window = error.numbers
    return ProviderError(
        kind,
        f"{where}: {reason}. {remedy}",
        retryable=retryable,
        url=url,
        status=status,
        prompt_tokens=prompt,
        context_window=window,
        retry_after=retry_after,
    )


def shown(text: str) -> str:
    """Return a server's words on one line, without control characters, shortened."""
    line = " ".join(_CONTROL.sub(" ", text).split()).rstrip(".")
    return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."


def _kind_and_remedy(error: ServerErrorReply, status: int | None, model: str | None) -> tuple[ProviderErrorKind, str]:
    """Return what the first sign that holds says of the error."""
    kinds = ProviderErrorKind
    text = f"{error.message} {error.code}"
    named = f"model {model!r}" if model else "the model"
    prompt, window = error.numbers
    counts = f"The conversation has {prompt:,} tokens, the window {window:,}. " if prompt and window else ""
    signs = (
        (
            error.context_window is not None or _OVERFLOW.search(text),
            kinds.CONTEXT_OVERFLOW,
            f"{counts}Shorten the conversation, or give the model a larger context window.",
        ),
        (
            _NO_TOOLS.search(error.message),
            kinds.NO_TOOLS,
            f"Choose a model that can call tools, or use {named} for talking only.",
        ),
        (status == 403, kinds.AUTH, f"Check the API key in the settings, and that it may use {named}."),
        (status == 401 or "invalid_api_key" in text, kinds.AUTH, "Check the API key in the settings."),
        (_LOADING.search(text), kinds.LOADING, "Wait until the server has loaded the model, then try again."),
        (
            status in (None, 400, 404, 422) and _NO_MODEL.search(text),
            kinds.NO_SUCH_MODEL,
            f"Choose one the server has, or load {named} there first.",
        ),
        (
            status == 402 or "insufficient_quota" in text,
            kinds.AUTH,
            "The account has no credit left; check it with the provider.",
        ),
        (status == 429, kinds.RATE_LIMITED, "Wait a moment, then try again."),
        (_NO_MEMORY.search(text), kinds.REFUSED, f"Choose a smaller model, or a smaller window for {named}."),
        (status == 501, kinds.REFUSED, "The server cannot do this: check the base URL, or use a newer server."),
        (
            status is None or status >= 500 or status in RETRY_STATUSES,
            kinds.REFUSED,
            "Try again; the log of the server says more.",
        ),
        (status in (404, 405), kinds.REFUSED, "Check the base URL; the server does not know this address."),
        (
            status is not None and 300 <= status < 400,
            kinds.REFUSED,
            "The server points elsewhere; set the base URL to that address.",
        ),
    )
    found = ((kind, remedy) for holds, kind, remedy in signs if holds)
    return next(found, (kinds.REFUSED, "The server did not accept the request."))
