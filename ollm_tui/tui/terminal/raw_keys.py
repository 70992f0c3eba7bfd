"""Typed keys with the bytes that the outer terminal sent for them, split before Textual's parser.

That parser loses Esc before punctuation within 100 ms, Alt on punctuation, and rewrites Alt+b: a program in the
terminal would get other keys than were typed.
"""

from __future__ import annotations

import os
import re
import selectors
import time
from codecs import getincrementaldecoder
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

from textual import events
from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.app import ScreenStackError
from textual.dom import NoScreen
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import Keys
from textual.message import Message

from ollm_tui.tui.pictures.outer_pictures import version_query
from ollm_tui.tui.skeleton import hand_over

CUT_SECONDS = 0.02
"""How long the rest of a sequence that was cut by a read is waited for."""
READ_BYTES = 4_096
POLL_SECONDS = 0.1

PASTE_START, PASTE_END = b"\x1b[200~", b"\x1b[201~"
_PASTE_START_TEXT, _PASTE_END_TEXT = PASTE_START.decode(), PASTE_END.decode()
_PASTE_END_CUTS = [_PASTE_END_TEXT[:size] for size in range(len(_PASTE_END_TEXT) - 1, 0, -1)]
_REPORT = re.compile(
    rb"\x1b\[(?:<[0-9;-]*[Mm]|[0-9;]+M|M[ -\xff]{3}|[IO]"  # mouse (SGR, urxvt, X10), focus
    rb"|[?>=][0-9;]*[ -/]*[@-~]|[0-9;:]*[nt])"  # answers to our own queries, sizes
    rb"|\x1b\][0-9]+;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1bP[>01][^\x1b]*\x1b\\"
)
_CHARACTER = rb"(?:[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|[\x00-\x1a\x1c-\xff])"
_KEY = re.compile(rb"\x1b\[\[[A-E]|\x1b\[[0-9;:]*[ -/]*[@-Z\\-~]|\x1bO[0-9;]*[@-~]|\x1b?" + _CHARACTER + rb"|\x1b")
_CUT = re.compile(
    rb"\x1b(?:\[(?:\[|M[ -\xff]{0,2}|[<?>=]?[0-9;:-]*[ -/]*)?|O[0-9;]*"
    rb"|\][0-9]+(?:;[^\x07\x1b]*\x1b?)?|P[>01][^\x1b]*\x1b?)?"
    rb"|\x1b?(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})"
)
"""The beginning of a report, a key or a character, up to the end of what was read."""
_VERSION = re.compile(rb"\x1bP>\|([^\x1b]{0,200})\x1b\\")
_VERSION_CUT = re.compile(rb"\x1b(?:P(?:>(?:\|[^\x1b]{0,200}\x1b?)?)?)?\Z")
ANSWER_SECONDS = 2.0
"""How long the terminal's version is waited for; then what looks like it is input like any other."""
_MODIFIED = re.compile(r"\x1b\[27;([0-9]+);([0-9]+)~")


class RawKey(events.Key):
    """A key with the bytes typed for it; `raw` is empty for the further keys of one sequence."""

    def __init__(self, key: str, character: str | None, raw: bytes) -> None:
        super().__init__(key, character)
        self.raw = raw


RawKey.handler_name = events.Key.handler_name


class InputPart(NamedTuple):
    """A whole key, or a piece of what is Textual's: reports and pastes."""

    data: bytes
    is_key: bool


