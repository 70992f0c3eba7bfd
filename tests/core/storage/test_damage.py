"""A damaged store is said, kept and salvaged, wherever it is damaged; nothing is replaced without a word."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.memory import Memory
from ollm_tui.core.policy.audit import AuditEntry, AuditEvent, AuditLog
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList
from ollm_tui.testing import FakeClock

PAGE = 4096
WORKSPACE = Path("/w")
AT = datetime(2026, 1, 31, 9, 5, tzinfo=UTC)


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        event=AuditEvent.DECIDED, call_id=f"c{number}", tool="ls", origin=Origin.USER, arguments_sha256="0" * 64
    )


def filled(path: Path) -> dict[str, str]:
    """Make a store of some dozen pages; return its memories."""
    store = Store(path)
    memory, todos, log = Memory(store, WORKSPACE), TodoList(store, WORKSPACE), AuditLog(store)
    values = {f"key {number}": f"value {number} " + "x" * 400 for number in range(60)}
    for key, value in values.items():
        memory.set(key, value)
    for number in range(40):
        todos.add(f"task {number} " + "y" * 200)
        log.append(entry(number))
    store.close()
    return values


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    path = tmp_path_factory.mktemp("whole") / "ollm.db"
    return path, filled(path)


def test_each_page_zeroed_in_turn_is_said_and_the_rest_is_salvaged(
    tmp_path: Path, whole: tuple[Path, dict[str, str]]
) -> None:
    original, values = whole
    content = original.read_bytes()
    pages = len(content) // PAGE
    assert pages > 20
    salvaged: list[int] = []
    for page in range(pages):
        path = tmp_path / str(page) / "ollm.db"
        path.parent.mkdir()
        path.write_bytes(content[: page * PAGE] + b"\0" * PAGE + content[(page + 1) * PAGE :])
        store = Store(path, clock=FakeClock(AT))
        notice = store.open()
        memory, todos, log = Memory(store, WORKSPACE), TodoList(store, WORKSPACE), AuditLog(store)
        found = {each.key: each.value for each in memory.entries()}
        assert found.items() <= values.items(), page
        tasks = todos.list()
        lines = log.read()
        log.append(entry(99))
        if notice is None:
            assert (len(found), len(tasks), len(lines)) == (60, 40, 40), f"page {page} is lost without a word"
        else:
            assert str(store.set_aside and store.set_aside.kept_as) in notice.message
            assert log.verify() is not None, page
            salvaged.append(len(found) + len(tasks) + len(lines))
        store.close()
    assert len(salvaged) > pages // 2
    assert sum(count > 100 for count in salvaged) > len(salvaged) // 2, salvaged


def test_every_command_says_it_until_it_is_accepted(
    tmp_path: Path, whole: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir().mkdir(parents=True)
    path = data_dir() / "ollm.db"
    shutil.copy(whole[0], path)
    content = bytearray(path.read_bytes())
    content[-4 * PAGE :] = b"\xff" * 4 * PAGE
    path.write_bytes(content)
    for _ in range(2):
        for command in (["memory", "list"], ["policy", "log"], ["tool", "call", "ls", "{}"]):
            main([*command, "-C", str(tmp_path)])
            assert "was damaged" in capsys.readouterr().err, command
        assert main(["policy", "log", "--verify"]) == 1
        assert "was damaged" in capsys.readouterr().err
    assert main(["doctor", "--accept"]) == 0
    assert "Accepted: " in capsys.readouterr().err
    main(["memory", "list", "-C", str(tmp_path)])
    assert "was damaged" not in capsys.readouterr().err
    assert main(["policy", "log", "--verify"]) == 1, "the log itself remembers the gap"
    assert list(data_dir().glob("ollm.db.accepted-*"))
    main(["doctor", "--accept"])
    assert "nothing to accept" in capsys.readouterr().err
