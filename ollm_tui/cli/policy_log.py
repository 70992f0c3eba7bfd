"""`ollm-tui policy log`: what was decided about every call so far, and whether that record is as it was written."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ollm_tui.cli.exits import ExitCode
from ollm_tui.cli.output import print_json, say
from ollm_tui.core.base.app_dirs import data_folder
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.policy.audit import AuditLine, AuditLog, CallEnd, unended
from ollm_tui.core.storage.store import Store

_NO_END = {
    CallEnd.RUNNING: "no end yet: it still runs",
    CallEnd.LOST: "no end: its process was killed, whether it took effect is not known",
}


def show_log(*, as_json: bool, last: int | None) -> int:
    """All lines, oldest first, or the last ones; the last line of a call whose end is missing says so."""
    try:
        with _log() as log:
            lines = log.read(last)
            open_ends = unended(lines)
            for line in lines:
                end = open_ends.get(line.number)
                if as_json:
                    fields = line.model_dump(mode="json", by_alias=True, exclude_none=True)
                    print_json({**fields, "noEnd": end.value} if end else fields)
                else:
                    print(_shown(line) + (f"  ({_NO_END[end]})" if end else ""))
    except StorageFailed as failure:
        say(failure.message)
        return ExitCode.FAILED
    return ExitCode.DONE


def verify_log() -> int:
    """Exit 1 where a line was changed, taken out or slipped in."""
    try:
        with _log() as log:
            broken = log.verify()
    except StorageFailed as failure:
        say(failure.message)
        return ExitCode.FAILED
    if broken is None:
        print_json({"ok": True})
        return ExitCode.DONE
    print_json({"ok": False, "line": broken.number, "reason": broken.reason})
    say(broken.message)
    return ExitCode.FAILED


@contextmanager
def _log() -> Generator[AuditLog]:
    store = Store(data_folder() / "ollm.db")
    try:
        yield AuditLog(store)
    finally:
        store.close()


def _shown(line: AuditLine) -> str:
    entry = line.entry
    if entry is None:
        return f"{line.number}  cannot be read; see --verify"
    said = [f"{line.number}", line.time, entry.event.value, visible(entry.tool)]
    match entry.outcome, entry.decision:
        case None, None:
            pass
        case None, decision:
            said.append(decision.value if decision else "")
        case outcome, _:
            said.append(outcome)
    if entry.by:
        said.append(f"by {visible(entry.by)}")
    if entry.layer is not None and entry.outcome is None:
        rule = f" rule {entry.rule}" if entry.rule else ""
        place = f" ({visible(entry.file)}:{entry.line})" if entry.file and entry.line else ""
        said.append(f"[{entry.layer.value}{rule}{place}]")
    if entry.latency_ms is not None:
        said.append(f"{entry.latency_ms} ms")
    return "  ".join([*said, entry.call_id])
