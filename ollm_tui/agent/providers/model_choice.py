"""Chooses a model when none was named, and says so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ollm_tui.agent.providers.provider import ModelInfo, ProviderError, ProviderErrorKind
from ollm_tui.agent.providers.provider_errors import shown

_NO_CHAT = re.compile(r"embed|rerank|whisper|tts|moderation|dall-e|\bbert", re.IGNORECASE)


def choose_model(models: Sequence[ModelInfo], address: str) -> tuple[str, str]:
    """The first model that can talk, and the notice that says so. Raises ProviderFailure when there is none."""
    talking = [model for model in models if not _NO_CHAT.search(f"{model.name} {model.family or ''}")] or list(models)
    if not talking:
        raise ProviderError(
            ProviderErrorKind.NO_SUCH_MODEL,
            f"{address} is there, but has no model. Load one there (with Ollama: `ollama pull NAME`), then try again.",
            url=address,
        )
    name = talking[0].name
    among = "the only model" if len(models) == 1 else f"the first of {len(models)} models"
    return name, f"No model was named: using {shown(name)}, {among} at {address}. Name one with --model."
