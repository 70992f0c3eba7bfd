"""The words of a simple command as bash sees them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, overload

_Value = TypeVar("_Value")

RESERVED_WORDS = frozenset(
    {
        "!", "[[", "]]", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
        "in", "select", "then", "until", "while",
    }
)  # fmt: skip
"""Words bash reads as grammar where a command may begin; `time` and `coproc` are judged as wrappers instead."""

MANAGED_VARIABLES = re.compile(
    r"_\Z|IFS\Z|REPLY\Z|COMP|BASH|FUNCNAME\Z|MAPFILE\Z|OPT|PIPESTATUS\Z|GROUPS\Z|HIST|PS[0-4]\Z"
)
"""Names whose value the line itself determines: `$_` is the last word, `$BASH_EXECUTION_STRING` the whole line."""

DIRECTORY_VARIABLES = frozenset({"PWD", "OLDPWD", "DIRSTACK"})
"""One word when quoted; unquoted, a directory called `a -delete` turns into an option."""

_UNQUOTED = re.compile(r"[A-Za-z0-9_@%+=:,./^\-](?:[A-Za-z0-9_@%+=:,./^!#\-]|(?<![=:])~|\{\w*\})*|\{\}", re.ASCII)
_SIMPLE = re.compile(rf"(?:{_UNQUOTED.pattern})(?=[ \t\n;|&()<>]|\Z)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\+?=|\[)", re.ASCII)
_TILDE = re.compile(r"(?:\A|[=:])~")
_SAFE_PIECE = re.compile(r"[A-Za-z0-9_@%+=:,./-]*", re.ASCII)
_LITERAL_RUN = re.compile(r"[A-Za-z0-9_@%+=:,./^~!#{}\]\-\x80-\U0010ffff]+")
_DOUBLE_RUN = re.compile(r'[^"$`\\]+')
_PLAIN_DOLLAR_UNQUOTED = re.compile(r"\$(?=[ \t\n;|&)]|\Z)")
_PLAIN_DOLLAR_QUOTED = re.compile(r'\$(?=["\s|/).,:;%&=+<>\]])')
_ENDS_WORD = frozenset(" \t\n;|&()<>")


class Word(NamedTuple):
    """One word of a command.

    `text` is its value with `$NAME` and globs unexpanded, `shown` a spelling bash reads as the same word, `start` and
    `end` its span. `variable` and `glob` say what may still expand; `obstacle` why it is not plain.
    """

    text: str
    shown: str
    start: int = 0
    end: int = 0
    variable: bool = False
    glob: bool = False
    obstacle: str = ""
    raw: str = ""

    @property
    def literal(self) -> bool:
        """Whether bash passes exactly `text`."""
        return not (self.variable or self.glob or self.obstacle)

    @property
    def assignment(self) -> bool:
        """Whether it sets a variable, before the program's name."""
        raw = self.raw
        return ("=" in raw or "[" in raw) and _ASSIGNMENT.match(raw) is not None


def plain_word_at(text: str, start: int, end: int) -> Word:
    """Return a word that bash reads as just these characters (built as a tuple for speed)."""
    return Word._make((text, text, start, end, False, False, "", text))


class UnreadableWordError(ValueError):
    """The word has something this reader does not understand."""


def quoted(value: str) -> str:
    """Return a spelling of `value` that bash reads as one literal word."""
    if _UNQUOTED.fullmatch(value) or value in ("[", "]"):  # one bracket alone is no pattern
        return value
    return "'" + value.replace("'", "'\\''") + "'"


def literal_word(value: str) -> Word:
    """Return a word for `value` as it is."""
    shown = quoted(value)
    return Word(value, shown, 0, 0, raw=shown)


