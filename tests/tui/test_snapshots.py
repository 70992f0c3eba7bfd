"""Pictures of the screen, each with words that say what must be seen in it.

A picture that changed is looked at in `snapshot_report.html` and, if it is better, made anew by `nox -s snapshots`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

import pytest
from textual import events
from textual.pilot import Pilot

from ollm_tui.core.bus.confirmation import DiffPreview
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import CallOutcome, CallState, ConfirmationState, Risk
from ollm_tui.core.files.diff import diff_texts
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus, ProcessName
from ollm_tui.core.todos.todo import TodoStatus
from ollm_tui.options import Options
from ollm_tui.testing import FakeClock
from ollm_tui.tui.app import DashboardApp
from ollm_tui.tui.protocol import Backend, PostUpdate, updates
from ollm_tui.tui.protocol.command_intents import AttachTerminal
from ollm_tui.tui.protocol.models import ModelRow, ModelsUpdate
from ollm_tui.tui.protocol.policy import JudgedUpdate, PolicyRow, PolicyRowsUpdate, PolicySection
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from ollm_tui.tui.values import (
    Activity,
    AnswerEntry,
    AnswerGrew,
    CallEntry,
    EntriesChanged,
    Entry,
    SessionRow,
    SessionStatus,
    UnfinishedWork,
    UserEntry,
)
from tests.tui.pilot import (
    SHELL,
    Recorder,
    Stage,
    agents_command,
    command_question,
    job,
    question,
    reviewed,
    screen_text,
    terminal_of,
    todo,
    wait_until,
)

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="snapshots are compared on Python 3.11 only: others draw the same screen with other bytes",
)

BROAD, WIDE, NARROW, TINY = (200, 60), (120, 40), (80, 24), (39, 9)
BOTH = pytest.mark.parametrize("size", [pytest.param(WIDE, id="120x40"), pytest.param(NARROW, id="80x24")])

Size = tuple[int, int]
Play = Callable[[Stage], Awaitable[None]]


class SnapCompare(Protocol):
    """The fixture of pytest-textual-snapshot, as far as it is used here."""

    def __call__(
        self, app: DashboardApp, *, terminal_size: Size, run_before: Callable[[Pilot[int]], Awaitable[None]]
    ) -> bool: ...


class Camera:
    """Plays a scene, reads the screen, takes the picture."""

    def __init__(self, snap_compare: SnapCompare) -> None:
        self._snap_compare = snap_compare
        self.text = ""
        """Every cell of the screen in the moment of the picture."""

    def take(self, size: Size, play: Play, theme: str = "ollm-dark") -> bool:
        """Whether the picture is the one that is kept."""
        backend, clock = Recorder(), FakeClock()
        opened: list[PostUpdate] = []

        @asynccontextmanager
        async def open_backend(tell: PostUpdate) -> AsyncGenerator[Backend]:
            opened.append(tell)
            yield backend

        app = DashboardApp(Options(theme=theme), open_backend=open_backend, clock=clock)

        async def run(pilot: Pilot[int]) -> None:
            here = Stage(app, pilot, backend, clock)
            await wait_until(pilot, lambda: bool(opened))
            await here.post(
                updates.SettingsUpdate(updates.ScreenSettings(theme=theme, auto_open=False)),
                updates.StatusUpdate(SessionStatus("qwen3-coder:30b", "~/src/app", "ask", False, "", 18_200, 32_768)),
            )
            await play(here)
            await here.settle()
            self.text = screen_text(app)

        return self._snap_compare(app, terminal_size=size, run_before=run)

    def shows(self, *words: str) -> bool:
        """Whether all of this is on the screen; fails with the word that is not, and the screen."""
        for one in words:
            assert one in self.text, f"not on the screen: {one!r}\n{self.text}"
        return True


@pytest.fixture
def camera(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> Camera:
    """Nothing of the terminal that the tests run in gets into a picture."""
    for name in ("NO_COLOR", "COLORTERM", "TERM", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(DashboardApp, "TOOLTIP_DELAY", 600.0)  # its half second is over before a busy machine's picture
    return Camera(snap_compare)


POLICY = (
    PolicyRow("s1", PolicySection.SETTINGS, "preset = balanced", "user"),
    PolicyRow("s2", PolicySection.SETTINGS, "sandbox.mode = off", "as it comes"),
    PolicyRow("r1", PolicySection.RULES, "write_file", "", "user 1", "deny", conditions="path startsWith docs/"),
    PolicyRow("r2", PolicySection.RULES, "write_file", "", "user 2", "allow", conditions="path startsWith src/"),
    PolicyRow("r3", PolicySection.RULES, "read_file", "", "preset balanced 1", "allow"),
    PolicyRow("r4", PolicySection.RULES, "git_push", "", "preset balanced 20", "ask"),
    PolicyRow("a1", PolicySection.APPROVALS, "make test *", "", "used 12x", "allow"),
    PolicyRow("l1", PolicySection.DECISIONS, "edit_file", "", "10:41:07", "ask"),
)
JUDGED = """\
No approval covers 'git push'. Risk: medium.
It would run on this machine.

