"""A docker engine on a socket: it notes what it is asked, runs nothing, and fails where it is told to."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


@dataclass
class FakeDocker:
    """What the engine was asked, and what it answers."""

    socket: Path
    output: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    exit_code: int = 0
    failing: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Answers by the last word of a path."""
    breaks_off: bool = False
    """Whether output ends in the middle."""
    left: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Containers that are there already."""
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    created: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    removed: list[str] = field(default_factory=list[str])
    blocks: threading.Event | None = None
    """While unset, output does not end."""


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, engine: FakeDocker) -> None:
        self.engine = engine
        super().__init__(str(engine.socket), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        pass

    def _answer(self) -> None:
        engine = self.server.engine
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        last = self.path.partition("?")[0].split("/")[-1]
        engine.asked.append((self.command, self.path))
        answers = {"wait": {"StatusCode": engine.exit_code}, "version": {"Version": "99.1"}, "json": engine.left}
        if last in engine.failing:
            status, message = engine.failing[last]
            self._send(status, {"message": message})
        elif self.command == "DELETE":
            engine.removed.append(last)
            self._send(204)
        elif last == "create":
            engine.created.append(json.loads(body))
            self._send(201, {"Id": "1234"})
        elif last == "logs":
            self._logs(engine)
        else:
            self._send(200 if last in answers else 204, answers.get(last))

    def _send(self, status: int, content: object = None) -> None:
        self.send_response(status)
        self.end_headers()
        if content is not None:
            self.wfile.write(json.dumps(content).encode())

    def _logs(self, engine: FakeDocker) -> None:
        self._send(200)
        for stream, data in engine.output:
            self.wfile.write(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data)
        if engine.breaks_off:
            self.wfile.write(b"\1\0\0\0\0\0\0\x09abc")
        if engine.blocks is not None:
            engine.blocks.wait(30)


@contextmanager
def fake_docker(path: Path) -> Generator[FakeDocker]:
    """Serve an engine at `path`."""
    engine = FakeDocker(path)
    with _Server(engine) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield engine
        finally:
            if engine.blocks is not None:
                engine.blocks.set()
            server.shutdown()
