"""What conditions compare: values as text, and regular expressions that never backtrack (000 Property 35)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

_LARGEST_EXACT = 2**53
"""Up to here every integer is a JavaScript number."""


@dataclass
class PatternUnion:
    """All expressions that neighbouring rules have for a parameter: where none can match, one look says so.

    It only ever saves work: what it does not rule out is still tried by each expression itself.
    """

    patterns: list[str] = field(default_factory=list[str])
    _whole: LinearPattern | None = None
    _last: tuple[str, bool] = ("", False)

    def misses(self, text: str) -> bool:
        """Whether none of the expressions matches the text."""
        if len(self.patterns) < 2:
            return False
        known, missed = self._last
        if text == known and self._whole is not None:
            return missed
        if self._whole is None:
            self._whole = self._joined()
        missed = self._whole.search(searchable(text)) is None
        self._last = (text, missed)
        return missed

    def _joined(self) -> LinearPattern:
        """One expression for all; where they can not stand together (a `\\Q` left open, two groups of one name, too
        much at once) one that rules nothing out."""
        try:
            if not any(r"\Q" in pattern for pattern in self.patterns):
                return linear_pattern("|".join(f"(?:{pattern})" for pattern in self.patterns))
        except ValueError:
            pass
        return LinearPattern(lambda subject: (subject,))


@dataclass(frozen=True)
class LinearPattern:
    """A regular expression on an engine that never backtracks; it searches what `searchable` returns."""

    search: Callable[[bytes], object | None]


def linear_pattern(pattern: str) -> LinearPattern:
    """Compile with RE2, quietly: it would write its complaints over the screen. Raises ValueError."""
    import re2  # it is large, and few policies have an expression

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern.encode(), options=options)
    except UnicodeEncodeError:
        raise ValueError(f"the regular expression {pattern!r} holds half of a surrogate pair") from None
    except re2.error as error:
        raised: object = error.args[0] if error.args else ""
        reason = raised.decode(errors="replace") if isinstance(raised, bytes) else str(raised)
        raise ValueError(
            f"the regular expression {pattern!r} does not compile: {reason} (RE2: no look-around, no back-references)"
        ) from None
    return LinearPattern(compiled.search)


def searchable(text: str) -> bytes:
    """Text as `LinearPattern` searches it; a lone surrogate (a file name that is not UTF-8) stands as `?`."""
    return text.encode("utf-8", "replace")


def js_string(value: JsonValue) -> str:
    """A scalar as JavaScript's `String()` prints it, so that rules written for the seeds' system mean the same."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int() if abs(value) <= _LARGEST_EXACT:
            return str(value)
        case int() | float():
            return _js_number(value)
        case _:
            return str(value)


def _js_number(value: float) -> str:
    """ECMAScript's Number::toString: the shortest digits that read back, in exponents from 1e21 up and below 1e-6."""
    try:
        value = float(value)
    except OverflowError:
        value = float("inf") if value > 0 else float("-inf")
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    sign, shown = ("-", repr(-value)) if value < 0 else ("", repr(value))
    mantissa, _, exponent = shown.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction if fraction != "0" else ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        text = digits.ljust(point, "0")
        return sign + (text if len(digits) <= point else f"{digits[:point]}.{digits[point:]}")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"e{point - 1:+d}"
    return sign + (digits + power if len(digits) == 1 else f"{digits[0]}.{digits[1:]}{power}")