class KeySplitter:
    """Splits typed bytes into keys and what is Textual's, wherever reads cut them."""

    def __init__(self) -> None:
        self.cut = b""
        """The beginning of a sequence whose rest has not been read."""
        self._in_paste = False
        self._passed = b""

    def feed(self, data: bytes) -> Iterator[InputPart]:
        """Yield the parts that are complete."""
        data, self.cut = self.cut + data, b""
        start = 0
        while start < len(data):
            if self._in_paste:
                start = yield from self._paste(data, start)
            elif report := _REPORT.match(data, start):
                yield InputPart(report[0], is_key=False)
                start = report.end()
            elif _CUT.fullmatch(data, start):
                self.cut = data[start:]
                return
            elif key := _KEY.match(data, start):
                self._in_paste = key[0] == PASTE_START
                yield InputPart(key[0], is_key=not self._in_paste)
                start = key.end()

    def flush(self) -> bytes:
        """Return the cut sequence, whose rest did not come."""
        cut, self.cut = self.cut, b""
        return cut

    def pass_by(self, data: bytes) -> bytes:
        """Return input that is not split, behind what was cut; remember whether it ends within a paste."""
        data = self.flush() + data
        seen = self._passed + data
        start, end = seen.rfind(PASTE_START), seen.rfind(PASTE_END)
        if start != end:
            self._in_paste = start > end
        self._passed = seen[-len(PASTE_END) + 1 :]
        return data

    def _paste(self, data: bytes, start: int) -> Generator[InputPart, None, int]:
        found = data.find(PASTE_END, start)
        end = len(data) if found < 0 else found + len(PASTE_END)
        if found >= 0:
            self._in_paste = False
        else:
            end -= next((n for n in range(len(PASTE_END) - 1, 0, -1) if data.endswith(PASTE_END[:n])), 0)
            self.cut = data[end:]
        if end > start:
            yield InputPart(data[start:end], is_key=False)
        return end + len(self.cut)


class PasteReader:
    """Takes what is pasted past Textual's parser, which takes a microsecond a character for it."""

    def __init__(self, parser: XTermParser) -> None:
        self._parser = parser
        self._pasted: list[str] | None = None
        """The pieces of the paste that has not ended; its marks go to the parser, which so stays in step."""
        self._cut = ""
        """What may be the beginning of its end."""

    def feed(self, text: str) -> Iterator[Message]:
        """Yield the events of what was read."""
        text, self._cut = self._cut + text, ""
        while text:
            if self._pasted is None:
                before, start, text = text.partition(_PASTE_START_TEXT)
                self._pasted = [] if start else None
                yield from self._parser.feed(before + start)
                continue
            piece, end, text = text.partition(_PASTE_END_TEXT)
            if not end:
                self._cut = next((end for end in _PASTE_END_CUTS if piece.endswith(end)), "")
            self._pasted.append(piece.removesuffix(self._cut))
            if end:
                whole, self._pasted = "".join(self._pasted), None
                yield from (_with_text(event, whole) for event in self._parser.feed(end))


def _with_text(event: Message, pasted: str) -> Message:
    if not isinstance(event, events.Paste):
        return event
    # Without Esc, which Textual's parser would have read as the beginning of a key; a field would draw it raw.
    return events.Paste(event.text + pasted.replace("\0", "").replace("\x1b", ""))


def keys_of(typed: bytes) -> list[RawKey]:
    """Return the key events of one whole sequence, the first with its bytes."""
    names = _names_of(typed.decode("utf-8", "replace"))
    return [RawKey(key, character, b"" if number else typed) for number, (key, character) in enumerate(names)]


@lru_cache(maxsize=512)
def _names_of(text: str) -> tuple[tuple[str, str | None], ...]:
    if modified := _MODIFIED.fullmatch(text):  # modifyOtherKeys, which Textual does not know
        text = f"\x1b[{modified[2]};{modified[1]}u"
    if text == "\x1b":
        return (("escape", text),)
    # A parser of its own: one that does not know the sequence would wait for more.
    found = tuple((event.key, event.character) for event in XTermParser().feed(text) if isinstance(event, events.Key))
    if not found and len(text) == 2:
        return ((f"alt+{_names_of(text[1])[0][0]}", None),)
    return found or ((Keys.Ignore.value, None),)


@runtime_checkable
class HasPrograms(Protocol):
    """An app that gives keys to programs."""

    def program_takes_keys(self) -> bool:
        """Whether the focus is on a program's terminal; asked in the driver's thread."""
        ...

    def modify_outer_keys(self, level: int) -> None:
        """Ask the outer terminal for xterm's modifyOtherKeys, as the focused program did; 0 for none."""
        ...

    def take_terminal_version(self, version: str) -> None:
        """Take what the outer terminal says it is; called in the driver's thread."""
        ...


