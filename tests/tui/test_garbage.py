"""Full collections of the dashboard's process run between keys, and leave nothing behind for long."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from ollm_tui.testing.fakes import FakeClock
from ollm_tui.tui import garbage
from ollm_tui.tui.garbage import QUIET_SECONDS, THOROUGH_SECONDS, IdleCollector


class Timers:
    """Timers that run when told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def set(self, seconds: float, act: Callable[[], None]) -> None:
        assert seconds == QUIET_SECONDS
        self.waiting.append(act)

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for act in waiting:
            act()


class Circle:
    """Garbage that only a collection finds, with the others that are alive."""

    alive = 0

    def __init__(self) -> None:
        self.itself = self
        Circle.alive += 1

    def __del__(self) -> None:
        Circle.alive -= 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[IdleCollector, Timers, FakeClock]]:
    """A collector as after the start; the process's own is put back."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    monkeypatch.setattr(garbage, "DUE", 0)
    monkeypatch.setattr(Circle, "alive", 0)
    timers, clock = Timers(), FakeClock()
    gc.disable()
    collector = IdleCollector(timers.set, clock.monotonic)
    collector.end_start()
    assert gc.isenabled()
    yield collector, timers, clock
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()
    if frozen:
        gc.freeze()


def test_a_collection_that_is_due_waits_until_no_key_is_pressed(
    started: tuple[IdleCollector, Timers, FakeClock],
) -> None:
    collector, timers, clock = started
    Circle()
    collector.consider()
    collector.consider()
    assert len(timers.waiting) == 1
    clock.advance(QUIET_SECONDS / 2)
    collector.note_key()
    clock.advance(QUIET_SECONDS / 2)
    timers.run()
    assert Circle.alive == 1 and len(timers.waiting) == 1
    clock.advance(QUIET_SECONDS)
    timers.run()
    assert Circle.alive == 0 and not timers.waiting


def test_what_outlived_a_collection_goes_with_a_thorough_one(started: tuple[IdleCollector, Timers, FakeClock]) -> None:
    collector, timers, clock = started
    kept = Circle()
    clock.advance(QUIET_SECONDS)
    collector.consider()
    timers.run()
    del kept
    collector.consider()
    timers.run()
    assert Circle.alive == 1
    clock.advance(THOROUGH_SECONDS)
    collector.consider()
    timers.run()
    assert Circle.alive == 0


def test_a_process_that_keeps_its_collector_is_left_alone() -> None:
    timers = Timers()
    thresholds = gc.get_threshold()
    collector = IdleCollector(timers.set, FakeClock().monotonic)
    collector.end_start()
    collector.note_key()
    assert not timers.waiting and gc.get_threshold() == thresholds
