"""`ollm-tui policy show` and `policy log`; loaded only for these two, for start-up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ollm_tui.cli.command_line import ExitCode
from ollm_tui.cli.streams import print_json, say, say_notice, valid_configuration
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.policy.audit import AuditLine, AuditLog, CallEnd, unfinished_calls
from ollm_tui.core.policy.audit_chain import EndFile
from ollm_tui.core.policy.policy_file import preset_text
from ollm_tui.core.storage.store import Store
from ollm_tui.options import Options
from ollm_tui.runtime.policy_text import policy_lines

_NO_END = {
    CallEnd.RUNNING: "no end yet: it still runs",
    CallEnd.LOST: "no end: its process was killed, whether it took effect is not known",
}


def show_log(*, as_json: bool, last: int | None) -> int:
    """Print the audit log, oldest line first; a call whose end is missing says so."""
    try:
        with _log() as log:
            lines = log.read(last)
            open_ends = unfinished_calls(lines)
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
    """Check the audit log; exit 1 where a line was changed, removed or inserted."""
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
    store = Store(data_dir() / "ollm.db")
    try:
        say_notice(store)
        yield AuditLog(store, end_file=EndFile.of_store(store.path))
    finally:
        store.close()


def _shown(line: AuditLine) -> str:
    entry = line.entry
    if entry is None:
        return f"{line.number}  cannot be read; see --verify"
    parts = [f"{line.number}", line.time, entry.event.value, visible(entry.tool)]
    match entry.outcome, entry.decision:
        case None, None:
            pass
        case None, decision:
            parts.append(decision.value if decision else "")
        case outcome, _:
            parts.append(outcome)
    if entry.by:
        parts.append(f"by {visible(entry.by)}")
    if entry.layer is not None and entry.outcome is None:
        rule = f" rule {entry.rule}" if entry.rule else ""
        location = f" ({visible(entry.file)}:{entry.line})" if entry.file and entry.line else ""
        parts.append(f"[{entry.layer.value}{rule}{location}]")
    if entry.latency_ms is not None:
        parts.append(f"{entry.latency_ms} ms")
    if entry.place is not None:
        parts.append(entry.place.value)
    return "  ".join([*parts, entry.call_id])


def show_preset(name: str) -> int:
    """Print a shipped preset as its file has it."""
    print(preset_text(name), end="")
    return ExitCode.DONE


def show_policy(options: Options) -> int:
    """Print the policy in force in the order of evaluation, with sources in comments."""
    configuration = valid_configuration(options)
    print("\n".join(policy_lines(configuration, say)))
    return ExitCode.DONE
