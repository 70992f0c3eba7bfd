"""The room of the tests about the cage that works."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.core.sandbox.work_room import IDENTITY, Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    made.workspace.mkdir()
    made.home.mkdir()
    (made.home / "secret").write_text("hidden words\n")
    (made.workspace / "file").write_text("one\n")
    (made.workspace / ".env").write_text("KEY=1\n")
    (made.workspace / ".ollm").mkdir()
    (made.workspace / "sub").mkdir()
    for folder in (made.workspace, made.workspace / "sub"):
        subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    subprocess.run(["bash", "-c", f"git add file; {IDENTITY} commit -qm first"], cwd=made.workspace, check=True)
    with ExitStack() as stack:
        other = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(other.kill)
        made.facts["OTHER"] = other.pid
        listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        made.facts["PORT"] = listener.getsockname()[1]
        local = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        at = os.getcwd()
        os.chdir(made.workspace)
        local.bind("socket")
        os.chdir(at)
        local.listen()
        for each in (listener, local):
            threading.Thread(target=_accept, args=(each,), daemon=True).start()
        yield made


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return
