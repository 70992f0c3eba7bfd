"""The journal on the way of a call, and the way back: undo and redo (contract section 9)."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core import MessageBus, PolicyConfig, PolicyEngine, ToolExecutor, ToolRegistry, ToolResult, Workspace
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.files.journal import SCHEMA, Entry, EntryState
from ollm_tui.core.files.journal_text import changes_since, diff_of, title_of
from ollm_tui.core.files.journal_undo import Outcome, Step, Undo, open_undo, whole_entries
from ollm_tui.core.files.trash import Trash
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.builtin import builtin_tools
from ollm_tui.core.tools.context import ToolContext


class Recorded:
    """A workspace whose calls are recorded."""

    def __init__(self, base: Path, executor: ToolExecutor, undo: Undo) -> None:
        self.root = base / "workspace"
        self.state = base / "state"
        self.executor = executor
        self.undo = undo

    async def call(self, name: str, **arguments: object) -> ToolResult:
        given: JsonObject = {key.rstrip("_"): value for key, value in arguments.items()}  # type: ignore[misc]
        return await self.executor.execute(name, given)

    @property
    def entries(self) -> list[Entry]:
        return self.undo.journal.entries()

    def undo_all(self) -> list[Step]:
        """Take everything back that is no undo itself."""
        steps = self.undo.plan(whole_entries(entry for entry in self.entries if not entry.is_undo))
        return self.undo.apply(steps, title_of(steps))[1]

    def apply(self, wanted: str) -> list[Step]:
        steps = self.undo.find(wanted)
        return self.undo.apply(steps, title_of(steps))[1]


@asynccontextmanager
async def recorded(base: Path) -> AsyncGenerator[Recorded]:
    root, state = base / "workspace", base / "state"
    root.mkdir(exist_ok=True)
    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool)
    bus, undo = MessageBus(), open_undo(state, root.resolve())
    options = ExecutorOptions(
        context=ToolContext(bus=bus, trash=Trash(state)), auto_answer=AutoAnswer.YES, journal=undo.journal
    )
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ALLOW, rules=[]))
    async with ToolExecutor(registry, policy, bus, Workspace(root), options=options) as executor:
        try:
            yield Recorded(base, executor, undo)
        finally:
            undo.journal.store.close()


def tree(root: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Return mode and content of all below."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (stat.S_IMODE(status.st_mode), content)
    return found


def outcomes(steps: Sequence[Step]) -> list[Outcome]:
    return [step.outcome for step in steps]


async def test_an_edit_is_undone_and_redone(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "a.txt").write_text("one\n")
        (room.root / "a.txt").chmod(0o640)
        await room.call("edit_file", path="a.txt", edits=[{"target": "one", "replacement": "two"}])
        [entry] = room.entries
        assert (entry.tool, diff_of(room.undo.journal, entry.changes[0])) == (
            "edit_file",
            "@@ -1,1 +1,1 @@\n-one\n+two",
        )
        before = tree(room.root)
        assert outcomes(room.apply("u1")) == [Outcome.UNDO]
        assert tree(room.root) == {"a.txt": (0o640, b"one\n")}
        assert outcomes(room.apply("u1")) == [Outcome.DONE]
        assert outcomes(room.apply("u2")) == [Outcome.UNDO]
        assert tree(room.root) == before


async def test_calls_that_change_nothing_or_fail_leave_no_entry(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "a.txt").write_text("one\n")
        await room.call("write_file", path="a.txt", content="one\n", overwrite=True)
        await room.call("write_file", path="a.txt", content="two\n")
        await room.call("read_file", path="a.txt")
        assert room.entries == []


async def test_what_a_call_created_goes_to_the_trash_with_its_directories(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        await room.call("write_file", path="new/deep/a.txt", content="only here")
        room.apply("u1")
        assert tree(room.root) == {}
        taken = {item.path for item in Trash(room.state).list()}
        assert taken == {str(room.root / path) for path in ("new", "new/deep", "new/deep/a.txt")}


async def test_a_directory_that_somebody_else_uses_stays(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        await room.call("write_file", path="new/a.txt", content="x")
        (room.root / "new/mine.txt").write_text("mine")
        room.apply("u1")
        assert set(tree(room.root)) == {"new", "new/mine.txt"}


async def test_deleted_trees_and_moved_trees_come_back(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "d/e").mkdir(parents=True)
        (room.root / "d/e/a").write_bytes(b"\0\xff")
        (room.root / "d/link").symlink_to("nowhere")
        before = tree(room.root)
        await room.call("move_file", from_="d", to="f/g")
        await room.call("write_file", path="f/g/e/a", content="other", overwrite=True)
        await room.call("delete_file", path="f", recursive=True)
        after = tree(room.root)
        assert set(outcomes(room.undo_all())) == {Outcome.UNDO}
        assert tree(room.root) == before
        room.apply(room.entries[-1].name)
        assert tree(room.root) == after


async def test_what_changed_since_is_left_alone_and_shown_from_three_sides(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "a.txt").write_text("one\n")
        await room.call("write_file", path="a.txt", content="two\n", overwrite=True)
        (room.root / "a.txt").write_text("two\nmine\n")
        [step] = room.apply("u1")
        assert (step.outcome, step.why) == (Outcome.CHANGED, "changed since")
        assert (room.root / "a.txt").read_text() == "two\nmine\n"
        assert diff_of(room.undo.journal, step.change) == "@@ -1,1 +1,1 @@\n-one\n+two"
        assert changes_since(room.undo.journal, step.change) == "@@ -1,1 +1,2 @@\n two\n+mine"


async def test_a_directory_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "d").mkdir()
        (room.root / "d/a.txt").write_text("one\n")
        await room.call("write_file", path="d/a.txt", content="two\n", overwrite=True)
        outside = tmp_path / "outside"
        (room.root / "d").rename(outside)
        (room.root / "d").symlink_to(outside)
        [step] = room.apply("u1")
        assert step.outcome is Outcome.CHANGED
        assert (outside / "a.txt").read_text() == "two\n"


async def test_a_whole_turn_and_a_single_path_can_be_undone(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        room.undo.journal.turn = "t1"
        await room.call("write_file", path="a", content="1")
        await room.call("write_file", path="b", content="1")
        await room.call("write_file", path="a", content="2", overwrite=True)
        room.apply("a")
        assert (room.root / "a").read_text() == "1"
        room.apply("t1")
        assert tree(room.root) == {}


async def test_secrets_lie_in_the_journal_for_this_user_alone_and_come_back_closed(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        secret = room.root / ".env"
        secret.write_text("KEY=1\n")
        secret.chmod(0o600)
        await room.call("delete_file", path=".env")
        for path in (room.state / "undo").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((room.state / "undo").stat().st_mode) == 0o700
        Trash(room.state).restore(Trash(room.state).list()[0].id)
        secret.unlink()
        room.apply("u1")
        assert (stat.S_IMODE(secret.stat().st_mode), secret.read_text()) == (0o600, "KEY=1\n")


async def test_a_full_disk_switches_undo_off_and_edits_go_on(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        with room.undo.journal.store.write(SCHEMA) as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {pages}")
        content = os.urandom(50_000).hex()
        (room.root / "a").write_text(content)
        result = await room.call("write_file", path="a", content="new", overwrite=True)
        assert result.ok
        assert (room.root / "a").read_text() == "new"
        assert any(note.startswith("undo is off, this call cannot be undone:") for note in result.notes)
        assert room.entries == []
        with room.undo.journal.store.write(SCHEMA) as db:
            db.execute("PRAGMA max_page_count = 1000000")
        await room.call("write_file", path="a", content="newer", overwrite=True)
        assert len(room.entries) == 1


async def test_an_undo_that_was_killed_is_finished_by_whoever_comes_next(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        for name in ("a", "b", "c"):
            (room.root / name).write_text("old")
            await room.call("write_file", path=name, content="new", overwrite=True)
        steps = room.undo.plan(whole_entries(room.entries))
        room.undo.journal.store.close()
        child = os.fork()
        if child == 0:
            killed_in_the_middle(room, steps)
        assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]) == -9
    assert sorted(each.read_text() for each in (tmp_path / "workspace").iterdir()) == ["new", "new", "old"]
    undo = open_undo(tmp_path / "state", (tmp_path / "workspace").resolve())
    assert undo.finish_interrupted() == 1
    assert {each.read_text() for each in (tmp_path / "workspace").iterdir()} == {"old"}
    redo = undo.find(undo.journal.entries()[-1].name)
    undo.apply(redo, title_of(redo))
    assert {each.read_text() for each in (tmp_path / "workspace").iterdir()} == {"new"}
    undo.journal.store.close()


def killed_in_the_middle(room: Recorded, steps: Sequence[Step]) -> None:
    undo = open_undo(room.state, room.root.resolve())
    ends = steps[1].change.place

    class Killed(Undo):
        def _put(self, change, reference):  # type: ignore[no-untyped-def]
            if change.place == ends:
                os.kill(os.getpid(), 9)
            return super()._put(change, reference)

    Killed(undo.journal, Trash(room.state)).apply(steps, "Undo")
    os._exit(0)


async def test_what_a_command_changed_is_undone_and_redone(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "d").mkdir()
        for name in ("a", "b", "c", "d/e", "run.sh"):
            (room.root / name).write_text(f"old {name}")
        (room.root / "link").symlink_to("a")
        before = tree(room.root)
        await room.call(
            "shell",
            command="echo new > a; rm b; mv c f; mv d g; chmod +x run.sh; ln -sf b link; mkdir -p x/y; touch x/y/z",
        )
        after = tree(room.root)
        assert before != after
        assert set(outcomes(room.apply("u1"))) == {Outcome.UNDO}
        assert tree(room.root) == before
        assert set(outcomes(room.apply("u2"))) == {Outcome.UNDO}
        assert tree(room.root) == after


async def test_commands_that_change_nothing_leave_no_entry(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "a").write_text("x")
        await room.call("shell", command="cat a; touch a; ls")
        assert room.entries == []


async def test_what_has_no_known_before_is_listed_and_left_alone(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / ".gitignore").write_text("build/\n*.o\n")
        (room.root / "build").mkdir()
        for name in ("big", "moved", "copied"):
            (room.root / name).write_bytes(os.urandom(1_100_000 + len(name)))
        (room.root / "m.o").write_text("x")
        (room.root / ".env").write_text("KEY=1")
        moved, copied = (room.root / "moved").read_bytes(), (room.root / "copied").read_bytes()
        await room.call(
            "shell",
            # What is made after the first rm may get the number of what is gone, and would then be left alone.
            command="echo x > new; rm -r build m.o; echo > big; echo > .env; mv moved m; cp copied c; rm copied",
        )
        steps = {step.change.place.relative: (step.outcome, step.why) for step in room.apply("u1")}
        unknown = (Outcome.IMPOSSIBLE, "no earlier content is known")
        assert steps == {
            "big": unknown,
            ".env": unknown,
            "copied": unknown,
            "c": (Outcome.IMPOSSIBLE, "it may hold what is gone under another name, and may be its only copy"),
            "m": (Outcome.UNDO, ""),
            "new": (Outcome.UNDO, ""),
            "build": (Outcome.IMPOSSIBLE, "ignore rules leave it out: what it held is not known"),
            "m.o": (Outcome.IMPOSSIBLE, "ignore rules leave it out: what it held is not known"),
        }
        assert ((room.root / "moved").read_bytes(), (room.root / "c").read_bytes()) == (moved, copied)


async def test_names_that_are_no_text_are_recorded_as_they_are(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        odd = room.root / os.fsdecode(b"\xff\n")
        odd.write_text("old")
        await room.call("shell", command='for f in *; do echo new > "$f"; done')
        room.apply("u1")
        assert odd.read_text() == "old"


NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/c", "\udcff"])
TEXTS = st.sampled_from(["", "1\n", "2\n", "long " * 50])
ACTIONS = st.one_of(
    st.tuples(st.just("write_file"), NAMES, TEXTS),
    st.tuples(st.just("move_file"), st.one_of(NAMES, st.just("d")), st.one_of(NAMES, st.sampled_from(["m", "m/n"]))),
    st.tuples(st.just("delete_file"), st.one_of(NAMES, st.sampled_from(["d", "m"])), st.just("")),
    st.tuples(
        st.just("shell"),
        st.sampled_from(
            ["echo 3 > {}", "rm -f {}", "chmod u+x {}", "mv {} z", "mkdir -p n/o; cp {} n/o", "rm -rf d", "mv d k"]
        ),
        NAMES,
    ),
)


@settings(max_examples=100, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=8), start=st.dictionaries(NAMES, TEXTS, max_size=4))
def test_undoing_everything_brings_back_every_byte_and_mode(
    actions: list[tuple[str, str, str]], start: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(there_and_back(Path(folder), actions, start))


async def there_and_back(base: Path, actions: list[tuple[str, str, str]], start: dict[str, str]) -> None:
    async with recorded(base) as room:
        for number, (name, text) in enumerate(start.items()):
            path = room.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod((0o600, 0o644, 0o755, 0o440)[number])
        untouched = room.root / "untouched"
        untouched.write_text("x")
        before, stamp = tree(room.root), untouched.stat().st_mtime_ns
        for tool, one, other in actions:
            match tool:
                case "write_file":
                    await room.call(tool, path=one, content=other, overwrite=True)
                case "move_file":
                    await room.call(tool, from_=one, to=other, overwrite=True)
                case "shell":
                    await room.call(tool, command=one.format(f"./{other}" if other.isascii() else "$'\\xff'"))
                case _:
                    await room.call(tool, path=one, recursive=True)
        after = tree(room.root)
        steps = room.undo_all()
        assert all(step.outcome in (Outcome.UNDO, Outcome.DONE) for step in steps), steps
        assert tree(room.root) == before
        if any(step.outcome is Outcome.UNDO for step in steps):
            room.apply(room.entries[-1].name)
            assert tree(room.root) == after
        assert untouched.stat().st_mtime_ns == stamp


@pytest.mark.parametrize("wanted", ["", "u7", "nothing-here"])
async def test_an_unknown_name_says_what_there_is(tmp_path: Path, wanted: str) -> None:
    async with recorded(tmp_path) as room:
        await room.call("write_file", path="a", content="1")
        with pytest.raises(Exception, match="The newest entries: u1"):
            room.undo.find(wanted)


async def test_what_a_job_changes_is_recorded_when_it_ends_and_nothing_twice(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        for name in ("a.txt", "b.txt", "c.txt"):
            (room.root / name).write_text("one\n")
        room.undo.journal.turn = "t1"
        line = "echo at once > a.txt; until [ -e go ]; do sleep 0.02; done; echo later > b.txt; rm c.txt"
        started = await room.call("shell", command=line, background=True)
        assert started.error is None
        room.undo.journal.turn = "t2"
        before = tree(room.root)
        while "at once" not in (room.root / "a.txt").read_text():
            await asyncio.sleep(0.01)
        await room.call("write_file", path="own.txt", content="own\n")
        await room.call("write_file", path="go", content="")
        while not any("(in the background)" in one.title and one.state is EntryState.DONE for one in room.entries):
            await asyncio.sleep(0.02)  # an entry is opened first, and has its changes once it is done
        job = room.entries[-1]
        assert job.turn == "t1" and {change.place.relative for change in job.changes} >= {"b.txt", "c.txt"}
        assert not {"own.txt", "go"} & {change.place.relative for change in job.changes}
        assert set(outcomes(room.apply("t1"))) == {Outcome.UNDO}
        assert {name: tree(room.root)[name] for name in before if name != "a.txt"} == {
            name: before[name] for name in before if name != "a.txt"
        }
        assert (room.root / "a.txt").read_text() == "one\n" and (room.root / "own.txt").exists()


async def test_a_job_that_still_runs_at_the_end_is_recorded_so_far(tmp_path: Path) -> None:
    async with recorded(tmp_path) as room:
        (room.root / "a.txt").write_text("one\n")
        await room.call(
            "shell", command="until [ -e go ]; do sleep 0.02; done; echo two > a.txt; exec sleep 9", background=True
        )
        (room.root / "go").touch()
        while "two" not in (room.root / "a.txt").read_text():
            await asyncio.sleep(0.01)
        await room.executor.settle_journal()
        (entry,) = [one for one in room.entries if "a.txt" in {change.place.relative for change in one.changes}]
        assert "later changes are not recorded" in entry.note
        assert set(outcomes(room.apply(entry.name))) == {Outcome.UNDO}
        assert (room.root / "a.txt").read_text() == "one\n"
