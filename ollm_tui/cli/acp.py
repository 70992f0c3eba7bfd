"""`ollm-tui acp`: the agent for editors that speak the Agent Client Protocol, on stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec

from ollm_tui.cli.command_line import (
    ExitCode,
    UsageError,
    command_parser,
    ending_signals,
    options_of,
    parse,
    provider_parser,
)
from ollm_tui.options import Options

NOT_INSTALLED = "the Agent Client Protocol is not installed. Run: pip install 'ollm-tui[acp]'"
MAX_LINE = 50_000_000
"""Bytes of one message of the editor."""


def run_command(argv: list[str]) -> int:
    """Serve an editor until it closes the connection."""
    parser = command_parser("acp", "The agent for an editor, over the Agent Client Protocol.", provider_parser())
    given = parse(parser, argv)
    if find_spec("acp") is None:
        raise UsageError(NOT_INSTALLED)
    if sys.stdin.isatty():
        raise UsageError("an editor starts this command; you would have to type its protocol. Use: ollm-tui")
    return asyncio.run(_serve(options_of(given)))


async def _serve(options: Options) -> int:
    from acp import AgentSideConnection

    from ollm_tui.cli.acp_agent import EditorAgent

    # What a library prints must not get among the messages.
    orders, replies = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(orders, "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(replies, "wb"))
    agent = EditorAgent(options)
    connection = AgentSideConnection(
        agent, asyncio.StreamWriter(transport, protocol, None, loop), reader, listening=False
    )
    listening = asyncio.ensure_future(connection.listen())
    for number in ending_signals():
        loop.add_signal_handler(number, listening.cancel)
    try:
        await asyncio.wait((listening,))
    finally:
        await agent.aclose()
        await connection.close()
    return ExitCode.DONE
