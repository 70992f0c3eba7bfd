"""What a result holds, what it never holds, and how failures are typed (contract section 1)."""

from __future__ import annotations

import json
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import JsonValue

from ollm_tui.core import AbortController
from ollm_tui.core.base.errors import ERROR_TABLE, Slug
from ollm_tui.runtime import Attendance
from tests.contract.contract_calls import open_desk

TYPES = """
ValidationError INVALID_ARGUMENTS, ToolNotFoundError TOOL_NOT_FOUND, InvalidPathError INVALID_PATH,
FileNotFoundError FILE_NOT_FOUND, FileExistsError FILE_EXISTS, PermissionError PERMISSION_DENIED,
IsADirectoryError IS_A_DIRECTORY, NotADirectoryError NOT_A_DIRECTORY, FileTooLargeError FILE_TOO_LARGE,
BinaryFileError BINARY_FILE, EncodingError ENCODING_ERROR, NoSpaceError NO_SPACE, FileChangedError FILE_CHANGED,
FileReadError IO_ERROR, FileWriteError IO_ERROR, FileEditError IO_ERROR, GlobError IO_ERROR, GrepError IO_ERROR,
LsError IO_ERROR, EditTargetNotFound EDIT_TARGET_NOT_FOUND, EditTargetAmbiguous EDIT_TARGET_AMBIGUOUS,
EditNoChange EDIT_NO_CHANGE, ShellExecutionError EXECUTION_ERROR, ShellTimeoutError TIMEOUT,
ShellIdleTimeoutError TIMEOUT, ToolTimeoutError TIMEOUT, HttpError HTTP_ERROR, FetchError NETWORK_ERROR,
FetchTimeoutError TIMEOUT, UrlNotAllowedError URL_NOT_ALLOWED, SearchError SEARCH_ERROR, MemoryError MEMORY_ERROR,
TodoError TODO_ERROR, StorageError STORAGE_ERROR, PolicyDeniedError POLICY_DENIED, ConfirmationDenied USER_DENIED,
ConfirmationTimeout CONFIRMATION_TIMEOUT, ConfirmationCancelled CANCELLED, OperationCancelled CANCELLED,
SandboxUnavailableError SANDBOX_UNAVAILABLE, TaskError TASK_FAILED, McpError MCP_ERROR, InternalError INTERNAL
"""
"""The contract's table, row by row."""

SLUGS = {
    "ToolNotFoundError": Slug.NOT_FOUND,
    "ValidationError": Slug.VALIDATION_ERROR,
    "PolicyDeniedError": Slug.POLICY_DENIED,
    "InvalidPathError": Slug.SECURITY,
}


def test_the_table_of_errors_is_the_contracts() -> None:
    wanted = dict(row.split() for row in TYPES.replace("\n", " ").split(", "))
    assert {name: failure.code for name, failure in ERROR_TABLE.items()} == wanted
    for name, failure in ERROR_TABLE.items():
        assert failure.slug == SLUGS.get(name, Slug.EXECUTION_ERROR), name


