"""What all tests share: no network beyond this machine, and no files of the person who runs them."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest

hypothesis.settings.register_profile("untimed", deadline=None)  # how long an example takes is the machine's business
hypothesis.settings.load_profile("untimed")

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")  # before anything imports textual

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # programs under test would compile every module at each start

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as behind the `&` of a script: programs under test inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

FULL_COLLECTIONS_EVERY = 100
"""Collections of the middle generation before all of the heap is walked; Python's default is 10."""

TESTS_DIR = Path(__file__).parent

_homes = itertools.count()

LOCAL = {"127.0.0.1", "::1", "localhost"}


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has configuration, data and state folders of its own, and no variable of ours is set."""
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_homes))  # mktemp reads every name beside it each time
    home.mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("OLLM_") and not name.startswith("OLLM_TEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    for name in ("COLUMNS", "LINES"):  # taking a snapshot sets them for good, and they outrank a terminal's size
        os.environ.pop(name, None)
    monkeypatch.setenv("HOME", str(home))
    for variable, folder in (("CONFIG", ".config"), ("DATA", ".local/share"), ("STATE", ".local/state")):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(home / folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))  # sessions of other tests ask nothing here
    return home


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection beyond the loopback address fails the test that tries it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:  # Any: as the standard library declares it
        if self.family in (socket.AF_INET, socket.AF_INET6) and str(address[0]) not in LOCAL:
            raise AssertionError(f"a test tried to reach {address[0]}: only this machine is allowed")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name archives and long bytes by their argument: gzip writes the time, and all workers must have the same ids."""
    return argname if isinstance(val, bytes) and (len(val) > 64 or val.startswith(b"\x1f\x8b")) else None


SLOWEST_FIRST = (
    *("agent/providers/test_llama_server.py", "tui/", "core/shell/", "cli/", "contract/", "e2e/", "agent/mcp/"),
    *(
        "test_extending.py",
        "test_packaging.py",
        "core/tools/test_install_source_package.py",
        "core/tools/test_browser.py",
    ),
)
"""Where a file's tests take long for their number. One that starts last is waited for by the other workers.

Files that mostly wait stand before those that take all the CPU there is, so that the two mix."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with the slowest tests first; the order within a file stays."""

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(TESTS_DIR).as_posix() if item.path.is_relative_to(TESTS_DIR) else ""
        return next((at for at, start in enumerate(SLOWEST_FIRST) if path.startswith(start)), len(SLOWEST_FIRST))

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests themselves, and most of its walks over everything that lives.

    Each dashboard is a heap of circles, so that a third of the CPU time of its tests went into full collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], FULL_COLLECTIONS_EVERY)


def pytest_configure(config: pytest.Config) -> None:
    """Snapshots are made and compared on one Python alone: others draw the same screen with other bytes."""
    if config.getoption("--snapshot-update", default=False) and sys.version_info[:2] != (3, 11):
        raise pytest.UsageError("snapshots are made on Python 3.11 only")