class LazyProperty(Generic[_Value]):
    """A property computed once: `functools.cached_property` without its lock, most of its cost.

    Two threads may both compute it, with the same result.
    """

    def __init__(self, compute: Callable[[Any], _Value]) -> None:  # Any: the class it is used in, not known here
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> LazyProperty[_Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _Value: ...

    def __get__(self, instance: object | None, owner: type) -> LazyProperty[_Value] | _Value:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


@dataclass(frozen=True)
class SimpleCommand:
    """A program and its words, without redirections.

    `reasons` says why it can never be allowed by itself (empty if plain); `source` is its spelling in the line.
    """

    words: tuple[Word, ...]
    source: str = ""
    reasons: tuple[str, ...] = ()

    @LazyProperty
    def argv(self) -> tuple[str, ...]:
        """Return the words without quotes; `$NAME` and globs unexpanded."""
        return tuple([word.text for word in self.words])

    @property
    def name(self) -> str:
        """The program as written, or an empty string."""
        return self.words[0].text if self.words else ""

    @LazyProperty
    def text(self) -> str:
        """Return the canonical spelling, the same for every quoting and spacing."""
        if not self.words:
            return ""
        first = self.words[0]
        name = first.shown
        if first.literal and (name in RESERVED_WORDS or _ASSIGNMENT.match(name)):
            name = f"'{name}'"
        return " ".join([name, *[word.shown for word in self.words[1:]]])

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """Every text deny and ask rules are tried on."""
        plain = " ".join(self.argv)
        found = dict.fromkeys((self.text, plain))
        if "/" in self.name:
            base = self.name.rsplit("/", 1)[1]
            found[" ".join([base, *self.argv[1:]])] = None
            found[" ".join([quoted(base), *[word.shown for word in self.words[1:]]])] = None
        if self.source:
            found[self.source] = None
        return tuple(found)

    @property
    def plain(self) -> bool:
        """Whether all words are plain and the program is named literally."""
        return not self.reasons


def command_of(argv: tuple[str, ...] | list[str]) -> SimpleCommand:
    """Return a command of literal words."""
    words = tuple([literal_word(value) for value in argv])
    return SimpleCommand(words, " ".join([word.shown for word in words]))


def read_word(line: str, start: int) -> Word:
    """Read the word at `start` by bash's quoting rules; raises UnreadableWordError outside the plain subset."""
    simple = _SIMPLE.match(line, start)
    if simple is not None:
        text = simple[0]
        return plain_word_at(text, start, simple.end())
    run = _LITERAL_RUN.match(line, start)
    if run is not None:
        end = run.end()
        if end == len(line) or line[end] in _ENDS_WORD:
            text = run[0]
            obstacle = _expansion_in(text)
            return Word(text, text if obstacle else quoted(text), start, end, False, False, obstacle, text)
    return _WordReader(line, start).read()


class _WordReader:
    """Reads a word with quotes, escapes, variables or globs piece by piece."""

    def __init__(self, line: str, start: int) -> None:
        self.line = line
        self.start = start
        self.position = start
        self.value: list[str] = []
        self.shown: list[str] = []
        self.pending: list[str] = []  # literal text not yet in `shown`: adjacent pieces get one spelling
        self.skeleton: list[str] = []  # unquoted characters as they are, quoted ones as "\0": what expansion can see
        self.variable = False
        self.glob = False
        self.empty_quotes = False
        self.bare_dollar = False
        self.obstacle = ""

    def read(self) -> Word:
        line, length = self.line, len(self.line)
        while self.position < length:
            char = line[self.position]
            if char in _ENDS_WORD:
                break
            if char == "'":
                self._single_quoted()
            elif char == '"':
                self._double_quoted()
            elif char == "\\":
                self._escaped()
            elif char == "$":
                self._dollar(quoted_variable=False)
            elif char in "*?[":
                self.glob = True
                self._take_special(char, char)
                self.skeleton.append(char)
                self.position += 1
            else:
                run = _LITERAL_RUN.match(line, self.position)
                if run is None:
                    raise UnreadableWordError("a command substitution" if char == "`" else f"the character {char!r}")
                self._take(run[0], run[0])
                self.position = run.end()
        return self._word()

    def _word(self) -> Word:
        text = "".join(self.value)
        raw = self.line[self.start : self.position]
        if self.bare_dollar and self.variable:
            # bash 5.2 does not split `$V"b c"$` as it splits `$V"b c"`
            self.obstacle = "a variable beside a bare $"
        self.glob = self.glob and raw != "["
        obstacle = self.obstacle or _expansion_in("".join(self.skeleton))
        if obstacle:
            shown = raw
        elif self.variable or self.glob:
            self._flush()
            shown = "".join(self.shown)
            if self.empty_quotes and shown[0] == "$":
                # `''$x` stays a word when $x is empty, `$x` does not
                shown = "''" + shown
        else:
            shown = quoted(text)
        return Word(text, shown, self.start, self.position, self.variable, self.glob, obstacle, raw)

    def _take(self, text: str, seen: str) -> None:
        """Add literal text; `seen` is what expansion sees of it."""
        self.value.append(text)
        self.pending.append(text)
        self.skeleton.append(seen)

    def _take_quoted(self, text: str) -> None:
        self.empty_quotes = self.empty_quotes or not text
        self._take(text, "\0")

    def _take_special(self, text: str, shown: str) -> None:
        """Add a variable or a glob character."""
        self._flush()
        self.value.append(text)
        self.shown.append(shown)

    def _flush(self) -> None:
        """Spell the pending text; a letter behind a bare `$NAME` is quoted, or it would join the name."""
        text = "".join(self.pending)
        self.pending.clear()
        if not text:
            return
        lengthens = self.shown and self.shown[-1][0] == "$" and (text[0].isalnum() or text[0] == "_")
        safe = _SAFE_PIECE.fullmatch(text) and not lengthens
        self.shown.append(text if safe else "'" + text.replace("'", "'\\''") + "'")

    def _single_quoted(self) -> None:
        end = self.line.find("'", self.position + 1)
        if end < 0:
            raise UnreadableWordError("a quote that is never closed")
        self._take_quoted(self.line[self.position + 1 : end])
        self.position = end + 1

    def _escaped(self) -> None:
        following = self.line[self.position + 1 : self.position + 2]
        if following in ("", "\n"):
            raise UnreadableWordError("a line continuation inside a word")
        self._take_quoted(following)
        self.position += 2

    def _double_quoted(self) -> None:
        self.position += 1
        line, length = self.line, len(self.line)
        literal: list[str] = []
        while True:
            if self.position >= length:
                raise UnreadableWordError("a quote that is never closed")
            char = line[self.position]
            if char == '"':
                break
            if char == "\\":
                following = line[self.position + 1 : self.position + 2]
                if following in ("", "\n"):
                    raise UnreadableWordError("a line continuation inside quotes")
                literal.append(following if following in '$`"\\' else "\\" + following)
                self.position += 2
            elif char == "$":
                if _PLAIN_DOLLAR_QUOTED.match(line, self.position):
                    literal.append("$")
                    self.position += 1
                else:
                    if literal:
                        self._take_quoted("".join(literal))
                        literal.clear()
                    self._dollar(quoted_variable=True)
            elif char == "`":
                raise UnreadableWordError("a command substitution")
            else:
                run = _DOUBLE_RUN.match(line, self.position)
                assert run is not None
                literal.append(run[0])
                self.position = run.end()
        if literal or line[self.position - 1] == '"':
            self._take_quoted("".join(literal))
        self.position += 1

    def _dollar(self, *, quoted_variable: bool) -> None:
        line, position = self.line, self.position
        name = _NAME.match(line, position + 1)
        if name is None:
            if not quoted_variable and _PLAIN_DOLLAR_UNQUOTED.match(line, position):
                self._take_quoted("$")
                self.bare_dollar = True
                self.position += 1
                return
            raise UnreadableWordError(_dollar_kind(line[position + 1 : position + 3]))
        if line[name.end() : name.end() + 1] == "[":
            # bash reads `$a[0]` as $a and a pattern, but other readers disagree on it
            raise UnreadableWordError("an array element")
        variable = name[0]
        if MANAGED_VARIABLES.match(variable) or (variable in DIRECTORY_VARIABLES and not quoted_variable):
            self.obstacle = f"${variable}, whose value depends on the line itself"
        self.variable = True
        self._take_special(f"${variable}", f'"${variable}"' if quoted_variable else f"${variable}")
        self.skeleton.append("\0")
        self.position = name.end()


def _dollar_kind(following: str) -> str:
    match following[:1]:
        case "(":
            return "arithmetic" if following == "((" else "a command substitution"
        case "{":
            return "a parameter expansion ${...}"
        case "[":
            return "arithmetic"
        case "'" | '"':
            return "a $'...' or $\"...\" string"
        case _:
            return "a special parameter"


def _expansion_in(skeleton: str) -> str:
    """Return why unquoted characters of a word would expand, or an empty string."""
    if "~" in skeleton and _TILDE.search(skeleton):
        return "a tilde expansion"
    if "{" in skeleton and ("," in skeleton or ".." in skeleton or "\0" in skeleton):
        return "a brace expansion"
    return ""