async def test_on_stdout_nothing_is_left_out_as_absent_or_null(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        desk.write("a.txt", "x\n")
        shown = (await desk.call("read_file", path="a.txt")).on_stdout()
        assert shown.keys() >= {"ok", "llmContent", "returnDisplay", "data", "truncated", "durationMs", "waitedMs"}
        for empty in ("error", "exitCode", "notes", "artifacts"):
            assert shown.get(empty) is None, empty
        failed = (await desk.call("read_file", path="b.txt")).on_stdout()
        assert failed["ok"] is False and failed.get("data") is None
        error = failed["error"]
        assert isinstance(error, dict)
        assert error.keys() >= {"type", "code", "slug", "message"}
        assert (await desk.call("shell", command="true")).on_stdout()["exitCode"] == 0


@pytest.mark.parametrize(
    ("name", "sent", "said"),
    [
        ("read_file", {"path": "empty.txt"}, "(file is empty)"),
        ("shell", {"command": "true"}, "(no output)"),
        ("glob", {"pattern": "*.nothing"}, "No files found"),
        ("grep", {"pattern": "nothing at all"}, "No matches found"),
        ("ls", {"path": "empty"}, "Directory is empty"),
        ("memory", {"action": "get", "key": "none"}, "Key not found"),
        ("memory", {"action": "delete", "key": "none"}, "Key not found"),
        ("memory_get", {"key": "none"}, "Key not found"),
        ("memory_search", {"query": "none"}, "No results"),
        ("write_todos", {"action": "list"}, "No todos"),
    ],
)
async def test_content_is_never_empty(tmp_path: Path, name: str, sent: JsonValue, said: str) -> None:
    async with open_desk(tmp_path) as desk:
        desk.write("empty.txt", "")
        (desk.folder / "empty").mkdir()
        result = await desk.raw(name, sent)
        assert result.ok and said in result.llm_content


async def test_an_empty_value_is_a_value_and_not_an_empty_answer(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.text("memory", action="set", key="k", value="")
        result = await desk.call("memory", action="get", key="k")
        assert result.ok and result.llm_content and result.llm_content != "Key not found"
        assert (await desk.data("memory", action="get", key="k"))["value"] == ""


FAILS_WHATEVER_THE_ANSWER: list[tuple[str, dict[str, JsonValue], str]] = [
    ("write_file", {"path": "a.txt", "content": "y"}, "FileExistsError"),
    ("edit_file", {"path": "none.txt", "edits": [{"target": "a", "replacement": "b"}]}, "FileNotFoundError"),
    ("edit_file", {"path": "a.txt", "edits": [{"target": "zzz", "replacement": "b"}]}, "EditTargetNotFound"),
    ("edit_file", {"path": "twice.txt", "edits": [{"target": "x", "replacement": "b"}]}, "EditTargetAmbiguous"),
    ("edit_file", {"path": "a.txt", "edits": [{"target": "one", "replacement": "one"}]}, "EditNoChange"),
    ("delete_file", {"path": "none.txt"}, "FileNotFoundError"),
    ("delete_file", {"path": "folder"}, "IsADirectoryError"),
    ("move_file", {"from": "none.txt", "to": "b.txt"}, "FileNotFoundError"),
    ("move_file", {"from": "a.txt", "to": "twice.txt"}, "FileExistsError"),
    ("move_file", {"from": "a.txt", "to": "folder", "overwrite": True}, "IsADirectoryError"),
    ("write_file", {"path": "folder", "content": "", "overwrite": True}, "IsADirectoryError"),
    ("write_file", {"path": "../x", "content": ""}, "InvalidPathError"),
    ("shell", {"command": "touch x", "cwd": ".."}, "InvalidPathError"),
    ("shell", {"command": "touch x", "cwd": "none"}, "FileNotFoundError"),
    ("shell", {"command": " "}, "ValidationError"),
]


@pytest.mark.parametrize(("name", "sent", "kind"), FAILS_WHATEVER_THE_ANSWER)
async def test_what_must_fail_fails_before_anyone_is_asked(
    tmp_path: Path, name: str, sent: dict[str, JsonValue], kind: str
) -> None:
    strict = 'preset = "strict"\n'
    async with open_desk(tmp_path, Attendance.NOBODY, strict) as desk:
        for path, content in {"a.txt": "one\n", "twice.txt": "x x\n", "folder/in.txt": ""}.items():
            desk.write(path, content)
        asked: list[object] = []
        desk.core.bus.subscribe(asked.append)
        assert await desk.fault(name, **sent) == kind
        assert not asked


async def test_a_call_that_is_aborted_already_does_nothing(tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort("enough")
    async with open_desk(tmp_path) as desk:
        for name, sent in (
            ("write_file", {"path": "new.txt", "content": "x"}),
            ("shell", {"command": "touch new.txt"}),
            ("memory", {"action": "set", "key": "k", "value": "v"}),
        ):
            result = await desk.core.executor.execute(name, sent, controller.signal)  # type: ignore[arg-type]  # dict of str is JSON
            assert result.error is not None
            assert (result.error.type, result.error.code) == ("OperationCancelled", "CANCELLED")
        assert not (desk.folder / "new.txt").exists()


@pytest.mark.parametrize(("command", "sent"), [
    ("sleep 20", {"timeout": 150}), ("sleep 20", {"idleTimeout": 150}), ("echo so far; sleep 20", {"timeout": 300}),
])  # fmt: skip
async def test_a_time_out_says_limit_and_elapsed(tmp_path: Path, command: str, sent: dict[str, JsonValue]) -> None:
    """001 R12.5."""
    async with open_desk(tmp_path) as desk:
        result = await desk.call("shell", command=command, **sent)
        assert result.error is not None and result.error.code == "TIMEOUT"
        limit = next(iter(sent.values()))
        assert f"{limit}ms" in result.error.message and result.error.details["limitMs"] == limit
        elapsed = result.error.details["elapsedMs"]
        assert isinstance(elapsed, int) and elapsed >= int(str(limit)) and f"{elapsed}ms" in result.error.message
        assert "so far" not in command or "so far" in result.llm_content


# -- what the operating system refuses (001 R12.2) -------------------------------------------------------------------

NOBODY = 65534


@pytest.fixture
def folder_of_nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with workspace and home; root becomes nobody in it, since root may read and write everything."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    for variable in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(folder / variable))
    for place in (folder, folder / "workspace"):
        place.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
    yield folder
    for place in (folder / "workspace").rglob("*"):
        if place.is_dir():
            place.chmod(0o700)
    shutil.rmtree(folder)


@contextmanager
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


REFUSED: list[tuple[str, dict[str, JsonValue]]] = [
    ("read_file", {"path": "locked.txt"}),
    ("read_many_files", {"paths": ["locked.txt"]}),
    ("grep", {"pattern": "x", "directory": "locked.txt"}),
    ("grep", {"pattern": "x", "directory": "closed"}),
    ("glob", {"pattern": "*", "directory": "closed"}),
    ("ls", {"path": "closed"}),
    ("write_file", {"path": "locked/new.txt", "content": "y"}),
    ("write_file", {"path": "kept.txt", "content": "y", "overwrite": True}),
    ("write_file", {"path": "locked/in.txt", "content": "y", "overwrite": True}),
    ("edit_file", {"path": "locked/in.txt", "edits": [{"target": "x", "replacement": "y"}]}),
    ("edit_file", {"path": "kept.txt", "edits": [{"target": "x", "replacement": "y"}]}),
    ("delete_file", {"path": "locked/in.txt"}),
    ("delete_file", {"path": "locked", "recursive": True}),
    ("move_file", {"from": "a.txt", "to": "locked/a.txt"}),
    ("move_file", {"from": "locked/in.txt", "to": "b.txt"}),
]


async def test_a_refusal_of_the_system_is_a_permission_error_and_changes_nothing(folder_of_nobody: Path) -> None:
    async with open_desk(folder_of_nobody) as desk:
        for name, _ in REFUSED:
            await desk.raw(name, {"path": "none", "from": "none", "to": "none"})  # whatever it imports, root imports
        desk.write("warm.txt", "x")
        await desk.call("grep", pattern="x")
        for state in ("DATA", "STATE", "CONFIG"):
            for place in [folder_of_nobody / state, *(folder_of_nobody / state).rglob("*")]:
                if os.geteuid() == 0 and place.exists():
                    os.chown(place, NOBODY, NOBODY)
        with as_nobody():
            desk.write("a.txt", "x")
            desk.write("locked.txt", "x").chmod(0)
            desk.write("kept.txt", "x").chmod(0o444)
            desk.write("locked/in.txt", "x").parent.chmod(0o500)
            (desk.folder / "closed").mkdir(mode=0)
            before = sorted(os.listdir(desk.folder))
            for name, sent in REFUSED:
                result = await desk.raw(name, sent)
                assert result.error is not None and result.error.type == "PermissionError", (name, sent, result)
                assert any(name in result.error.message for name in ("locked", "kept.txt", "closed", "a.txt"))
            assert sorted(os.listdir(desk.folder)) == before
            assert os.listdir(desk.folder / "locked") == ["in.txt"]
            assert (desk.folder / "locked" / "in.txt").read_text() == "x"


async def test_a_full_disk_keeps_the_old_content(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the system then refuses in the same place."""
    content = "y" * 3_000_000
    async with open_desk(tmp_path) as desk:
        desk.write("a.txt", "old\n")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
        try:
            for name, sent in (
                ("write_file", {"path": "a.txt", "content": content, "overwrite": True}),
                ("write_file", {"path": "new.txt", "content": content}),
                ("edit_file", {"path": "a.txt", "edits": [{"target": "old", "replacement": content}]}),
            ):
                result = await desk.raw(name, sent)  # type: ignore[arg-type]  # dict of str is JSON
                assert result.error is not None and result.error.type == "NoSpaceError", result
                assert str(sent["path"]) in result.error.message and "Nothing was changed" in result.error.message
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (desk.folder / "a.txt").read_text() == "old\n"
        assert os.listdir(desk.folder) == ["a.txt"]


async def test_whatever_a_tool_returns_is_json(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        (desk.folder / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"caf\xe9\n")
        for name, sent in (
            ("ls", {}),
            ("glob", {"pattern": "*"}),
            ("grep", {"pattern": "caf"}),
            ("read_file", {"path": '"caf\\351.txt"'}),
            ("shell", {"command": "cat caf*"}),
        ):
            result = await desk.raw(name, sent)  # type: ignore[arg-type]  # dict of str is JSON
            assert result.ok, result
            json.dumps(result.on_stdout(), ensure_ascii=False).encode()
