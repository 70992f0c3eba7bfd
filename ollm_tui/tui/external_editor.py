"""A draft or a file in the person's own editor: the screen is lent to it, and a draft read back when it ends well."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from textual.app import App, SuspendNotSupported

from ollm_tui.core.base.app_dirs import state_dir

DEFAULT_EDITOR = "vi"
MOST_BYTES = 1_000_000
"""A longer text is not taken into the prompt."""
_PLUS_LINE = frozenset(("emacs", "emacsclient", "joe", "kak", "micro", "nano", "ne", "nvim", "vi", "view", "vim"))
_GOTO = frozenset(("code", "code-insiders", "codium", "cursor", "windsurf"))
_WITH_COLONS = frozenset(("helix", "hx", "subl", "zed"))
"""How editors are told a line: as `+LINE FILE`, `--goto FILE:LINE:COLUMN` or `FILE:LINE:COLUMN`."""
HOW_TO_SET = "Set $VISUAL or $EDITOR to one that is there."


class EditorError(Exception):
    """The editor gave no text back; the message is for the person."""


class ExternalEditor:
    """Lends the screen to an editor; the event loop goes on meanwhile."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self.is_open = False
        """ctrl+c and ctrl+\\ are the editor's then."""

    async def edit(self, draft: str) -> str:
        """Return the draft as the editor left it.

        Raises:
            EditorError: It cannot be started, ended with an error, or left what is no draft.
        """
        command = editor_command(os.environ)
        try:
            file = await asyncio.to_thread(_write, draft)
        except OSError as error:
            raise EditorError(f"The draft could not be written for the editor: {error}") from error
        try:
            code = await self._run([*command, str(file)], command[0])
            if code:
                raise EditorError(f"{command[0]} ended with {code}, so the draft stays as it was.")
            return await asyncio.to_thread(_read, file)
        finally:
            await asyncio.to_thread(shutil.rmtree, file.parent, ignore_errors=True)

    async def open_file(self, path: Path, line: int = 0, column: int = 0) -> None:
        """Show a file at a line, where the editor is one that is known to take it.

        Raises:
            EditorError: It cannot be started, or ended with an error.
        """
        command = editor_command(os.environ)
        code = await self._run([*command, *_place(Path(command[0]).name, path, line, column)], command[0])
        if code:
            raise EditorError(f"{command[0]} ended with {code}.")

    async def _run(self, command: list[str], name: str) -> int:
        """Return the exit code; the screen is ours again, whatever happened."""
        failure: BaseException | None = None
        code = 0
        try:
            with self._app.suspend():
                self.is_open = True
                try:
                    code = await _wait_for(command)
                except (OSError, asyncio.CancelledError) as error:
                    failure = error  # raised in here, it would leave the screen with the editor
        except SuspendNotSupported as error:
            raise EditorError("An editor needs a terminal of its own, which there is none of here.") from error
        finally:
            self.is_open = False
        self._app.refresh(layout=True)
        if isinstance(failure, OSError):
            raise EditorError(f"{name} could not be started: {failure.strerror}. {HOW_TO_SET}") from failure
        if failure is not None:
            raise failure
        return code


def editor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the words of $VISUAL, $EDITOR or vi.

    Raises:
        EditorError: There is no such program.
    """
    name = next((name for name in ("VISUAL", "EDITOR") if environment.get(name, "").strip()), "")
    try:
        words = shlex.split(environment.get(name, DEFAULT_EDITOR))
    except ValueError as error:
        raise EditorError(f"${name} cannot be read as a command: {error}.") from error
    if not words or shutil.which(words[0]) is None:
        program = f"{words[0] if words else 'A command'}{f' of ${name}' if name else ''}"
        raise EditorError(f"{program} is not there. {HOW_TO_SET}")
    return words


def _place(editor: str, path: Path, line: int, column: int) -> list[str]:
    """Return the words that name a place to an editor; others get the file alone."""
    if not line:
        return [str(path)]
    if editor in _PLUS_LINE:
        return [f"+{line}", str(path)]
    place = f"{path}:{line}:{column or 1}"
    if editor in _GOTO:
        return ["--goto", place]
    return [place if editor in _WITH_COLONS else str(path)]


async def _wait_for(command: list[str]) -> int:
    """Run a program on our terminal; it ends with us."""
    process = await asyncio.create_subprocess_exec(*command)
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()


def _write(draft: str) -> Path:
    """Write the draft where only the person can read it, in a folder that takes the editor's own files as well."""
    parent = state_dir() / "prompts"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = Path(tempfile.mkdtemp(prefix="editor-", dir=parent)) / "message.md"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as stream:
        stream.write(draft)
    return file


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise EditorError(f"What the editor wrote cannot be read: {error.strerror}.") from error
    if len(data) > MOST_BYTES:
        raise EditorError(f"What the editor wrote is longer than {MOST_BYTES:,} bytes; the draft stays as it was.")
    return data.decode("utf-8", "replace").removesuffix("\n")
