"""The room of the tests about the cage that works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.sandbox.work_room import Room, furnished


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with furnished(tmp_path) as made:
        yield made
