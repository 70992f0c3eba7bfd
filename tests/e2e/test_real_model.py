"""A turn of the whole program against a real llama.cpp server: structure is checked, never wording."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.providers.test_llama_server import running
from tests.e2e.outer import OuterTerminal

LONGEST_REPLY = 40
"""Tokens. Some answers of so small a model never come to an end by themselves, and a full window takes minutes."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "llama.txt") as (url, _):
        yield url


@pytest.fixture
def brief_server(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "llama.txt", LONGEST_REPLY) as (url, _):
        yield url


@pytest.fixture
def no_tools(tmp_path: Path) -> Path:
    """The model's window is small, and this is about its words."""
    policy = tmp_path / "policy.toml"
    policy.write_text('[tools]\nallow = ["browser"]\n')
    return policy


async def test_a_turn_streams_and_reports_usage(brief_server: str, no_tools: Path, tmp_path: Path) -> None:
    arguments = ["run", "Say hello.", "--provider", "openai", "--base-url", brief_server]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ollm_tui", *arguments, "--policy", str(no_tools), "--output", "jsonl",
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, env={**os.environ, "OLLM_PROBE": "0"},
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 110)
    events = [json.loads(line) for line in out.decode().splitlines()]
    assert process.returncode == 0
    assert len([event for event in events if event["type"] == "text_delta"]) >= 2
    [usage] = [event for event in events if event["type"] == "usage"]
    assert usage["promptTokens"] > 50 and 2 <= usage["completionTokens"] <= LONGEST_REPLY
    if usage["completionTokens"] < LONGEST_REPLY:
        assert not [event for event in events if event["type"] == "notice" and "length limit" in event["text"]]
    [message] = [event for event in events if event["type"] == "assistant_message"]
    assert message["text"] == "".join(event["text"] for event in events if event["type"] == "text_delta")
    assert (events[-1]["type"], events[-1]["status"]) == ("turn_finished", "completed")


async def test_escape_stops_the_model_and_keeps_what_it_said(server: str, no_tools: Path, tmp_path: Path) -> None:
    terminal = OuterTerminal.start(
        "--provider", "openai", "--base-url", server, "--policy", str(no_tools), cwd=tmp_path
    )
    try:
        await terminal.sees("IDLE")
        await terminal.type("Write a very long story about the sea, with many chapters.", "enter")
        await terminal.sees(lambda text: text.split()[0] == "STREAMING", 90)
        await asyncio.sleep(0.5)
        await terminal.type("esc")
        await terminal.sees("Esc again stops the turn")
        await terminal.type("esc")
        await terminal.sees(lambda text: text.split()[0] == "IDLE", 40)
        await terminal.sees("cut off here")
    finally:
        await terminal.close()
