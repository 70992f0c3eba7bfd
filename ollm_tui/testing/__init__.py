"""Test tools, providers and the dashboard: fake time, scripted models, harnesses.

Needs no test runner. `ollm_tui.testing.dashboard_harness` is imported by itself, as it alone loads the screen library.
"""

from ollm_tui.testing.fakes import FakeClock, Reply, SequentialIds, scripted_provider, tool_call
from ollm_tui.testing.tool_harness import Answer, ToolHarness, ToolRun, answer_confirmations

__all__ = [
    "Answer",
    "FakeClock",
    "Reply",
    "SequentialIds",
    "ToolHarness",
    "ToolRun",
    "answer_confirmations",
    "scripted_provider",
    "tool_call",
]
