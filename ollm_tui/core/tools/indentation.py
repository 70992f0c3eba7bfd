"""Carrying a replacement over to the indentation that a file uses, where a model wrote another (contract section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


def indent_of(line: str) -> str:
    """The blanks that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True)
class Reindent:
    """How the indents of a target become those of the lines it was found at."""

    known: dict[str, str]
    """Indents of the target's lines, and what they are in the file."""
    shift: tuple[str, str] | None
    """What to take off the front and what to put there, where that explains all the known ones."""
    scale: Fraction | None
    """File characters for each character of the target's indent, where that explains all the known ones."""
    unit: str
    """The character that the file indents with."""

    @staticmethod
    def between(target: Sequence[str], there: Sequence[str]) -> Reindent | None:
        """None where one indent of the target would have to become two: then the structure differs, not the style."""
        known: dict[str, str] = {}
        for one, other in zip(target, there, strict=True):
            if one.strip() and known.setdefault(indent_of(one), indent_of(other)) != indent_of(other):
                return None
        if len(set(known.values())) < len(known):
            return None
        unit = "\t" if any("\t" in indent for indent in known.values()) else " "
        return Reindent(known, _common_shift(known), _common_scale(known), unit)

    def apply(self, replacement: str) -> str:
        """The replacement as the file would indent it; blank lines stay as they are."""
        return "\n".join(map(self._line, replacement.split("\n")))

    def _line(self, line: str) -> str:
        if not line.strip():
            return line
        indent = indent_of(line)
        return self._indent(indent) + line[len(indent) :]

    def _indent(self, indent: str) -> str:
        if indent in self.known:
            return self.known[indent]
        if self.shift is not None:
            off, on = self.shift
            return on + indent[len(off) :] if indent.startswith(off) else indent
        if self.scale is not None:
            return self.unit * round(len(indent) * self.scale)
        under = max((each for each in self.known if indent.startswith(each)), key=len, default=None)
        return indent if under is None else self.known[under] + indent[len(under) :]


def _common_shift(known: dict[str, str]) -> tuple[str, str] | None:
    """The same blanks more or fewer in front of every line."""
    shortest = min(known, key=len)
    here = known[shortest]
    for keep in range(min(len(shortest), len(here)), -1, -1):
        off, on = shortest[: len(shortest) - keep], here[: len(here) - keep]
        if shortest[len(off) :] == here[len(on) :] and (not off or not on) and _explains(known, off, on):
            return off, on
    return None


def _explains(known: dict[str, str], off: str, on: str) -> bool:
    return all(one.startswith(off) and on + one[len(off) :] == other for one, other in known.items())


def _common_scale(known: dict[str, str]) -> Fraction | None:
    """Another width of a level, or tabs for spaces."""
    pairs = [(one, other) for one, other in known.items() if one or other]
    if not all(one and other and len(set(one)) == len(set(other)) == 1 for one, other in pairs):
        return None
    scales = {Fraction(len(other), len(one)) for one, other in pairs}
    return scales.pop() if len(scales) == 1 else None