class VersionAnswer:
    """Takes the outer terminal's version out of what is typed: Textual would read keys in it."""

    def __init__(self) -> None:
        self.cut = b""
        """What may be its beginning."""
        self._until = 0.0

    def expect(self) -> None:
        """Wait for it from now on."""
        self._until = time.monotonic() + ANSWER_SECONDS

    def take(self, data: bytes) -> tuple[bytes, str | None]:
        """Return input without the version, and the version where it came; no input: what was cut stays input."""
        whole, self.cut = self.cut + data, b""
        if not self._until:
            return whole, None
        if answer := _VERSION.search(whole):
            self._until = 0.0
            return whole[: answer.start()] + whole[answer.end() :], answer[1].decode("utf-8", "replace")
        if time.monotonic() >= self._until:
            self._until = 0.0
        elif data and (cut := _VERSION_CUT.search(whole)):
            whole, self.cut = whole[: cut.start()], whole[cut.start() :]
        return whole, None


class RawKeyDriver(LinuxDriver):
    """Textual's driver; while a program has the focus keys come as `RawKey`."""

    _suspended = False
    _version = VersionAnswer()

    def write(self, data: str) -> None:
        """Write to the terminal while it is ours: nobody empties the queue of a suspended driver, which blocks."""
        if not self._suspended:
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal from the first picture, with its own modes to go back to."""
        hand_over()
        if query := version_query():
            self._version.expect()
        try:
            super().start_application_mode()
            if query:
                self.write(query)
        except SystemExit:  # a signal; Textual stops only what has started
            self.stop_application_mode()
            raise

    def suspend_application_mode(self) -> None:
        """Give the terminal away."""
        super().suspend_application_mode()
        self._suspended = True

    def resume_application_mode(self) -> None:
        """Take the terminal back."""
        self._suspended = False
        super().resume_application_mode()

    def modify_keys(self, level: int) -> None:
        """Set the outer terminal's modifyOtherKeys; ignored where it has none."""
        self.write(f"\x1b[>4;{level}m" if level else "\x1b[>4m")
        self.flush()

    def stop_application_mode(self) -> None:
        """Stop as Textual's driver does, with the outer terminal's keys as they were."""
        self.modify_keys(0)
        super().stop_application_mode()

    def _sigcont_application(self, *_: object) -> None:
        # Textual starts its threads anew whatever stopped them, even nothing: behind a hangup comes a SIGCONT too.
        # The old ones would then be nobody's, and keep the process for ever.
        if os.isatty(self.fileno) and self._auto_restart:  # else an editor has the terminal
            if not self._must_signal_resume:
                self.suspend_application_mode()
            self.resume_application_mode()

    def run_input_thread(self) -> None:
        """Read and dispatch input, as Textual's driver does, until the app ends."""
        parser = XTermParser(self._debug)
        pastes = PasteReader(parser)
        decode = getincrementaldecoder("utf-8")("replace").decode
        splitter = KeySplitter()

        def to_textual(data: bytes) -> None:
            if text := decode(data):
                for event in pastes.feed(text):
                    self.process_message(event)

        def to_program(data: bytes) -> None:
            for event in keys_of(data):
                self.process_message(event)

        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = selector.select(CUT_SECONDS if splitter.cut or self._version.cut else POLL_SECONDS)
                data = self._without_version(self._read() if ready else b"")
                if not self._program_takes_keys():
                    to_textual(splitter.pass_by(data))
                elif data:
                    for part in splitter.feed(data):
                        (to_program if part.is_key else to_textual)(part.data)
                elif cut := splitter.flush():
                    to_program(cut)
                for event in parser.tick():
                    self.process_message(event)
        with suppress(EOFError, ParseError):
            list(parser.feed(""))

    def _read(self) -> bytes:
        data = os.read(self.fileno, READ_BYTES)
        if not data:  # a terminal that was closed gives nothing at once, for ever
            self.exit_event.wait(POLL_SECONDS)
        return data

    def _without_version(self, data: bytes) -> bytes:
        data, version = self._version.take(data)
        if version is not None and isinstance(self._app, HasPrograms):
            self._app.take_terminal_version(version)
        return data

    def _program_takes_keys(self) -> bool:
        try:
            return isinstance(self._app, HasPrograms) and self._app.program_takes_keys()
        except (NoScreen, ScreenStackError):  # the screen changes while this thread asks
            return False
