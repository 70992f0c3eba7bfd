"""What goes along with a session's first message from memory, by the settings, the model and the policy."""

from __future__ import annotations

from ollm_tui.agent.providers.offline import OfflineProvider
from ollm_tui.agent.providers.provider import Provider
from ollm_tui.agent.recall import MemoryRecall
from ollm_tui.config import MemorySettings
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.memory import Memory
from ollm_tui.core.memory.overview import MemoryOverview
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.memory_get import MEMORY_GET

WINDOW_SHARE = 8
"""Notes take at most this part of a context window that is known."""


def recall_for(
    provider: Provider, settings: MemorySettings, memory: Memory, overview: MemoryOverview, executor: ToolExecutor
) -> MemoryRecall | None:
    """None where nothing is to go along: it is switched off, or there is no model to read it."""
    if not settings.inject or isinstance(provider, OfflineProvider):
        return None
    window = provider.describe().context_window
    budget = settings.inject_tokens if window is None else min(settings.inject_tokens, window // WINDOW_SHARE)

    async def allowed(key: str) -> bool:
        """Whether the model might read it by itself, unasked: what asks or is denied is not given away here."""
        explained = await executor.explain(MEMORY_GET.name, {"key": key}, origin=Origin.MODEL)
        return explained.decision is Decision.ALLOW

    return MemoryRecall(memory, overview, allowed, budget)