ask    exec  git push: no approval covers it"""
MODELS = (
    ModelRow(
        "qwen3-coder:30b",
        "http://127.0.0.1:11434",
        "30B  18.6 GB  32k window  loaded  41 tok/s",
        "Ollama at http://127.0.0.1:11434\nA window of 32,768 tokens\nIt can call tools\nIt is in memory now",
        current=True,
    ),
    ModelRow("gemma2:9b", "http://127.0.0.1:11434", "9B  5.4 GB  8k window  no tools", "It cannot call tools"),
)

# -- what is played ----------------------------------------------------------------------------------------------------

ASKED = UserEntry("u1", "Add a --json flag to the export command and run the tests.", "10:41")
PLAN = AnswerEntry("a1", "qwen3-coder:30b", "I'll add the flag to `cli/export.py`, then run the suite.", time="10:41")
READ = CallEntry("c1", "read_file", "cli/export.py, lines 1-88", outcome=CallOutcome.OK, duration_ms=4)
FOUND = CallEntry("c2", "grep", '"def export" 3 matches', outcome=CallOutcome.OK, duration_ms=11)
TODOS = (
    todo("t1", "Read the export command", TodoStatus.COMPLETED),
    todo("t2", "Add the --json flag", TodoStatus.IN_PROGRESS),
    todo("t3", "Update the tests", TodoStatus.PENDING),
    todo("t4", "Update the README", TodoStatus.CANCELLED),
)

BEFORE = """\
@app.command()
def export(
    out: Path,
    fmt: str = "csv",
) -> int:
    \"\"\"Write the address book to a file.\"\"\"
    rows = load_rows()
    out.write_text(to_csv(rows))
    return 0
