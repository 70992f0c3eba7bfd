"""What jobs take and offer: processor time and listening addresses (001 R5.5)."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import sys
import time

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.shell import process_tree, process_usage
from ollm_tui.core.shell.process_usage import (
    PortsUnknownError,
    UsageReading,
    UsageWatcher,
    listening_addresses,
    server_of,
)
from tests.core.shell.conftest import Bench, until

LISTEN = (
    "import socket, sys, time\n"
    "s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n"
    "s.bind((sys.argv[1], 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(60)"
)


async def listening_job(bench: Bench, host: str, prefix: str = "", program: str = LISTEN) -> int:
    """A job that listens at a port the system chose; returns the port."""
    (bench.root / "listen.py").write_text(program)
    await bench.shell(f"{prefix}{sys.executable} listen.py '{host}'", background=True)
    job = bench.hub.list()[-1].id
    await until(lambda: bench.hub.find(job).output.size)
    return int(b"".join(bench.hub.find(job).output.pieces(0)))


async def look(bench: Bench, watcher: UsageWatcher, *jobs: str) -> UsageReading:
    return await asyncio.to_thread(lambda: watcher.read({job: bench.hub.process_tree(job) for job in jobs}))


@pytest.fixture(params=["proc", "lsof"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sources of ports, as on Linux and as elsewhere."""
    if request.param == "lsof":
        if shutil.which("lsof") is None:
            pytest.skip("needs lsof")
        monkeypatch.setattr(process_usage, "addresses_by_proc", process_usage.addresses_by_lsof)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "localhost"), ("::", "localhost"), ("::1", "[::1]")]
)
async def test_a_job_is_shown_with_the_addresses_it_listens_on(bench: Bench, host: str, shown: str) -> None:
    port = await listening_job(bench, host)
    seen = await look(bench, UsageWatcher(), "j1")
    assert seen.usage["j1"].addresses == (f"{shown}:{port}",)
    assert seen.unknown == ""


UDP = (
    "import socket, sys, time\n"
    "s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)\n"
    "s.bind((sys.argv[1], 0))\n"
    "c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.connect(('127.0.0.1', 9))\n"
    "print(s.getsockname()[1], flush=True); time.sleep(60)"
)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "localhost"), ("::", "localhost"), ("::1", "[::1]")]
)
async def test_udp_ports_are_shown_as_such_and_sockets_connected_to_one_peer_are_not(
    bench: Bench, host: str, shown: str
) -> None:
    port = await listening_job(bench, host, program=UDP)
    seen = await look(bench, UsageWatcher(), "j1")
    assert seen.usage["j1"].addresses == (f"{shown}:{port}/udp",)
    assert server_of(port, {"j1": bench.hub.process_tree("j1")}) is None, "nothing to fetch from"


async def test_a_port_of_a_process_that_left_the_session_belongs_to_the_job_and_those_of_others_do_not(
    bench: Bench,
) -> None:
    with socket.create_server(("127.0.0.1", 0)):
        port = await listening_job(bench, "127.0.0.1", "setsid ")
        await bench.shell("sleep 60", background=True)
        seen = await look(bench, UsageWatcher(), "j1", "j2")
    assert seen.usage["j1"].addresses == (f"127.0.0.1:{port}",)
    assert seen.usage["j2"].addresses == ()


async def test_processor_time_is_that_of_all_processes_of_the_job_since_the_last_look(bench: Bench) -> None:
    await bench.shell("(while :; do :; done) & (while :; do :; done) & wait", background=True)
    await bench.shell("sleep 60", background=True)
    watcher = UsageWatcher()
    first = await look(bench, watcher, "j1", "j2")
    assert (first.usage["j1"].cpu, first.usage["j2"].cpu) == (None, None)
    mine = [psutil.Process(process.pid) for process in first.usage["j1"].processes]
    before, began = sum(sum(one.cpu_times()[:2]) for one in mine), time.monotonic()
    await asyncio.sleep(0.6)
    second = await look(bench, watcher, "j1", "j2")
    used = 100 * (sum(sum(one.cpu_times()[:2]) for one in mine) - before) / (time.monotonic() - began)
    assert len(first.usage["j1"].processes) == 3
    cpu = second.usage["j1"].cpu
    assert cpu is not None and used > 10 and cpu == pytest.approx(used, rel=0.25)
    assert second.usage["j2"].cpu == pytest.approx(0, abs=5)


async def test_a_system_that_does_not_tell_ports_says_so_and_tells_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.shell("sleep 60", background=True)
    monkeypatch.setattr(process_usage, "addresses_by_proc", process_usage.addresses_by_lsof)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(PortsUnknownError):
        listening_addresses({os.getpid()})
    seen = await look(bench, UsageWatcher(), "j1")
    assert "lsof is missing" in seen.unknown
    assert len(seen.usage["j1"].processes) == 1


def test_processor_time_is_read_from_ps_where_there_is_no_proc() -> None:
    before = time.process_time()
    while time.process_time() < before + 0.2:
        pass
    [own] = [process for process in process_tree.processes_by_ps() if process.pid == os.getpid()]
    # Here `ps` counts whole seconds.
    assert own.cpu / process_tree.TICKS == pytest.approx(time.process_time(), abs=1.1)


@settings(max_examples=100)
@given(days=st.integers(0, 99), seconds=st.integers(0, 86_399), hundredths=st.integers(0, 99), fraction=st.booleans())
def test_processor_time_is_understood_in_every_form_ps_has(
    days: int, seconds: int, hundredths: int, fraction: bool
) -> None:
    hours, minutes = seconds // 3600, seconds // 60 % 60
    lead = f"{days}-{hours:02}:" if days else f"{hours:02}:" if hours else ""
    written = f"{lead}{minutes}:{seconds % 60:02}" + (f".{hundredths:02}" if fraction else "")
    expected = days * 86_400 + seconds + (hundredths / 100 if fraction else 0)
    assert process_tree.parse_ps_time(written) == pytest.approx(expected)


@settings(max_examples=100)
@given(st.text())
def test_nothing_that_lsof_could_print_is_taken_for_more_than_addresses(told: str) -> None:
    for addresses in process_usage.parse_lsof("p1\nPUDP\n" + told.replace("p", "n")).values():
        for host in (place.host for place in addresses):
            assert host == "localhost" or re.fullmatch(r"[0-9.]+|\[[0-9a-f:.]+\]", host)
