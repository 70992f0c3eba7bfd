"""Runs one container by the docker engine's HTTP interface, with its output as ours and its exit code as ours.

A program of its own, started by path: it must not wait for the rest of this package. Its first argument is a
descriptor with what to do, as JSON.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

FAILED = 125
"""The exit code where the engine, not the command, failed; docker's own."""

SECONDS = 10.0
"""For every answer but the one that comes when the command is over."""


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EngineError(Exception):
    """What the engine answered that is no success; the message says what to do."""


class Engine:
    """A docker engine behind a socket of this machine."""

    def __init__(self, path: str) -> None:
        self._path = path

    def call(self, method: str, path: str, body: object = None, *, timeout: float | None = SECONDS) -> Any:
        """Return the answer's JSON. Raises EngineError, OSError."""
        answer = self.open(method, path, body, timeout=timeout)
        content = answer.read()
        return json.loads(content) if content.strip() else None

    def open(
        self, method: str, path: str, body: object = None, *, timeout: float | None = SECONDS
    ) -> http.client.HTTPResponse:
        """Return the answer with its content unread. Raises EngineError, OSError."""
        connection = _Connection(self._path, timeout)
        try:
            content = None if body is None else json.dumps(body)
            # Without a version the engine takes its own; each drops old ones.
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status >= 300:
                raise EngineError(f"{answer.status} {_message(answer.read(10_000))}")
        except http.client.HTTPException as error:
            raise EngineError(f"the engine broke off: {error or type(error).__name__}") from None
        return answer


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("docker", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def run(engine: Engine, name: str, container: object) -> int:
    """Create, start and follow a container; return its exit code. It is gone afterwards, whatever happens."""
    try:
        try:
            engine.call("POST", f"/containers/create?name={name}", container)
        except EngineError as error:
            raise EngineError(f"{error}. `docker pull` gets an image ([sandbox] image).") from None
        engine.call("POST", f"/containers/{name}/start")
        for stream, data in _frames(engine.open("GET", f"/containers/{name}/logs?{_FOLLOW}", timeout=None)):
            os.write(stream, data)
        return int(engine.call("POST", f"/containers/{name}/wait", timeout=None)["StatusCode"])
    finally:
        remove(engine, name)


_FOLLOW = "follow=1&stdout=1&stderr=1"


def remove(engine: Engine, name: str) -> None:
    """End and remove a container; one that is not there is no error."""
    try:
        engine.call("DELETE", f"/containers/{name}?force=1&v=1")
    except (EngineError, OSError):
        return


def _frames(answer: http.client.HTTPResponse) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of output with their descriptor: eight bytes say stream and length of each."""
    while header := answer.read(8):
        length = int.from_bytes(header[4:8], "big")
        while length and (data := answer.read(min(length, 65_536))):
            length -= len(data)
            yield (2 if header[0] == 2 else 1), data
        if length or len(header) < 8:
            raise EngineError("the engine broke off in the middle of the output")


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace")[:200]


def main() -> int:
    """Run what the descriptor says."""
    with os.fdopen(int(sys.argv[1]), encoding="utf-8") as given:
        order = json.load(given)
    engine = Engine(order["socket"])

    def end(number: int, _frame: object) -> NoReturn:
        # No exception: one that is raised while an object is being collected would be lost, and this would go on.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        remove(engine, order["name"])
        os._exit(128 + number)

    for number in _SIGNALS:
        signal.signal(number, end)
    try:
        return run(engine, order["name"], order["container"])
    except (EngineError, OSError, http.client.HTTPException) as error:
        print(f"docker: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