"""
AFTER = BEFORE.replace('"csv",\n', '"csv",\n    as_json: bool = False,\n').replace(
    "to_csv(rows)", "to_json(rows) if as_json else to_csv(rows)"
)
EDIT, CLOCKED = (
    question(
        1,
        description="Edit cli/export.py (2 edits, +2 -1)",
        preview=DiffPreview(diff=diff_texts("cli/export.py", BEFORE, AFTER), created=False),
        timeout=timeout,
    )
    for timeout in (None, 60.0)
)
DELETE = command_question(
    2,
    "rm -rf build dist && find . -name '*.pyc' -delete",
    reason="deletions always ask: rm -rf build dist",
)
FETCH = question(
    3,
    tool="web_fetch",
    risk=Risk.LOW,
    description="Fetch docs.python.org/3/library/json.html",
    preview=None,
    locations=("https://docs.python.org/3/library/json.html",),
    arguments={"url": "https://docs.python.org/3/library/json.html"},
)
ALLOWED = reviewed(offer=RememberOffer(patterns=("edit_file in cli/**",)))

PYTEST = (
    "\x1b[1;32m~/src/app\x1b[0m (main) $ pytest -q\r\n"
    "\x1b[32m.\x1b[0m\x1b[32m.\x1b[0m\x1b[31mF\x1b[0m" + "\x1b[32m.\x1b[0m" * 12 + "\x1b[36m [100%]\x1b[0m\r\n"
    "=================== FAILURES ===================\r\n"
    "\x1b[1m\x1b[31mE   AssertionError: 'csv' != 'json'\x1b[0m\r\n"
    "\x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m14 passed\x1b[0m\x1b[31m in 0.41s\x1b[0m\r\n"
    "wide: \u65e5\u672c\u8a9e | box: \u250c\u2500\u2510 | \x1b[7mreverse\x1b[0m \x1b[4munderlined\x1b[0m\r\n"
    "\x1b[1;32m~/src/app\x1b[0m (main) $ "
)


def said(*entries: Entry) -> updates.ConversationUpdate:
    return updates.ConversationUpdate(EntriesChanged(entries))


def waiting(item: Confirmation, summary: str) -> CallEntry:
    return CallEntry(item.call_id, item.details.tool_name, summary, CallState.WAITING, ordinal=item.ordinal)


async def write(here: Stage, draft: str) -> None:
    """Put a draft into the prompt."""
    here.app.post_message(events.Paste(draft))
    await wait_until(here.pilot, lambda: here.app.dashboard.prompt.text == draft)


async def begin_work(here: Stage) -> None:
    await here.post(said(ASKED, PLAN, READ, FOUND), updates.TodosUpdate(TODOS))


async def ask_three(here: Stage) -> None:
    """Three questions; the first has a clock."""
    await begin_work(here)
    clocked = replace(CLOCKED, deadline=here.clock.seconds + 47)
    await here.post(
        updates.ActivityUpdate(Activity.RUNNING, "edit_file +2"),
        said(
            waiting(EDIT, "cli/export.py"),
            waiting(DELETE, "rm -rf build dist && find . -name '*.pyc' -delete"),
            waiting(FETCH, "docs.python.org/3/library/json.html"),
        ),
    )
    await here.show_queue(clocked, DELETE, FETCH)


async def review(here: Stage, *items: Confirmation) -> ConfirmationScreen:
    """Open the confirmation on the first of them, with its approve keys alive."""
    await begin_work(here)
    await here.show_queue(*items)
    await here.press("f8")
    await here.post(updates.ReviewUpdate(items[0].id, ALLOWED))
    modal = here.modal
    assert modal is not None
    await here.arm()
    modal.box.draw()
    await here.settle()
    return modal


# -- the pictures ------------------------------------------------------------------------------------------------------


@BOTH
def test_an_empty_dashboard_says_what_can_be_done_and_under_which_policy(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await here.settle()

    same = camera.take(size, play)
    assert camera.shows("IDLE", "qwen3-coder:30b", "~/src/app", "policy: ask", "No messages yet", "F1 Help", "^Q Quit")
    assert "F8" not in camera.text.splitlines()[-1], "nothing waits, so there is nothing to review"
    if size == WIDE:
        assert camera.shows("Queue: nothing to approve", "Todo: none yet", "Terminal: ^T your shell")
    assert same


@BOTH
def test_a_streaming_answer_is_followed_to_its_last_line(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        await here.post(
            updates.ActivityUpdate(Activity.STREAMING, "41 t/s"),
            said(AnswerEntry("a2", "qwen3-coder:30b", time="10:42", live=True)),
        )
        here.clock.seconds += 3
        text = "## What I found\n\n- `export` writes **one** format\n- the flag is `fmt`\n\n```python\n"
        text += "def export(out: Path, fmt: str = 'csv') -> int:\n    return 0\n```\n\n"
        text += "\n\n".join(f"Step {number}: change the caller and its test." for number in range(1, 9))
        for start in range(0, len(text), 40):
            here.app.post_update(updates.ConversationUpdate(AnswerGrew("a2", text=text[start : start + 40])))
        await here.settle()
        here.app.dashboard.updates.tick()
        await wait_until(here.pilot, lambda: "Step 8: change the caller and its test." in here.text)

    same = camera.take(size, play)
    assert camera.text.startswith(" STREAMING 41 t/s 3s")
    assert camera.shows("Step 8: change the caller and its test.", "Esc Interrupt")
    assert "**" not in camera.text and "##" not in camera.text, "markdown is drawn, not shown"
    assert same


@BOTH
def test_three_questions_wait_in_the_queue_while_the_person_writes_on(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await write(here, "now update the README too")
        await ask_three(here)

    same = camera.take(size, play)
    assert camera.text.startswith(" WAITING 3")
    assert camera.shows("now update the README too", "F8 Review(3)", "0:47", "WAIT")
    if size == WIDE:
        assert camera.shows("Queue (3)", "#1", "#2", "#3", "HIGH", "Add the --json flag", "WAIT #1 F8")
    else:
        assert camera.shows("3 approvals waiting, next expires in 0:47", "Queue 3!")
    assert same


def test_at_80_columns_the_queue_has_the_screen_to_itself(camera: Camera) -> None:
    async def play(here: Stage) -> None:
        await ask_three(here)
        await here.press("f6", "f6")

    same = camera.take(NARROW, play)
    assert camera.shows("[Queue 3!]", "#1", "#2", "#3", "MED", "HIGH", "LOW", "edit_file", "web_fetch")
    assert same


@BOTH
def test_an_edit_is_confirmed_over_its_diff(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await review(here, EDIT, DELETE, FETCH)

    same = camera.take(size, play)
    assert camera.shows("Approve?  1 of 3   MEDIUM   edit_file", "Edit cli/export.py (2 edits, +2 -1)")
    assert camera.shows("policy rule 3: tool=edit_file -> ask", "+     as_json: bool = False,")
    assert camera.shows("[y] Approve once", "[a]", "[A]", "[n] Deny", "[r] Deny with reason", "[e] Edit", "[D]", "Esc")
    assert same


@BOTH
def test_a_dangerous_command_is_confirmed_in_full_and_twice(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await review(here, DELETE, FETCH)
        await here.press("y")
        assert here.decisions == [], "the first y only asks for the second"

    same = camera.take(size, play)
    assert camera.shows("Approve?  1 of 2   HIGH   shell", "rm -rf build dist && find . -name '*.pyc' -delete")
    assert camera.shows("deletions always ask", "/home/u/src/app", "[y] Press y again")
    assert same


@BOTH
def test_a_question_that_expired_stays_to_be_read_and_takes_no_yes(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        clocked = replace(CLOCKED, deadline=here.clock.seconds + 1)
        await review(here, clocked, FETCH)
        await here.show_queue(replace(EDIT, state=ConfirmationState.EXPIRED), FETCH)
        await here.press("y")
        assert here.decisions == [], "a late yes lands on nothing"

    same = camera.take(size, play)
    assert camera.shows("EXPIRED  1 of 2   MEDIUM   edit_file", "expired, so it is denied")
    assert "Approve once" not in camera.text
    assert same


@BOTH
def test_errors_of_changed_arguments_are_shown_under_the_form(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await review(here, EDIT, FETCH)
        await here.press("e")
        error = "edits.0.replacement: Field required"
        await here.post(updates.ReviewUpdate(EDIT.id, reviewed(errors=(error,)), {"path": "cli/export.py"}))

    same = camera.take(size, play)
    assert camera.shows("edits.0.replacement: Field required", '"path": "cli/export.py"', "Esc")
    assert same


@BOTH
def test_the_terminal_takes_the_whole_screen(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        await here.press("f10", "ctrl+t")
        await here.post(updates.CommandsUpdate((CommandStatus("sh", "bash", kind=CommandKind.PERSON),)))
        await wait_until(here.pilot, lambda: bool(here.backend.of(AttachTerminal)))
        here.backend.of(AttachTerminal)[0].feed(PYTEST.encode())
        await wait_until(here.pilot, lambda: "14 passed" in here.text)

    same = camera.take(size, play)
    assert camera.shows(
        "^] Leave terminal", "pytest -q", "1 failed, 14 passed in 0.41s", "\u65e5\u672c\u8a9e", "\u250c\u2500\u2510"
    )
    assert "Add a --json flag" not in camera.text, "the conversation is out of sight"
    assert same


def test_a_broad_window_has_conversation_queue_todos_and_terminal_side_by_side(camera: Camera) -> None:
    async def play(here: Stage) -> None:
        await ask_three(here)
        await here.press("ctrl+t")
        await here.post(updates.CommandsUpdate((CommandStatus("sh", "bash", kind=CommandKind.PERSON),)))
        await wait_until(here.pilot, lambda: bool(here.backend.of(AttachTerminal)))
        here.backend.of(AttachTerminal)[0].feed(PYTEST.encode())
        await wait_until(here.pilot, lambda: "14 passed" in here.text)

    same = camera.take(BROAD, play)
    assert camera.shows("Add a --json flag", "Queue (3)", "Todo 1/4", "1 failed, 14 passed in 0.41s", "Prompt")
    assert same


@BOTH
def test_the_terminal_is_searched_while_its_program_waits(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        lines = "".join(f"GET /export/{n} {'500 error' if n % 7 == 3 else '200'}\r\n" for n in range(60))
        view = await terminal_of(here, SHELL, agents_command(), output=lines.encode() + b"$ ")
        await here.press("ctrl+right_square_bracket", "f5", "slash", *"error")
        await wait_until(here.pilot, lambda: view.search.hits == "9/9")
        await here.press("up")
        await wait_until(here.pilot, lambda: view.search.hits == "8/9")

    same = camera.take(size, play)
    assert camera.shows("/ error", "8/9", "GET /export/52 500 error")
    assert same


@BOTH
def test_a_link_in_the_terminal_is_underlined_under_the_mouse_and_named_while_reading(
    camera: Camera, size: Size
) -> None:
    async def play(here: Stage) -> None:
        served = b"INFO serving on \x1b[36mhttp://127.0.0.1:8000/docs\x1b[0m, ctrl+c ends it\r\n"
        view = await terminal_of(here, SHELL, agents_command(), output=b"$ make serve\r\n" + served)
        if size == NARROW:
            await here.pilot.hover(view, offset=(view.gutter.left + 20, view.gutter.top + 1))
        else:
            await here.press("ctrl+right_square_bracket", "f5", "up", *["right"] * 20)
        await wait_until(here.pilot, lambda: view.links.link is not None)

    same = camera.take(size, play)
    assert camera.shows("INFO serving on http://127.0.0.1:8000/docs, ctrl+c ends it")
    if size == WIDE:
        assert camera.shows("READING", "Enter opens", "p prompt")
    assert same


@BOTH
def test_a_link_in_the_conversation_is_marked_by_its_key(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        answer = "The flag is described at https://docs.python.org/3/library/json.html#json.dump, with others."
        await here.post(said(ASKED, AnswerEntry("a1", "qwen3-coder:30b", answer, time="10:41")))
        transcript = here.app.dashboard.chat.transcript
        transcript.focus()
        await wait_until(here.pilot, lambda: transcript.has_focus)
        await here.press("l")
        await wait_until(here.pilot, lambda: transcript.pointed_link is not None)

    same = camera.take(size, play)
    assert camera.shows("https://docs.python.org/3/library/json.html#json.dump")
    assert same


@BOTH
def test_of_several_shells_a_busy_one_is_closed_after_a_question(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        further = CommandStatus("s2", "/bin/bash", kind=CommandKind.PERSON)
        await terminal_of(here, SHELL, further, output=b"$ ")
        await here.press("ctrl+right_square_bracket", "2")
        await here.post(updates.ShellBusyUpdate("s2", (ProcessName(4711, "make"), ProcessName(4712, "cc1"))))
        await wait_until(here.pilot, lambda: "Close this shell?" in here.text)

    same = camera.take(size, play)
    assert camera.shows("[shell 2]", "It runs 4711 (make), 4712 (cc1).", "y close it")
    assert same


@BOTH
def test_everything_can_be_read_on_a_light_screen(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await write(here, "now update the README too")
        await ask_three(here)

    same = camera.take(size, play, theme="ollm-light")
    assert camera.text.startswith(" WAITING 3")
    assert camera.shows("now update the README too", "F8 Review(3)")
    assert same


@BOTH
def test_a_failed_model_server_is_named_above_a_draft_that_is_kept(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        await write(here, "and now?")
        await here.post(updates.ActivityUpdate(Activity.FAILED, error="ollama at http://127.0.0.1:11434 refused."))

    same = camera.take(size, play)
    assert camera.text.startswith(" ERROR")
    assert camera.shows("ollama at http://127.0.0.1:11434 refused.", "[r] retry", "and now?")
    assert same


def test_below_40_by_10_one_line_says_so(camera: Camera) -> None:
    async def play(here: Stage) -> None:
        await here.settle()

    same = camera.take(TINY, play)
    assert [row.strip() for row in camera.text.splitlines() if row.strip()] == ["Window too small (need 40x10)"]
    assert same


JOBS = (
    job("5a5a", "redis-server --port 6379", 3107, age=90_000, cpu=0.4, addresses=("127.0.0.1:6379",), name="j1",
        detached=True),
    job("j1", "npm run dev -- --host 0.0.0.0 --open false --strict-port", 4711, age=192, cpu=112.6, processes=3,
        addresses=("localhost:5173", "[::1]:9229")),
    job("j2", "read -p 'Deploy to which host? ' host", 4720, age=5, cpu=0, waiting_for_input=True),
    job("j3", "make docs", 4730, age=61, processes=0, phase=CommandPhase.EXITED, exit_code=2),
    job("c4", "nohup ./watch.sh &", 4741, age=8_100, processes=2, phase=CommandPhase.EXITED, exit_code=0),
)  # fmt: skip


@BOTH
def test_jobs_are_listed_with_what_they_take_and_where_they_listen(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        await here.press("f3")
        await here.post(updates.JobsUpdate(JOBS))

    same = camera.take(size, play)
    assert camera.shows("Jobs  4 running", "LEFT RUNNING", "npm run dev", "localhost:5173 [::1]:9229", "113 %", "INPUT")
    assert camera.shows("exit 2", "OVER, NOT GONE", "Enter open", "x end")
    assert same


SESSIONS = (
    SessionRow("20260131-090000-41c2aa", "Add JSON export to the CLI", "", "5m", 41_200, "2026-01-31 09:40  qwen3:8b",
        "broken off"),
    SessionRow("20260130-170000-0b7e19", "Why do the tests of the parser fail on Windows only, and since when?", "", "1d",
        8_000, "2026-01-30 17:10  qwen3:8b", "open"),
    SessionRow("20260129-111500-9d0c33", "Where is the port set?", "/srv/other", "2d", 900, "2026-01-29 11:15  llama3.2",
        excerpt="...listens on port 8080 unless PORT is set in the...", here=False),
)  # fmt: skip


@BOTH
def test_sessions_are_listed_with_what_was_said_in_the_marked_one(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        await here.press("ctrl+s")
        said = (
            "YOU\nAdd JSON export to the CLI\n\n> read_file cli/export.py\n\nANSWER\nDone: `--json` writes one object."
        )
        await here.post(updates.SessionsUpdate("", SESSIONS), updates.SessionPreviewUpdate(SESSIONS[0].id, said))

    same = camera.take(size, play)
    assert camera.shows("Sessions  3 kept", "broken off  5m", "open  1d", "port 8080")
    assert camera.shows("> read_file cli/export.py", "Enter go on", "d delete")
    assert same


@BOTH
def test_the_policy_lists_what_holds_beside_what_would_happen_to_a_call(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        await here.press(*"/policy", "enter")
        await here.post(PolicyRowsUpdate("ask", POLICY))
        await here.press("w", *"git", "space", *"push")
        await here.post(JudgedUpdate("git push", "ask", JUDGED))

    same = camera.take(size, play)
    assert camera.shows("Policy  mode ask", "deny   write_file", "path startsWith docs/", "w what would")
    assert "used 12x" in camera.text or size == NARROW
    assert camera.shows("ASK  git push", "It would run on this machine.")
    assert same


@BOTH
def test_the_models_are_listed_with_what_is_known_of_the_marked_one(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        await here.press(*"/model", "enter")
        await here.post(ModelsUpdate(MODELS))

    same = camera.take(size, play)
    assert camera.shows("Models  2", "* qwen3-coder:30b", "41 tok/s", "no tools", "It can call tools", "Enter take it")
    assert same


@BOTH
def test_quitting_with_jobs_offers_to_end_them_to_leave_them_and_to_stay(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await begin_work(here)
        here.backend.live = UnfinishedWork(("A turn is running.",), tuple(job for job in JOBS if job.unfinished))
        await here.press("ctrl+q")

    same = camera.take(size, play)
    assert camera.shows("A turn is running.", "npm run dev", "y quit and end all", "l quit, leave running", "Esc stay")
    assert same
