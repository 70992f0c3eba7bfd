"""Effects: one after the other on one path, and known to be done or not when a call is given up."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import FileChanged, OperationCancelled
from ollm_tui.core.files import atomic
from ollm_tui.core.files.atomic import carry_out, exclusive

A, B = Path("/a"), Path("/b")


async def test_holders_of_one_place_take_turns_in_the_order_they_came() -> None:
    order: list[int] = []

    async def hold(number: int) -> None:
        async with exclusive(AbortSignal(), A):
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*(hold(number) for number in range(20)))
    assert order == [number for number in range(20) for _ in range(2)]


async def test_different_places_do_not_wait_for_each_other() -> None:
    async with exclusive(AbortSignal(), A), asyncio.timeout(10), exclusive(AbortSignal(), B):
        pass


async def test_two_holders_of_two_places_never_wait_for_each_other_in_a_circle() -> None:
    async def hold(first: Path, second: Path) -> None:
        async with exclusive(AbortSignal(), first, second):
            await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await asyncio.gather(*(hold(A, B) if number % 2 else hold(B, A) for number in range(50)))


async def test_waiting_for_a_place_can_be_given_up_and_leaves_it_free() -> None:
    controller = AbortController()
    async with exclusive(AbortSignal(), A):
        waiting = asyncio.ensure_future(_enter(controller.signal))
        await asyncio.sleep(0)
        controller.abort("enough")
        with pytest.raises(OperationCancelled, match="enough"):
            await waiting
    async with asyncio.timeout(10), exclusive(AbortSignal(), A):
        pass


async def _enter(signal: AbortSignal) -> None:
    async with exclusive(signal, A, B):
        raise AssertionError("it was held")


async def test_the_result_and_the_failure_of_an_effect_are_its_own() -> None:
    assert await carry_out(AbortSignal(), lambda: 5) == 5
    with pytest.raises(FileChanged, match="other"):
        await carry_out(AbortSignal(), _fail)


def _fail() -> None:
    raise FileChanged("other")


async def test_an_effect_that_was_done_when_the_abort_came_is_done() -> None:
    controller = AbortController()
    started = threading.Event()

    def effect() -> str:
        started.set()
        time.sleep(0.1)
        return "done"

    task = asyncio.ensure_future(carry_out(controller.signal, effect))
    await asyncio.to_thread(started.wait, 5)
    controller.abort()
    assert await task == "done"


async def test_an_effect_that_looks_at_the_signal_is_cancelled_and_waited_for() -> None:
    controller = AbortController()
    started, ended = threading.Event(), threading.Event()

    def effect() -> None:
        started.set()
        while True:
            try:
                controller.signal.throw_if_aborted()
            except OperationCancelled:
                time.sleep(0.05)
                ended.set()
                raise
            time.sleep(0.001)

    task = asyncio.ensure_future(carry_out(controller.signal, effect))
    await asyncio.to_thread(started.wait, 5)
    controller.abort()
    with pytest.raises(OperationCancelled):
        await task
    assert ended.is_set()


async def test_an_effect_that_hangs_is_left_behind_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "GRACE_SECONDS", 0.05)
    controller = AbortController()
    release, started = threading.Event(), threading.Event()

    def effect() -> None:
        started.set()
        release.wait(10)

    task = asyncio.ensure_future(carry_out(controller.signal, effect))
    await asyncio.to_thread(started.wait, 5)
    controller.abort("stop")
    with pytest.raises(OperationCancelled, match="stop; the file system did not answer; the change may still be made"):
        await task
    release.set()


async def test_a_cancelled_task_waits_for_its_effect_and_stays_cancelled() -> None:
    started, ended = threading.Event(), threading.Event()

    def effect() -> None:
        started.set()
        time.sleep(0.1)
        ended.set()
        raise FileChanged("nobody hears this, and nothing warns about it")

    task = asyncio.ensure_future(carry_out(AbortSignal(), effect))
    await asyncio.to_thread(started.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_an_aborted_signal_starts_nothing() -> None:
    controller = AbortController()
    controller.abort()
    begun: list[int] = []
    with pytest.raises(OperationCancelled):
        await carry_out(controller.signal, begun.append, 1)
    assert begun == []
