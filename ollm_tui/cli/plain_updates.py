"""What a command of `--plain` is answered with, as lines of words: the dashboard's updates without its boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.core.todos.todo import Todo, TodoStatus
from ollm_tui.tui.protocol import undo, updates
from ollm_tui.tui.protocol.models import ModelRow, ModelsUpdate
from ollm_tui.tui.protocol.policy import JudgedUpdate
from ollm_tui.tui.screens.question_screens import job_state
from ollm_tui.tui.values import EntriesChanged, MemoryListing, NoteEntry, NoteKind, SessionRow

MOST_LISTED = 50
"""Rows of a list; a screen reader reads each of them."""

_TODO_WORDS = {
    TodoStatus.PENDING: "open",
    TodoStatus.IN_PROGRESS: "in progress",
    TodoStatus.COMPLETED: "done",
    TodoStatus.CANCELLED: "cancelled",
}


def lines_of_update(update: updates.Update) -> Iterator[str]:
    """Yield what an update says; nothing for what only a screen shows."""
    match update:
        case updates.ToastUpdate(text=text, failed=failed):
            yield f"{'Error' if failed else 'Note'}: {visible_block(text)}"
        case updates.ConversationUpdate(change=EntriesChanged(entries=entries)):
            for entry in entries:
                if isinstance(entry, NoteEntry):
                    yield f"{'Error: ' if entry.kind is NoteKind.ERROR else ''}{visible_block(entry.text)}"
        case updates.MemoryChangeUpdate(message=message) if message:
            yield f"Error: {visible(message)}"
        case undo.UndoPlanUpdate(plan=plan):
            yield from _plan_lines(plan)
        case JudgedUpdate(decision=decision, details=details):
            yield f"{decision}: {visible_block(details)}"
        case _:
            yield from _list_lines(update)


def _list_lines(update: updates.Update) -> Iterator[str]:
    match update:
        case updates.SessionsUpdate(rows=rows, complete=True):
            yield from _session_lines(rows)
        case updates.TodosUpdate(todos=todos):
            yield from _todo_lines(todos)
        case updates.MemoryListUpdate(listing=listing):
            yield from _memory_lines(listing)
        case updates.JobsUpdate(jobs=jobs, unknown=unknown):
            yield from _job_lines(jobs)
            if unknown:
                yield visible(unknown)
        case undo.ChangesUpdate(rows=rows):
            yield from _change_lines(rows)
        case ModelsUpdate(rows=rows):
            yield from _model_lines(rows)
        case _:
            pass


def _numbered(count: int, rows: Iterator[str]) -> Iterator[str]:
    """Yield the first rows with their numbers, and how many there are beside them."""
    for number, row in enumerate(rows, 1):
        if number > MOST_LISTED:
            yield f"and {count - MOST_LISTED:,} more"
            return
        yield f"{number}. {row}"


def _ago(age: str) -> str:
    return f"{age} ago" if age[:1].isdigit() else age


def _session_lines(rows: Sequence[SessionRow]) -> Iterator[str]:
    if not rows:
        yield "No earlier session has that in it."
        return

    def row(session: SessionRow) -> str:
        place = "" if session.here else f", in {session.workspace}"
        state = f", {session.state}" if session.state else ""
        excerpt = f": {visible(session.excerpt)}" if session.excerpt else ""
        return f"{visible(session.title)}, {_ago(session.age)}{state}{place}{excerpt}"

    yield from _numbered(len(rows), map(row, rows))
    yield "Type /resume and a number to go on with one, or /resume and words to look for."


def _todo_lines(todos: Sequence[Todo]) -> Iterator[str]:
    if not todos:
        yield "There are no todos."
    yield from _numbered(len(todos), (f"{_TODO_WORDS[todo.status]}: {visible(todo.task)}" for todo in todos))


def _memory_lines(listing: MemoryListing) -> Iterator[str]:
    if not listing.rows:
        yield "Nothing is remembered with that." if listing.query.containing else "Nothing is remembered."
    rows = (
        f"{visible(row.name.key)} ({row.name.scope.value}, {_ago(row.age)}): {visible(row.first_line)}"
        + (f" [{row.concern}]" if row.concern else "")
        for row in listing.rows
    )
    yield from _numbered(listing.total, rows)


def _job_lines(jobs: Sequence[CommandStatus]) -> Iterator[str]:
    if not jobs:
        yield "No jobs run."
    for job in jobs:
        address = f", listens on {' '.join(job.addresses)}" if job.addresses else ""
        yield f"{job.name}: {job_state(job)[0].lower()}, pid {job.first_pid}{address}: {visible(job.command)}"
    if any(job.unfinished for job in jobs):
        yield "Type /jobs end and its name to end one."


def _change_lines(rows: Sequence[undo.UndoRow]) -> Iterator[str]:
    if not rows:
        yield "No call has changed anything here."
        return
    for row in rows[:MOST_LISTED]:
        paths = f"{row.paths} path{'' if row.paths == 1 else 's'}"
        yield f"{row.id}: {visible(row.title)}, {paths}{f', {row.status}' if row.status else ''}"
    if len(rows) > MOST_LISTED:
        yield f"and {len(rows) - MOST_LISTED:,} more; `ollm-tui undo list` has all"
    yield "Type /undo and a name to see what undoing it does, and to decide."


def _plan_lines(plan: undo.UndoPlan) -> Iterator[str]:
    for part in plan.parts:
        yield f"{visible(part.title)}{f', left alone: {visible(part.why)}' if part.why else ''}"
        if isinstance(part.diff, str):
            yield from (visible_block(part.diff).rstrip().split("\n") if part.diff else ())
        else:
            yield from (visible(line) for hunk in part.diff.hunks for line in hunk.lines)
        if part.since:
            yield f"changed after that:\n{visible_block(part.since)}"
    yield visible(plan.summary)


def _model_lines(rows: Sequence[ModelRow]) -> Iterator[str]:
    if not rows:
        yield "No model server answers. Start one, such as `ollama serve`, then type /connect."
        return
    for row in rows:
        yield f"{visible(row.name)}, {visible(row.facts)}, at {visible(row.server)}{', in use' if row.current else ''}"
    yield "Type /model and a name to take one."
