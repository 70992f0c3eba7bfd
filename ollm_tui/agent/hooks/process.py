"""Run one hook: its event on stdin, its answer from exit code, stdout and stderr; nothing it does can hold us."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal as signals
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from pydantic import JsonValue

from ollm_tui.agent.hooks.entries import Hook
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.fence.secrets import cleaned, mask

OUTPUT_BYTES = 1_000_000
"""What is read of a hook's stdout and stderr each; the rest is let go."""

REASON_CHARS = 2_000

_FILE_KILOBYTES = 1024 * 1024
"""No file that a hook writes may be larger, its output included."""

_BLOCKS = 2
"""The exit code by which a hook says no, with the reason on stderr."""


@dataclass(frozen=True)
class HookOutcome:
    """What one run of a hook said; with `failure` it said nothing that counts."""

    hook: Hook
    blocks: bool = False
    reason: str = ""
    """From stderr, where it blocks."""
    text: str = ""
    """Its stdout, where that is no JSON object."""
    answer: JsonObject | None = None
    failure: str = ""


async def run_hook(hook: Hook, given: JsonObject, workspace: Path, signal: AbortSignal) -> HookOutcome:
    """Run the hook's command in bash, without a terminal. Raises OperationCancelled alone."""
    if hook.fault:
        return HookOutcome(hook, failure=hook.fault)
    environment = cleaned(os.environ) | {
        "OLLM_SESSION_ID": str(given.get("session_id", "")),
        "OLLM_PROJECT_DIR": str(workspace),
        "CLAUDE_PROJECT_DIR": str(workspace),
        **({"OLLM_PLUGIN_ROOT": hook.root, "CLAUDE_PLUGIN_ROOT": hook.root} if hook.root else {}),
    }
    try:
        return await signal.guard(_run(hook, json.dumps(given).encode(), workspace, environment))
    except OSError as error:
        return HookOutcome(hook, failure=f"it could not be started: {error.strerror or error}")


async def _run(hook: Hook, given: bytes, workspace: Path, environment: Mapping[str, str]) -> HookOutcome:
    # Files and no pipes: whoever inherits a pipe and lives on would have to be waited for.
    with TemporaryFile() as told, TemporaryFile() as out, TemporaryFile() as err:
        told.write(given)
        told.seek(0)
        starting = asyncio.to_thread(
            subprocess.Popen[bytes],
            ["/bin/bash", "--noprofile", "--norc", "-c", f"ulimit -f {_FILE_KILOBYTES}\n{hook.command}"],
            stdin=told,
            stdout=out,
            stderr=err,
            cwd=workspace if workspace.is_dir() else "/",  # a deleted folder must not make a guard unable to start
            env=environment,
            start_new_session=True,
        )
        child = await _started(asyncio.ensure_future(starting))
        try:
            async with asyncio.timeout(hook.timeout):
                await asyncio.to_thread(child.wait)
        except TimeoutError:
            return HookOutcome(hook, failure=f"it did not answer within {hook.timeout:g} s and was stopped")
        finally:
            _end(child)
        return _outcome(hook, child.returncode, _read(out), _read(err))


async def _started(starting: asyncio.Future[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Wait until it runs; a cancellation before that ends it, since the thread starts it all the same."""
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            child = await starting
            _end(child)
            await asyncio.to_thread(child.wait)
        raise


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):  # also what it left behind
        os.killpg(child.pid, signals.SIGKILL)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(OUTPUT_BYTES).decode("utf-8", "replace")


def _outcome(hook: Hook, code: int, out: str, err: str) -> HookOutcome:
    answer, text = _object_of(out), out.strip()
    reason = shown(err)
    if code == _BLOCKS:  # whatever its stdout says
        return HookOutcome(hook, blocks=True, reason=reason or shown(_said(answer)) or "it gave no reason")
    if code < 0:
        return HookOutcome(hook, failure=f"it was ended by signal {-code}")
    if code != 0:
        return HookOutcome(hook, failure=f"it ended with exit code {code}{f': {reason}' if reason else ''}")
    if answer is None and text.startswith("{"):
        return HookOutcome(hook, failure="its answer is no JSON object")
    return HookOutcome(hook, text="" if answer is not None else visible_block(mask(text)), answer=answer)


def _object_of(out: str) -> JsonObject | None:
    try:
        found: JsonValue = json.loads(out)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _said(answer: JsonObject | None) -> str:
    return str((answer or {}).get("reason", "") or "")


def shown(text: str) -> str:
    """Return a hook's words as one line that can be shown to the person and the model."""
    line = visible(" ".join(mask(text).split()))
    return line if len(line) <= REASON_CHARS else f"{line[:REASON_CHARS]}..."
