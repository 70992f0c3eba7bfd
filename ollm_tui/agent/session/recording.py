"""Terminal recordings of a session: what the agent's commands wrote and when, as asciicast v2.

Each command has a file of its own in the session's folder; an export plays them one after the other.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import math
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import cast

from ollm_tui.agent.session.log import for_the_owner_alone
from ollm_tui.agent.session.reading import copied_until, lineage
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.shell.command import RunningCommand
from ollm_tui.core.shell.hub import CommandHub, UnknownCommandError
from ollm_tui.core.shell.status import CommandKind, CommandStatus

log = logging.getLogger(__name__)

TERMINALS = "terminals"
"""The folder beside a session's log with a recording of each command."""

MAX_BYTES = 8_388_608
"""Bytes of a command's output that are recorded; its log may have all of it."""

IDLE_LIMIT = 2.0
"""Seconds; players shorten longer pauses to this."""

PAUSE = 1.0
"""Seconds between two commands of an export."""


class TerminalRecorder:
    """Records the agent's commands of one hub."""

    def __init__(self, hub: CommandHub, clock: Clock, folder: Callable[[], Path], *, attended: bool) -> None:
        """`folder` is the session's; without a person the terminals add no carriage return to a line's end."""
        self._attended = attended
        self._hub = hub
        self._clock = clock
        self._folder = folder
        self._recordings: dict[str, _Recording | None] = {}
        """None for those that have ended."""
        self.close = hub.subscribe(self._changed)

    def _changed(self, status: CommandStatus) -> None:
        if status.kind is not CommandKind.AGENT or status.detached:
            return
        if status.id not in self._recordings:
            try:
                command = self._hub.find(status.id)
            except UnknownCommandError:
                return
            self._recordings[status.id] = recording = _Recording(
                self._folder() / TERMINALS, command, self._clock, adds_returns=not self._attended
            )
            asyncio.get_running_loop().run_in_executor(None, command.output.attach, recording.take)
        if not status.running:
            self._recordings[status.id] = None  # else its output would stay in memory


class _Recording:
    """One command's file, made with its first bytes; `take` is called in the command's thread."""

    def __init__(self, folder: Path, command: RunningCommand, clock: Clock, *, adds_returns: bool) -> None:
        self._line_end = "\r\n" if adds_returns else "\n"
        self._folder = folder
        self._command = command
        self._clock = clock
        self._began = clock.monotonic()
        self._time = clock.now().timestamp()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._size = command.size
        self._room = MAX_BYTES
        self._path: Path | None = None

    def take(self, data: bytes) -> None:
        if self._room <= 0:
            return
        lines: list[str] = []
        if self._path is None:
            columns, rows = self._size = self._command.size
            title = mask(visible(self._command.status.command))
            header = {"version": 2, "width": columns, "height": rows, "timestamp": self._time, "title": title}
            lines.append(json.dumps(header, ensure_ascii=False))
        elif self._size != self._command.size:
            self._size = self._command.size
            lines.append(self._line("r", "{}x{}".format(*self._size)))
        text = self._text.decode(data[: self._room]).replace("\n", self._line_end)
        self._room -= len(data)
        if text:
            lines.append(self._line("o", text))
        if self._room <= 0:
            lines.append(self._line("o", f"\r\n[what follows after {MAX_BYTES} bytes is not recorded]\r\n"))
        self._write(lines)

    def _line(self, kind: str, text: str) -> str:
        return json.dumps([round(self._clock.monotonic() - self._began, 6), kind, text], ensure_ascii=False)

    def _write(self, lines: list[str]) -> None:
        try:
            if self._path is None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._path = self._folder / f"{self._command.status.id}-{secrets.token_hex(4)}.cast"
            # Opened for each piece: hundreds of jobs may run, and a descriptor each is too much.
            with open(self._path, "ab", opener=for_the_owner_alone) as file:
                file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        except OSError as error:
            log.warning("The recording of a command ends early: %s", error)
            self._room = 0


def cast_of(folder: Path, title: str) -> Iterator[str]:
    """Yield the lines of one asciicast with all commands of the session, in their order; nothing where none ran.

    Those of a session that it is a fork of count up to there.
    """
    found: list[tuple[dict[str, object], Path]] = []
    until = math.inf
    for each in lineage(folder):
        recordings = [(header, path) for path in each.glob(f"{TERMINALS}/*.cast") if (header := _header(path))]
        found += [(header, path) for header, path in recordings if _number(header.get("timestamp")) <= until]
        with suppress(OSError, ValueError):
            until = min(until, datetime.fromisoformat(copied_until(each)).timestamp())
    found.sort(key=lambda each: _number(each[0].get("timestamp")))
    if not found:
        return
    size = {name: int(max(_number(header.get(name)) for header, _ in found)) for name in ("width", "height")}
    began = _number(found[0][0].get("timestamp"))
    head = {"version": 2, **size, "timestamp": int(began), "idle_time_limit": IDLE_LIMIT, "title": title}
    yield json.dumps(head, ensure_ascii=False)
    now = 0.0
    for header, path in found:
        start = max(now, _number(header.get("timestamp")) - began)
        title = str(header.get("title", ""))
        yield json.dumps([round(start, 6), "m", title], ensure_ascii=False)
        yield json.dumps([round(start, 6), "o", f"\x1b[0m\x1b[?1049l$ {title}\r\n"], ensure_ascii=False)
        for time, kind, text in _pieces(path):
            now = start + time
            yield json.dumps([round(now, 6), kind, text if kind == "r" else mask(text)], ensure_ascii=False)
        now += PAUSE


def _header(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            value: object = json.loads(file.readline())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _pieces(path: Path) -> Iterator[tuple[float, str, str]]:
    """Yield the events of a recording; half a line, as a kill leaves it, is left out."""
    with path.open("rb") as file:
        file.readline()
        for line in file:
            try:
                time, kind, text = json.loads(line)
            except (ValueError, TypeError):
                continue
            if kind in ("o", "r") and isinstance(text, str):
                yield _number(time), kind, text


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
