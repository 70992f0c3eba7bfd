"""Find every command a line might run, for deny and ask rules.

Finding more than bash would run is harmless here (a deny rule may then match a line that only looks alike); finding
less is not, so unreadable text is also split at everything that separates commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ollm_tui.core.base.escape import visible
from ollm_tui.core.policy.shell.program_table import program_key, tables
from ollm_tui.core.policy.shell.risky_options import risky_options, takes_commands
from ollm_tui.core.policy.shell.tree_sitter_reader import commands_anywhere, parse
from ollm_tui.core.policy.shell.words import SimpleCommand, Word, command_of, literal_word
from ollm_tui.core.policy.shell.wrappers import inside, may_run_others, reads_commands

if TYPE_CHECKING:
    from tree_sitter import Tree


MAX_LITERALS = 20
"""Strings of one piece of code that are tried as the beginning of a command."""

_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_CODE_IN_SETTING = re.compile(
    r"(?:[\w.-]*[._])?(?:pager(?:\.[\w-]+)?|editor|visual|browser|command|askpass|shell|rsh|ssh|sshcommand|external(?:_diff)?"
    r"|textconv|fsmonitor|cmd|driver|helper|program|clean|smudge|process|uploadpack|receivepack|gitproxy|difffilter|wrapper"
    r"|lessopen|lessclose|ps[0-4]|config_value_[0-9]+|cc|cxx|ld)\+?=(.*)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
"""Variables and git settings whose value is run as a command (`GIT_PAGER`, `PROMPT_COMMAND`, `core.sshCommand`)."""

_SETS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)
_LITERAL = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`([^`]*)`", re.DOTALL)
_RUNNING = re.compile(r"(?:!|\b(?:shell|spawn|exec|system|pipe|qx)\b)[\s({\[/|]*([^\n]+)")


def commands_in_settings(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield commands put into variables or settings: `X=CMD prog`, `export`, `env`, `git -c`."""
    key = program_key(argv[0])
    known = tables()
    wrapper, flagged = known.wrappers.get(key), known.flagged.get(key)
    if key == "git":
        settings = [*argv[1:], *map("=".join, pairwise(argv[1:]))]  # also `git config KEY VALUE`
    elif key in _DECLARING or (wrapper and wrapper.assignments) or (flagged and flagged.assigned):
        settings = list(argv[1:])
    elif _SETS.match(argv[0]):
        settings = list(argv)
    else:
        return
    for setting in settings:
        found = _CODE_IN_SETTING.match(setting)
        if found is not None and found[1]:
            yield found[1].strip("\"'")


def commands_in_code(code: str) -> Iterator[str]:
    """Yield what code in another language may pass to a shell.

    Its strings, and what follows `!`, `shell`, `exec`.
    """
    literals = [found[found.lastindex or 0] for found in _LITERAL.finditer(code)][:MAX_LITERALS]
    yield from literals
    yield from (" ".join(literals[start:]) for start in range(len(literals) - 1))
    yield from _RUNNING.findall(code)


MAX_DEPTH = 6
"""Levels of lines within lines (`bash -c "bash -c ..."`) that are followed."""

_EVALUATING = frozenset(
    {
        "test", "[", "let", "printf", "read", "declare", "typeset", "local", "export", "readonly", "unset", "mapfile",
        "readarray", "getopts", "wait",
    }
)  # fmt: skip
"""Builtins that evaluate the subscript of an array they are given, quoted or not: `test -v 'a[$(cmd)]'`."""

MAX_COMMANDS = 5_000
"""Commands listed for one line; what has more is marked as incomplete."""

MAX_SHOWN = 80
"""Characters of a command in a reason."""

MAX_TEXTS = 300
"""Texts behind options that are looked into; a line with more counts as incomplete."""

_MAX_PARSED = 8_000
_TORN = re.compile(r"[;&|\n(){}`]+")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_BACKTICKS = re.compile(r"`([^`]*)`")
_NOTHING = re.compile(r"\$(?:[@*1-9]|\{[@*1-9]\})|\\\n")
_SEPARATOR = re.compile(r"\$IFS\b|\$\{IFS[^}]*\}")
_QUOTES = re.compile(r"\$?\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\\(.)", re.DOTALL)
_WITH_OTHER_LANGUAGES = frozenset({"gdb", "lldb", "expect", "osascript"})
"""Wrappers whose command line is not the shell's."""

