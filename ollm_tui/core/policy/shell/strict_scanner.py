"""The strict reader of command lines: a small subset of bash's grammar."""

from __future__ import annotations

import re

from ollm_tui.core.policy.shell.words import (
    RESERVED_WORDS,
    SimpleCommand,
    UnreadableWordError,
    Word,
    plain_word_at,
    quoted,
    read_word,
)

_BLANKS = re.compile(r"(?:[ \t]|(?<=[ \t])\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_REDIRECTION = re.compile(r"(?:&>>?|[0-9]*(?:<<<|<<-?|<>|<&|>>|>&|>\||>|<))")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&?|;&|[;|&\n()]")
_DESCRIPTOR_VARIABLE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}\Z", re.ASCII)

_PLAIN_TOKEN = re.compile(
    r"(--|[A-Za-z0-9_@%+=:,./-]+(?:(?<=[A-Za-z0-9_])~[A-Za-z0-9_@%+=:,./-]+)*(?<![=-]))(?:(?=[;|&]|\Z)| +)"
    r"|('[ -&(-~]*'|\"[ !#%-\[\]-_a-~]*\")(?:(?=[;|&]|\Z)| +)"
    r"|(&&|\|\|?(?!&)|;(?![;&])) *"
    r"|([012]?>(?:/dev/null|&[12]))(?:(?=[;|&]|\Z)| +)"
)
"""Whole words without anything that expands, whole quoted words, operators, and output thrown away."""
_WORD, _QUOTED, _SEPARATOR = 1, 2, 3

NULL_DEVICE = "/dev/null"


class Scan:
    """What the strict reader found; not `complete` where it gave up, `plain` where nothing could be read otherwise."""

    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.reasons: list[str] = []
        self.redirections: list[tuple[int, int]] = []
        self.file_targets: list[str] = []
        self.complete = False
        self.plain = False


def scan(line: str) -> Scan:
    """Split a line into simple commands; never raises."""
    return _plain_scan(line) or _strict_scan(line)


def _plain_scan(line: str) -> Scan | None:
    """Read a line of plain tokens alone, five times as fast as by characters; None for all others."""
    result = Scan()
    words: list[Word] = []
    position = 0
    separator = ""
    redirected = False
    for token in _PLAIN_TOKEN.finditer(line):
        kind = token.lastindex
        if token.start() != position or (redirected and kind in (_WORD, _QUOTED)):
            return None
        position = token.end()
        if kind == _WORD:
            text = token[1]
            if not words and (text in RESERVED_WORDS or "=" in text):
                return None
            start, end = token.span(1)
            words.append(plain_word_at(text, start, end))
        elif kind == _QUOTED:
            raw = token[2]
            start, end = token.span(2)
            words.append(Word(raw[1:-1], quoted(raw[1:-1]), start, end, False, False, "", raw))
        elif not words:
            return None
        elif kind == _SEPARATOR:
            separator = token[3]
            result.commands.append(SimpleCommand(tuple(words), line[words[0].start : words[-1].end]))
            words, redirected = [], False
        else:
            redirected = True
            result.redirections.append(token.span(4))
    if position != len(line) or not (words or separator == ";"):
        return None
    if words:
        result.commands.append(SimpleCommand(tuple(words), line[words[0].start : words[-1].end]))
    result.complete = result.plain = True
    return result


def _strict_scan(line: str) -> Scan:
    scanner = _Scanner(line)
    try:
        scanner.read()
    except UnreadableWordError as error:
        scanner.result.reasons.append(f"it holds {error}")
    else:
        scanner.result.complete = not scanner.broken
    return scanner.result


