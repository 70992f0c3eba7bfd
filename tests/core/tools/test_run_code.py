"""`run_code`: code in a cage, its streams apart, its files found (003; contract sections 2 and 8)."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled, SandboxUnavailable
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.sandbox import engines
from ollm_tui.core.sandbox.engines import Sandbox, SandboxMode, SandboxSettings, bubblewrap
from ollm_tui.core.tools.run_code import RUN_CODE, RunCodeData
from tests.core.tools.file_calls import Room
from tests.processes import wait_until_none_runs

caged = pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def run(room: Room, language: str, code: str, **more: object) -> ToolResult:
    call = room.invocation(RUN_CODE, language=language, code=code, **more)
    return asyncio.run(call.execute(AbortController().signal))


def data(result: ToolResult) -> RunCodeData:
    assert isinstance(result.data, RunCodeData)
    return result.data


@caged
def test_streams_stay_apart_and_arguments_and_variables_arrive(room: Room) -> None:
    code = "import os, sys\nprint(sys.argv[1:], os.environ['WORD'])\nprint('oh', file=sys.stderr)\nsys.exit(3)"
    result = run(room, "python", code, args=["a b", "$HOME"], env={"WORD": "w w"})
    found = data(result)
    assert (found.stdout, found.stderr, found.exit_code) == ("['a b', '$HOME'] w w\n", "oh\n", 3)
    assert found.duration > 0 and result.error is not None and "code 3" in result.error.message
    assert "Exit code: 3" in result.llm_content and "[stderr]\noh" in result.llm_content


@caged
def test_files_that_were_made_or_changed_are_named(room: Room) -> None:
    room.write("old", "a")
    room.write("same", "a")
    result = run(room, "bash", "mkdir d; echo x > d/new; printf b > old; touch -r same old")
    assert [artifact.path for artifact in result.artifacts] == ["d/new", "old"]
    assert "d/new, old" in result.llm_content


@caged
def test_a_new_repository_is_pointed_out(room: Room) -> None:
    result = run(room, "bash", "git init -q n")
    assert any(".git" in note for note in result.notes)


MADE = {
    "a workflow": ("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", ".github"),
    "a start file": ("echo x > .envrc", ".envrc"),
    "an editor's task, out of other parts": ("mv plain .vscode; true", ".vscode/tasks.json"),
    "a link": ("ln -s plain .idea", ".idea"),
    "a link to a file": ("ln -s plain/tasks.json AGENTS.md", "AGENTS.md"),
    "settings of a package manager": ("mkdir sub; echo x > sub/.npmrc", "sub/.npmrc"),
    "another spelling": ("mkdir -p .HUSKY; echo x > .HUSKY/pre-commit", ".HUSKY"),
    "what the person protects": ("mkdir conf; echo x > conf/prod.yml", "conf/prod.yml"),
    "before the time is up": ("echo x > .mcp.json; sleep 60", ".mcp.json"),
}


@caged
@pytest.mark.parametrize("row", MADE.values(), ids=MADE)
def test_what_writing_asks_about_is_set_aside(room: Room, row: tuple[str, str]) -> None:
    code, name = row
    room.write("plain/tasks.json", "x")
    workspace = Workspace(room.folder, protected_patterns=["/conf/prod.yml"])
    context = replace(room.context, workspace=workspace)
    arguments = {"language": "bash", "code": code, "timeout": 1 if "sleep" in code else 60}
    result = asyncio.run(RUN_CODE.create_invocation(arguments, context).execute(AbortController().signal))
    assert not os.path.lexists(room.folder / name)
    assert sum("was renamed to" in note for note in result.notes) == 1


@caged
def test_what_no_other_program_acts_on_stays_where_it_was_made(room: Room) -> None:
    room.write("plain/tasks.json", "x")
    names = ("test.key", "cert.pem", ".env", ".env.local", "src/a.py", ".venv/lib/x.pth", "Makefile")
    result = run(room, "bash", f"mkdir -p src .venv/lib; touch {' '.join(names)}; mv plain moved; git init -q n")
    assert not any("renamed" in note for note in result.notes)
    assert all((room.folder / name).exists() for name in (*names, "moved/tasks.json", "n/.git"))


@caged
def test_what_was_protected_before_is_left_alone(room: Room) -> None:
    names = (".github/workflows/ci.yml", ".envrc", ".vscode/tasks.json")
    for name in names:
        room.write(name, "x")
    result = run(room, "bash", "echo y > new; echo y >> .envrc")
    assert not any("renamed" in note for note in result.notes)
    assert all(room.read(name) == b"x" for name in names)


@caged
def test_code_is_not_seen_in_the_list_of_processes(room: Room) -> None:
    result = run(
        room,
        "python",
        "import subprocess\nprint(subprocess.run(['ps', '-ef'], capture_output=True, text=True).stdout) # needle",
    )
    assert "code.py" in data(result).stdout and "needle" not in data(result).stdout


@caged
def test_variables_that_load_code_work_in_the_cage_alone(room: Room) -> None:
    outside = room.folder.parent / "loaded"
    result = run(room, "bash", "true", env={"BASH_ENV": str(outside), "LD_PRELOAD": "/nonexistent/lib.so"})
    assert data(result).exit_code == 0 and not outside.exists()
    assert data(result).stderr.count("/bin/sh") == 0


@caged
def test_time_runs_out_and_nothing_stays(room: Room) -> None:
    result = run(room, "bash", "echo before; setsid sleep 4444.5 & sleep 4444.5", timeout=1)
    assert result.error is not None and result.error.type == "ShellTimeoutError"
    assert data(result).exit_code is None and data(result).stdout == "before\n"
    wait_until_none_runs("sleep 4444.5")


@caged
def test_what_was_written_until_the_cancellation_is_kept(room: Room) -> None:
    async def cancelled() -> str:
        controller = AbortController()
        call = room.invocation(RUN_CODE, language="bash", code="echo started; touch up; sleep 600")
        task = asyncio.ensure_future(call.execute(controller.signal))
        while not (room.folder / "up").exists():
            await asyncio.sleep(0.02)
        controller.abort("enough")
        with pytest.raises(OperationCancelled) as raised:
            await task
        return raised.value.partial

    assert asyncio.run(cancelled()) == "started\n"


@caged
def test_a_flood_is_cut(room: Room) -> None:
    result = run(room, "bash", "head -c 50000000 /dev/zero | tr '\\0' a")
    assert result.truncated and len(data(result).stdout) < 200_000


@caged
def test_the_workspaces_own_environment_is_used_and_not_changed(room: Room) -> None:
    subprocess.run(["python3", "-m", "venv", "--without-pip", str(room.folder / ".venv")], check=True)
    result = run(room, "python", "import sys; print(sys.prefix); open(sys.prefix + '/x', 'w')")
    assert data(result).stdout.strip() == str(room.folder / ".venv") and "Read-only" in data(result).stderr


@caged
def test_what_asks_before_it_is_read_is_empty_for_it(room: Room) -> None:
    room.write(".env", "KEY=hidden")
    (room.folder / ".ssh").mkdir()
    room.write(".ssh/id_rsa", "hidden")
    room.write("plain", "seen")
    found = data(run(room, "bash", "cat .env plain; ls -A .ssh; cat .ssh/id_rsa"))
    assert found.stdout == "seen" and "No such file" in found.stderr
    assert room.read(".env") == b"KEY=hidden"


@caged
def test_what_was_judged_as_caged_never_runs_outside(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    call = room.invocation(RUN_CODE, language="bash", code="touch ran")
    assert call.facts().question is None
    monkeypatch.setattr(engines, "WORK_ENGINES", ())
    with pytest.raises(SandboxUnavailable, match="No sandbox works"):
        asyncio.run(call.execute(AbortController().signal))
    assert room.all_names() == []


@caged
def test_it_runs_unasked_only_in_a_cage_without_network(room: Room) -> None:
    call = room.invocation(RUN_CODE, language="bash", code="true")
    assert call.facts().question is None and "caged, writes in the workspace" in call.get_description()
    settings = SandboxSettings(mode=SandboxMode.AUTO, network=True)
    context = replace(room.context, sandbox=Sandbox(settings))
    call = RUN_CODE.create_invocation({"language": "bash", "code": "true"}, context)
    assert "network" in (call.facts().question or "")


def test_without_a_cage_it_asks_and_runs_on_this_machine(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "WORK_ENGINES", ())
    call = room.invocation(RUN_CODE, language="python", code="print(1)")
    assert "unsandboxed" in (call.facts().question or "") and "on this machine" in call.get_description()
    assert data(run(room, "python", "print(1)")).stdout == "1\n"


@caged
def test_the_line_shows_what_runs_and_a_missing_module_gets_the_remedy(room: Room) -> None:
    room.write("mine.py", "x = 1")
    call = room.invocation(RUN_CODE, language="python", code="import os\n\nprint(os.name)")
    assert call.get_description().endswith(": print(os.name)") and "Run 3 lines of python" in call.get_description()
    assert any("sys.path.insert" in note for note in run(room, "python", "import mine").notes)
    assert data(run(room, "python", "import sys; sys.path.insert(0, '.'); import mine; print(mine.x)")).stdout == "1\n"


@pytest.mark.parametrize("mode", [mode for mode in SandboxMode if mode not in (SandboxMode.OFF, SandboxMode.AUTO)])
def test_code_runs_in_every_engine(room: Room, mode: SandboxMode) -> None:
    context = replace(room.context, sandbox=Sandbox(SandboxSettings(mode)))
    if not context.sandbox.works:
        pytest.skip(f"{mode} does not work here")
    (room.folder / "sub").mkdir()
    code = "import os, sys; open('sub/made', 'w').write(os.environ['A']); print(sys.argv[1:])"
    call = RUN_CODE.create_invocation({"language": "python", "code": code, "args": ["a b"], "env": {"A": "x"}}, context)
    result = asyncio.run(call.execute(AbortController().signal))
    assert data(result).stdout == "['a b']\n", data(result).stderr
    assert [artifact.path for artifact in result.artifacts] == ["sub/made"]
