"""`ollm-tui serve`: the dashboard in a browser on this machine."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ollm_tui.cli.command_line import ExitCode, UsageError, dashboard_parser, ending_signals, parse
from ollm_tui.cli.streams import say

if TYPE_CHECKING:
    from ollm_tui.cli.web_server import WebServer

NEEDED = "serve needs textual-serve: pip install 'ollm-tui[serve]'"


def run_command(argv: list[str]) -> int:
    """Serve the dashboard until the person stops it."""
    parser = dashboard_parser("serve", "Show the dashboard in a browser on this machine.")
    parser.epilog = "The other options are the dashboard's; `ollm-tui help serve` tells more."
    _add_port(parser)
    dashboard = parse(parser, argv)
    if not 0 <= dashboard.port <= 65535:
        raise UsageError(f"there is no port {dashboard.port}; name one from 1 to 65535")
    if dashboard.prompt is not None or dashboard.plain:
        raise UsageError("serve takes no message and no --plain: each window begins with the dashboard")
    if not (dashboard.workspace or Path()).is_dir():
        raise UsageError(f"{dashboard.workspace} is not a directory")
    try:
        from ollm_tui.cli.web_server import WebServer
    except ImportError as error:
        raise UsageError(f"{NEEDED} ({error})") from None
    title = f"ollm-tui {(dashboard.workspace or Path()).resolve().name}"
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_port(own)
    command = [sys.executable, "-P", "-m", "ollm_tui", *own.parse_known_args(argv)[1]]
    return asyncio.run(_serve(WebServer(command, title), dashboard.port))


def _add_port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, metavar="N", help="listen there; a free port when not given")


async def _serve(server: WebServer, port: int) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, stopped.set)
    try:
        await server.start(port)
    except OSError as error:
        raise UsageError(f"port {port} cannot be opened: {error.strerror}") from None
    print(server.url, flush=True)
    say("Open it in a browser here. Who knows this address can do what you can; ctrl+c ends it and every dashboard.")
    try:
        await stopped.wait()
    finally:
        await server.close()
    return ExitCode.INTERRUPTED