_PRINTING = frozenset({"echo", "printf"})
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[.*\])?\+?=", re.ASCII | re.DOTALL)
_WORDS = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\]|[\"'\\])+", re.DOTALL)
_REDIRECTION = re.compile(r"\A[0-9]*(?:&>>?|[<>]+[&|]?)")


class NestedCommands(NamedTuple):
    """Commands found; `incomplete` where there are more or deeper ones.

    `unnamed` is a program whose name is known only at run time: `$X`, `$(cmd)`, or what is piped into a shell.
    """

    found: tuple[SimpleCommand, ...]
    incomplete: bool
    unnamed: str = ""


def every_command(
    line: str, tree: Tree | None, parts: tuple[SimpleCommand, ...], *, torn: bool = False
) -> NestedCommands:
    """Return the parts and every command within them.

    With `tree`, also all commands of the tree; with `torn`, also the text split at separators.
    """
    search = _Search()
    for part in parts:
        search.take(part, 0)
        if part.reasons and any(word.obstacle for word in part.words):  # a plain one has no such word
            search.take(_loosely([word.raw for word in part.words], part.source), 0)
    if tree is not None:
        search.tree(tree, line, 0)
    if tree is not None and "\\\n" in line:
        search.line(line.replace("\\\n", ""), 0)
    if torn:
        search.torn(line, 0)
    search.look_at_what_shells_are_fed()
    return search.commands()


def commands_in_options(commands: tuple[SimpleCommand, ...]) -> NestedCommands:
    """Return what options and operands would run: `git rebase -x CMD`, `awk '{system(...)}'`."""
    search = _Search()
    for command in commands:
        for text in _texts_behind(command):
            if len(search.lines_seen) >= MAX_TEXTS:
                return search.commands()._replace(incomplete=True)
            search.line(text, 1)
    return search.commands()


def _texts_behind(command: SimpleCommand) -> Iterator[str]:
    argv = command.argv
    yield from commands_in_settings(argv)
    if program_key(argv[0]) in _WITH_OTHER_LANGUAGES:
        for text in inside(command).lines:
            yield from commands_in_code(text)
    if argv[0] in _EVALUATING:
        yield from (f'echo "{word}"' for word in argv[1:] if "$(" in word or "`" in word)
    first = True
    for flag in risky_options(command):
        runs = flag.effect not in ("writes", "deletes", "sends", "loads")
        for word in argv[flag.index : flag.end + 1]:
            for value in dict.fromkeys((word, word.partition("=")[2], word.rpartition("=")[2])):
                if runs or value.startswith("!"):  # `git -c alias.x='!CMD'`
                    yield value.lstrip("!")
                if runs:
                    yield from commands_in_code(value)
        if runs and first:
            first = False
            yield " ".join(argv[flag.index + 1 :])


