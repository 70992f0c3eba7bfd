"""Pictures that programs draw in a terminal: sixel, kitty's graphics, iTerm2's inline files.

What cannot be drawn leaves `[picture: reason]`, in words of ours alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ollm_tui.core.shell.pty_process import CELL_HEIGHT, CELL_WIDTH
from ollm_tui.tui.pictures.outer_pictures import OuterPictures
from ollm_tui.tui.pictures.png import SIGNATURE, decode_png
from ollm_tui.tui.pictures.raster import PictureError, Raster
from ollm_tui.tui.pictures.sixel import decode_sixel, is_sixel
from ollm_tui.tui.terminal.emulator.kitty_graphics import (
    ANONYMOUS,
    GraphicsCommand,
    PictureStore,
    Pieces,
    Transmission,
)
from ollm_tui.tui.terminal.emulator.picture_cells import (
    CellSize,
    PlacedPictures,
    picture_rows,
    placeholder_rows,
)
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.writing import WritingScreen

_LENGTH = re.compile(r"([0-9]{1,5})(px|%)?")
_FORMATS = {b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"RIFF": "WebP", b"BM": "BMP", b"<": "SVG", b"%PDF": "PDF"}


def is_picture(kind: str, head: str) -> bool:
    """Whether a string sequence with this beginning carries a picture, and so may be long."""
    match kind:
        case "DCS":
            return is_sixel(head)
        case "APC":
            return head.startswith("G")
        case "OSC":
            return head.startswith("1337;File")
        case _:
            return False


class InlinePictures:
    """Draws what programs send on a screen, and answers where a protocol has answers."""

    def __init__(self, screen: WritingScreen, reply: Callable[[str], None]) -> None:
        self.unlocked: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while a picture is decoded, which may take seconds: whoever locks the screen can let go of it."""
        self.outer: OuterPictures | None = None
        """What hands pictures on to the outer terminal."""
        self._screen = screen
        self._reply = reply
        self._placed = PlacedPictures(screen)
        self._store = PictureStore()
        self._transmission: Transmission | None = None
        self._file: _InlineFile | None = None
        """An iTerm2 file that comes in parts."""

    def reset(self) -> None:
        """Forget what is kept and what has not come in full."""
        self._store.drop(None)
        self._transmission = self._file = None

    def refuse(self, reason: str) -> None:
        """Write why there is no picture."""
        self._screen.draw(f"[picture: {reason}]")

    # Sixel

    def draw_sixel(self, body: str) -> None:
        """Draw a device control string; the cursor then is in its last line, below where it began."""
        x = self._screen.columns - self._placed.columns_left()
        try:
            self._draw(lambda: decode_sixel(body), CellSize())
        except PictureError as error:
            self.refuse(str(error))
        else:
            self._screen.cursor.x = min(x, self._screen.columns - 1)

    # Kitty

    def run_command(self, body: str) -> None:
        """Run a graphics command, or take a further piece of the picture before it."""
        control, _, payload = body[1:].partition(";")
        command = GraphicsCommand.parse(control)
        transmission = self._transmission
        if command.goes_on and transmission is None:
            return  # of a picture that was refused
        if not command.goes_on or transmission is None:
            transmission = Transmission(command)
        self._transmission = None
        begun = transmission.command
        try:
            words = self._step(transmission, command, payload)
        except PictureError as error:
            words = f"EINVAL:{error}"
            if begun.draws:
                self.refuse(str(error))
        except KeyError:
            words = "ENOENT:no such picture"
        if words and (answer := begun.answer(words)):
            self._reply(answer)

    def _step(self, transmission: Transmission, command: GraphicsCommand, payload: str) -> str:
        """Do what a command says; return the answer, empty while more is to come."""
        begun = transmission.command
        match begun.action:
            case "t" | "T" | "q":
                if begun.keys.get("t", "d") != "d":
                    raise PictureError("files and shared memory are not read, send the pixels")
                transmission.pieces.add(payload)
                if command.number("m"):
                    self._transmission = transmission
                    return ""
                self._finish(transmission)
            case "p":
                self._put(begun, self._store.find(begun.number("i") or begun.number("I")))
            case "d":
                self._delete(begun)
                return ""
            case _:
                raise PictureError("not supported here")
        return "OK"

    def _finish(self, transmission: Transmission) -> None:
        command = transmission.command
        number = command.number("i") or command.number("I")
        with self.unlocked():
            raster = transmission.decode()
        if number and command.action != "q":
            self._store.keep(number, raster)
        if command.action == "T":
            self._put(command, raster)

    def _put(self, command: GraphicsCommand, raster: Raster) -> None:
        if command.number("U"):
            raise PictureError("placeholders are not supported here")
        part = raster.crop(*(command.number(key) for key in "xywh"))
        number = command.number("i") or command.number("I") or ANONYMOUS
        size = CellSize(command.number("c"), command.number("r"))
        self._draw(lambda: part, size, number=number, moves=command.number("C") != 1)

    def _delete(self, command: GraphicsCommand) -> None:
        """Erase all pictures (d=a), or one by its number (d=i, d=n); capitals forget it too."""
        which = command.keys.get("d", "a")
        number = None if which in "aA" else command.number("i") or command.number("I")
        if which not in "aAiInN":
            return
        self._placed.erase(number)
        if which.isupper():
            self._store.drop(number)

    # iTerm2

    def take_file(self, rest: str) -> None:
        """Draw a file, or take a part of one (OSC 1337); what is none is ignored."""
        name, _, value = rest.partition("=")
        try:
            match name:
                case "File":
                    options, _, payload = value.partition(":")
                    file = _InlineFile.begin(options)
                    file.pieces.add(payload)
                    self._show_file(file)
                case "MultipartFile":
                    self._file = _InlineFile.begin(value)
                case "FilePart" if self._file is not None:
                    self._file.pieces.add(value)
                case "FileEnd" if self._file is not None:
                    file, self._file = self._file, None
                    self._show_file(file)
                case _:
                    pass
        except PictureError as error:
            self._file = None
            self.refuse(str(error))

    def _show_file(self, file: _InlineFile) -> None:
        options = file.options
        if options.get("inline") != "1":
            return  # a download, which nobody asked for
        room = self._placed.columns_left()
        wide = _cells(options.get("width", "auto"), room, CELL_WIDTH)
        high = _cells(options.get("height", "auto"), self._screen.lines, CELL_HEIGHT)

        def decode() -> Raster:
            data = file.pieces.data()
            if not data.startswith(SIGNATURE):
                kind = next((name for start, name in _FORMATS.items() if data.startswith(start)), "this format")
                raise PictureError(f"{kind} cannot be drawn here, PNG can")
            return decode_png(data)

        keeps_form = options.get("preserveAspectRatio") != "0"
        moves = options.get("doNotMoveCursor") != "1"
        self._draw(decode, CellSize(wide, high), moves=moves, inside=keeps_form)

    def _draw(
        self, decode: Callable[[], Raster], size: CellSize, *, number: int = 0, moves: bool = True, inside: bool = False
    ) -> None:
        """Decode a picture with the screen unlocked, and place it.

        Args:
            decode: Returns the pixels.
            size: The cells asked for.
            number: The picture's number, 0 for none.
            moves: Whether the cursor moves behind it.
            inside: Whether the picture keeps its form in the cells asked for.
        """
        columns = self._placed.columns_left()
        with self.unlocked():
            raster = decode()
            if inside and size.columns and size.lines:
                too_wide = raster.width * 2 * size.lines > raster.height * size.columns
                size = CellSize(size.columns) if too_wide else CellSize(lines=size.lines)
            rows = self._rows(raster, *size.fitted(raster, columns), number)
        self._placed.place(rows, moves=moves)

    def _rows(self, raster: Raster, columns: int, halves: int, number: int) -> list[ScreenRow]:
        """Return the lines of a picture, drawn by the outer terminal where it can."""
        outer = self.outer.hand_on(raster, columns, -(-halves // 2)) if self.outer is not None else 0
        if outer:
            return placeholder_rows(columns, halves, outer, self._screen.clusters, number)
        return picture_rows(raster, columns, halves, number)


@dataclass
class _InlineFile:
    """A file of iTerm2's protocol: what is said of it, and what came of it."""

    options: dict[str, str]
    pieces: Pieces

    @classmethod
    def begin(cls, text: str) -> _InlineFile:
        items = (item.partition("=") for item in text[:1_024].split(";"))
        return cls({name: value for name, _, value in items}, Pieces())


def _cells(text: str, room: int, cell: int) -> int:
    """Return a width or height as cells; 0 for `auto` and what is none."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        return 0
    count = int(match[1])
    if match[2] == "%":
        return max(1, room * min(count, 100) // 100)
    return -(-count // cell) if match[2] else count
