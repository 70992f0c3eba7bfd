"""Resuming a session of 10,000 events: its log read, the model's history rebuilt, the conversation shown again.

Run: python tests/bench/bench_session.py. Medians of CPU time are printed.
Bar: all three together <= 0.5 s. A search through the log is printed beside it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    Event,
    LoggedResult,
    ProposedCall,
    SessionStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UsageEvent,
    UserMessageEvent,
    as_line,
)
from ollm_tui.agent.session.catalogue import first_hit, list_sessions
from ollm_tui.agent.session.history import restore_history
from ollm_tui.agent.session.reading import read_log
from ollm_tui.core.bus.states import Origin
from ollm_tui.tui.controllers.conversation_controller import ConversationController

EVENTS = 10_000
ROUNDS = 7
GOAL = 0.5
MOMENT = "2026-01-31T09:00:00.000Z"


def main() -> None:
    """Print how long each part takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "20260131-090000-bench" / "events.jsonl"
        path.parent.mkdir()
        write_log(path)
        logged = read_log(path)
        (session,) = list_sessions(Path(folder))
        parts = {
            "read": median(lambda: read_log(path)),
            "rebuild": median(lambda: restore_history(logged.events, ask_again=True)),
            "show": median(lambda: ConversationController().replay(logged.events)),
        }
        total = sum(parts.values())
        words = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in parts.items())
        print(f"{len(logged.events):,} events, {path.stat().st_size / 1e6:.1f} MB: {words}")
        print(f"resume: {total * 1000:.0f} ms (goal {GOAL * 1000:.0f}{'' if total <= GOAL else ', MISSED'})")
        print(f"search without a hit: {median(lambda: first_hit(session, 'nowhere in it')) * 1000:.0f} ms")
    sys.exit(0 if total <= GOAL else 1)


def write_log(path: Path, *, total: int = EVENTS, workspace: str = "/w") -> None:
    """Write turns of a message, an answer with a call, its result and its usage, six events, of which two are messages."""
    started = SessionStartedEvent(session_id="s", workspace=workspace, provider="p", model="m", version="1")
    result = LoggedResult(ok=True, llm_content="a line of a file\n" * 60, return_display="60 lines")
    written: list[Event] = [started]
    while len(written) < total:
        call = f"call_{len(written)}"
        proposed = ProposedCall(id=call, name="read_file", arguments={"path": "src/a.py"})
        written += [
            UserMessageEvent(text="do this " * 20),
            AssistantMessageEvent(text="word " * 200, tool_calls=(proposed,)),
            ToolCallEvent(call_id=call, name="read_file", arguments=proposed.arguments, origin=Origin.MODEL),
            ToolResultEvent(call_id=call, result=result),
            UsageEvent(prompt_tokens=1_000, completion_tokens=200),
            TurnFinishedEvent(status=TurnStatus.COMPLETED),
        ]
    with path.open("w", encoding="utf-8") as file:
        for number, event in enumerate(written, start=1):
            file.write(as_line(event.model_copy(update={"id": number, "time": MOMENT})) + "\n")


def median(run: Callable[[], object]) -> float:
    """Return the median CPU time of a call in seconds."""
    times: list[float] = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main()