class _Search:
    """Collects commands by canonical text, in the order found."""

    def __init__(self) -> None:
        self.found: dict[str, SimpleCommand] = {}
        self.incomplete = False
        self.lines_seen: set[str] = set()
        self.reads_input = False
        self.printed: list[str] = []
        self.unnamed = ""
        self.fed = False
        self.outer: list[SimpleCommand] = []

    def commands(self) -> NestedCommands:
        return NestedCommands(tuple(self.found.values()), self.incomplete, self.unnamed)

    def look_at_what_shells_are_fed(self) -> None:
        """Note a shell that reads what other programs print: `curl ... | sh`."""
        if not self.reads_input or self.fed or self.unnamed:
            return
        printing = [each.name in _PRINTING for each in self.outer if not reads_commands(each.argv)]
        if not (printing and all(printing)):
            self.unnamed = "a shell that reads commands from its input"

    def take(self, command: SimpleCommand, depth: int) -> None:
        if not command.words:
            return
        if len(self.found) >= MAX_COMMANDS:
            self.incomplete = True
            return
        text = command.text
        if text in self.found:
            return
        self.found[text] = command
        if depth == 0:
            self.outer.append(command)
        argv = command.argv
        name = argv[0]
        if not self.unnamed and _says_nothing(name) and not _SETTING.match(name):
            self.unnamed = visible(command.source or name)[:MAX_SHOWN]
        if self.reads_input or may_run_others(name):  # most commands: nothing inside, nothing that another would read
            self._take_inner(command, depth)

    def _take_inner(self, command: SimpleCommand, depth: int) -> None:
        argv = command.argv
        if argv[0] in _PRINTING:
            self.printed += [" ".join(argv[1:]), *[word for word in argv[1:] if " " in word]]
        if reads_commands(argv):
            self.reads_input = True
        if self.reads_input and self.printed:
            # `echo rm -rf x | sh`: what is printed is run
            printed, self.printed = self.printed, []
            for printed_line in printed:
                self.line(printed_line, depth + 1)
        within = inside(command)
        if depth >= MAX_DEPTH:
            self.incomplete = self.incomplete or bool(within.argvs or within.lines)
            return
        for inner in within.argvs:
            self.take(command_of(inner), depth + 1)
        for inner_line in within.lines:
            self.line(inner_line, depth + 1)

    def line(self, line: str, depth: int) -> None:
        """Search a text as a command line of its own."""
        if not line.strip() or line in self.lines_seen:
            return
        if depth > MAX_DEPTH:
            self.incomplete = True
            return
        self.lines_seen.add(line)
        if len(line) > _MAX_PARSED:
            self.torn(line, depth)
            return
        tree = parse(line)
        self.tree(tree, line, depth)
        if tree.root_node.has_error:
            self.torn(line, depth)

    def tree(self, tree: Tree, line: str, depth: int) -> None:
        for found in commands_anywhere(tree, line, MAX_COMMANDS):
            command = _loosely(list(found.words), found.source)
            self.take(command, depth)
            for fed in found.fed:
                for substituted in _BACKTICKS.findall(fed):
                    self.line(substituted, depth + 1)
                if takes_commands(command):
                    for text in commands_in_code(fed):
                        self.line(text, depth + 1)
                if reads_commands(command.argv):
                    self.fed = True
                    self.line(_unquoted(fed) if fed[:1] in "'\"$" else fed, depth + 1)

    def torn(self, line: str, depth: int) -> None:
        for piece in dict.fromkeys(_TORN.split(line)):
            if len(self.found) >= MAX_COMMANDS:
                self.incomplete = True
                break
            words = _WORDS.findall(piece)
            while words and _REDIRECTION.match(words[0]):
                del words[0]
            if words:
                self.take(_loosely(words, piece.strip()), depth)


@lru_cache(maxsize=4096)
def _says_nothing(name: str) -> bool:
    """Return whether the program is known only at run time: `$X`, `$(cmd)`, `r?`."""
    behind = max(map(name.rfind, ")}`")) + 1 if "$" in name or "`" in name else 0
    _, slash, last = name[behind:].rpartition("/")
    if behind and not (slash and last):
        return True
    return name == "{}" or any(char in last for char in "$`*?") or "]" in last.partition("[")[2]


def _loosely(raw_words: list[str], source: str) -> SimpleCommand:
    """Return the words as bash would most likely see them, unquoted."""
    words: list[Word] = []
    for raw in raw_words:
        if "$IFS" in raw or "${IFS" in raw:
            words.extend(literal_word(piece) for piece in _unquoted(_SEPARATOR.sub(" ", raw)).split())
        elif not words and raw.startswith("{") and raw.endswith("}") and "," in raw:
            words.extend(literal_word(_unquoted(piece)) for piece in raw[1:-1].split(","))
        else:
            words.append(literal_word(_unquoted(raw)))
    return SimpleCommand(tuple(words), source)


def _unquoted(raw: str) -> str:
    if "\\" not in raw and "'" not in raw and '"' not in raw and "$" not in raw:
        return raw
    text = _ANSI.sub(lambda match: "'" + _ANSI_ESCAPE.sub(_ansi_character, match[1]).replace("'", "") + "'", raw)
    text = _NOTHING.sub("", text)
    return _QUOTES.sub(lambda match: next((group for group in match.groups() if group is not None), ""), text)


def _ansi_character(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    code = int(hexadecimal, 16) if hexadecimal else int(match[4], 8) if match[4] else None
    if code is None:
        return _ANSI_LETTERS.get(match[5], match[5])
    return chr(code) if code < 0x110000 else ""