class _Scanner:
    """One pass from left to right over words, redirections, operators and groups."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.position = 0
        self.result = Scan()
        self.words: list[Word] = []
        self.redirected = False
        self.groups: list[str] = []
        self.after_group = False
        self.needs_command = False
        self.broken = False

    def read(self) -> None:
        line, length = self.line, len(self.line)
        while self.position < length and not self.broken:
            char = line[self.position]
            if char == " " and line[self.position + 1 : self.position + 2] not in " \t\\":
                self.position += 1
            elif char in " \t":
                blanks = _BLANKS.match(line, self.position)
                assert blanks is not None
                self.position = blanks.end()
            elif char == "#":
                comment = _COMMENT.match(line, self.position)
                assert comment is not None
                self.position = comment.end()
            elif char in "<>&0123456789" and (redirection := _REDIRECTION.match(line, self.position)):
                self._redirect(redirection[0], self.position, redirection.end())
            elif char in ";|&()\n":
                self._operator()
            else:
                self._word()
        if self.broken:
            return
        self._end_command()
        if self.groups:
            self._give_up("a group that is never closed")
        elif self.needs_command:
            self._give_up("an operator with no command behind it")

    def _word(self) -> None:
        word = read_word(self.line, self.position)
        self.position = word.end
        if not self.words and word.raw in RESERVED_WORDS and self._reserved(word.raw):
            return
        if self.after_group:
            self._give_up("a word behind a group")
            return
        if (
            word.raw[-1] == "}"
            and self.line[word.end : word.end + 1] in ("<", ">")
            and _DESCRIPTOR_VARIABLE.match(word.raw)
        ):
            self.result.reasons.append("it stores a file descriptor in a variable")
        self.words.append(word)

    def _reserved(self, word: str) -> bool:
        """Handle grammar words; True when the word is used up."""
        if self.redirected or (self.after_group and word != "}"):
            self._give_up(f"the word {word} in an unexpected place")
        elif word == "!":
            self.needs_command = True
        elif word == "{":
            self.groups.append("}")
            self.needs_command = True
        elif word == "}":
            self._close("}")
        else:
            self._give_up(f"shell grammar ({word})")
        return True

    def _operator(self) -> None:
        match = _OPERATOR.match(self.line, self.position)
        assert match is not None
        operator = match[0]
        self.position = match.end()
        match operator:
            case "(":
                if self.words or self.redirected or self.after_group:
                    self._give_up("a function or an array")
                elif self.line[self.position : self.position + 1] == "(":
                    self._give_up("arithmetic")
                else:
                    self.groups.append(")")
                    self.needs_command = True
            case ")":
                self._end_command()
                self._close(")")
            case "\n":
                if self.words or self.redirected or self.after_group:
                    self._end_command()
            case ";" | "&&" | "||" | "|" | "|&" | "&":
                if not (self.words or self.redirected or self.after_group):
                    self._give_up("an operator with no command before it")
                    return
                self._end_command()
                self.needs_command = operator not in (";", "&")
                if operator == "&":
                    self.result.reasons.append("it leaves a command running in the background")
            case _:
                self._give_up(f"the operator {operator}")

    def _close(self, bracket: str) -> None:
        if not self.groups or self.groups.pop() != bracket or self.needs_command:
            self._give_up(f"an unexpected {bracket}")
            return
        self.after_group = True

    def _redirect(self, operator: str, start: int, end: int) -> None:
        blanks = _BLANKS.match(self.line, end)
        self.position = blanks.end() if blanks else end
        if operator.lstrip("0123456789").startswith("<<"):
            self._give_up("a here-document or here-string")
            return
        if self.position >= len(self.line) or self.line[self.position] in " \t\n;|&()<>":
            self._give_up("a redirection without a target")
            return
        target = read_word(self.line, self.position)
        self.position = target.end
        self.redirected = True
        self.result.redirections.append((start, target.end))
        bare = operator.lstrip("0123456789")
        if bare == ">&" and target.raw.isdigit() and target.raw.isascii():
            return
        if target.raw == NULL_DEVICE and bare in (">", ">>", "<", "&>", "&>>"):
            return
        self.result.file_targets.append(target.text)
        verb = "reads from" if bare.startswith("<") else "writes to"
        self.result.reasons.append(f"a redirection {verb} {target.shown}")

    def _end_command(self) -> None:
        if self.words:
            start, end = self.words[0].start, self.words[-1].end
            self.result.commands.append(SimpleCommand(tuple(self.words), self.line[start:end]))
            self.words = []
            self.needs_command = False
        elif self.redirected and not self.after_group:
            self.result.reasons.append("a redirection without a command")
            self.needs_command = False
        elif self.after_group:
            self.needs_command = False
        self.redirected = False
        self.after_group = False

    def _give_up(self, what: str) -> None:
        self.result.reasons.append(f"it holds {what}")
        self.broken = True
