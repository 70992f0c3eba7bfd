"""How many tokens a text takes, without a tokenizer: within a quarter for prose, code, listings, digits and hex."""

from __future__ import annotations

import json
import re

from ollm_tui.agent.providers import provider as wire

MESSAGE_TOKENS = 5
IMAGE_TOKENS = 1_000
"""What an image may take; models differ from a few hundred to two thousand."""

_PIECE = re.compile(r"[A-Za-z]{1,6}|[0-9]|[^\x00-\x7f]|\n+|[ \t]{2,}|[!-/:-@\[-`{-~]{1,2}")
"""About a token each, measured against the tokenizers of SmolLM2 and Gemma."""

_MOST_COUNTED = 20_000
_counted: dict[tuple[int, int], int] = {}
"""Long texts that were counted, by hash and length: a history is measured again before each request."""
_LONG = 400
_SAMPLES, _SAMPLE = 8, 2_000
"""Of longer texts so many parts of so many characters are counted: the event loop waits for it."""


def estimated_tokens(text: str) -> int:
    """Return an estimate of the tokens in `text`."""
    if len(text) < _LONG:
        return len(_PIECE.findall(text))
    key = (hash(text), len(text))
    tokens = _counted.get(key)
    if tokens is None:
        if len(_counted) >= _MOST_COUNTED:
            _counted.clear()
        tokens = _counted[key] = _count(text)
    return tokens


def _count(text: str) -> int:
    if len(text) <= _SAMPLES * _SAMPLE:
        return len(_PIECE.findall(text))
    step = len(text) // _SAMPLES
    counted = sum(len(_PIECE.findall(text, at, at + _SAMPLE)) for at in range(0, step * _SAMPLES, step))
    return counted * len(text) // (_SAMPLES * _SAMPLE)


def within(text: str, tokens: int) -> str:
    """Return the beginning of `text` that is estimated at no more than `tokens`."""
    for count, piece in enumerate(_PIECE.finditer(text)):
        if count >= max(tokens, 0):
            return text[: piece.start()]
    return text


def message_tokens(message: wire.Message) -> int:
    """Return an estimate of the tokens that a message takes."""
    return sum(map(estimated_tokens, texts_of(message))) + MESSAGE_TOKENS + _image_tokens(message)


def texts_of(message: wire.Message) -> list[str]:
    """Return the texts that a message is sent with."""
    match message:
        case wire.SystemMessage(text):
            return [text]
        case wire.UserMessage():
            return [message.text, message.preface]
        case wire.AssistantMessage(text, calls):
            return [text, *(f'{{"name": "{call.name}", "arguments": {json.dumps(call.arguments)}}}' for call in calls)]
        case wire.ToolMessage(content=content):
            return [content]


def _image_tokens(message: wire.Message) -> int:
    return len(message.images) * IMAGE_TOKENS if isinstance(message, wire.UserMessage) else 0
