"""Analyse command lines: simple commands, everything they may run, why a line is opaque.

Two readers must agree on every word before a line counts as understood: `strict_scanner` and tree-sitter. Whatever is
outside the plain subset makes the line opaque. Also looks for characters that make a line look like something else.
"""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ollm_tui.core.policy.shell.nested_commands import NestedCommands, commands_in_options, every_command
from ollm_tui.core.policy.shell.strict_scanner import Scan, scan
from ollm_tui.core.policy.shell.tree_sitter_reader import TreeReading, last_program_word, parse, read_tree
from ollm_tui.core.policy.shell.words import SimpleCommand, UnreadableWordError, read_word
from ollm_tui.core.policy.shell.wrappers import changes_state, is_wrapper

MAX_CHARACTERS = 8_000
"""Longer lines are not analysed for allowing (a limit on size, not on time, so that load never changes an answer)."""

MAX_OPERATORS = 400
"""More separators than this in a line: not analysed, since the parser needs quadratic time for long pipelines."""

MAX_REMEMBERED = 2_000
"""Characters of a line whose analysis is remembered."""

_OPERATORS = re.compile(r"[;&|\n(<`]")
_PLAIN_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")


@dataclass(frozen=True)
class ShellLine:
    """A command line as understood.

    `parts` are its simple commands; `opaque_reasons` say why it can never be allowed (empty if understood);
    `all_commands` adds every command found inside them, for deny and ask rules; `file_targets` are redirected files.
    Where `all_commands` is `incomplete` or a program `unnamed`, any deny rule denies the line.
    """

    source: str
    parts: tuple[SimpleCommand, ...] = ()
    opaque_reasons: tuple[str, ...] = ()
    all_commands: tuple[SimpleCommand, ...] = ()
    file_targets: tuple[str, ...] = ()
    incomplete: bool = False
    unnamed: str = ""

    @cached_property
    def commands_in_options(self) -> NestedCommands:
        """What words of the commands would run, for deny and ask rules."""
        return commands_in_options(self.all_commands)

    @property
    def opaque(self) -> bool:
        """Whether no rule, approval or shipped list may allow it."""
        return bool(self.opaque_reasons)

    @cached_property
    def reason(self) -> str:
        """Why it is opaque, or an empty string."""
        return "; ".join(self.opaque_reasons)


def analyse(line: str) -> ShellLine:
    """Analyse a command line; never raises.

    The last short lines are cached: a call asks several times, and only the text counts.
    """
    return _remembered(line) if len(line) <= MAX_REMEMBERED else analyse_uncached(line)


def analyse_uncached(line: str) -> ShellLine:
    """Analyse as `analyse`, without the cache."""
    reasons = list(deceptive_characters(line))
    if len(line) > MAX_CHARACTERS:
        reasons.append(f"it is longer than {MAX_CHARACTERS:,} characters")
    elif not line or line.isspace():
        return ShellLine(line, opaque_reasons=("it is empty",))
    if _too_large(line):
        if len(line) <= MAX_CHARACTERS:
            reasons.append(f"it has more than {MAX_OPERATORS} separators")
        found = every_command(line, None, (), torn=True)
        return ShellLine(line, found.found, tuple(reasons), found.found, (), found.incomplete, found.unnamed)
    strict = scan(line)
    if strict.plain and not reasons and all(_is_ordinary(command.words[0].raw) for command in strict.commands):
        return _understood(line, tuple(strict.commands))
    parts = tuple([_judged(command) for command in strict.commands])
    tree = parse(line)
    reading = read_tree(tree)
    reasons.extend(strict.reasons)
    agreed = False
    if strict.complete:
        if reading.obstacle:
            reasons.append(reading.obstacle)
        elif _agree(strict, reading):
            agreed = True
        else:
            reasons.append("two readers disagree about where its words end")
    if strict.complete and not parts:
        reasons.append("it holds no command")
    for part in parts:
        reasons.extend(part.reasons)
    targets = tuple(strict.file_targets)
    if agreed and not reasons:
        return _understood(line, parts)
    torn = tree.root_node.has_error or (strict.complete and not agreed)
    everything, incomplete, unnamed = every_command(line, tree, parts, torn=torn)
    unique = tuple(dict.fromkeys(reasons))
    return ShellLine(line, parts if agreed else everything, unique, everything, targets, incomplete, unnamed)


def _understood(line: str, parts: tuple[SimpleCommand, ...]) -> ShellLine:
    """Return a line that is opaque only where commands in it are nested too deeply."""
    everything, incomplete, unnamed = every_command(line, None, parts)
    reasons = ("it holds commands nested too deeply",) if incomplete else ()
    return ShellLine(line, parts, reasons, everything, (), incomplete, unnamed)


_remembered = lru_cache(maxsize=64)(analyse_uncached)


def clear_analyses() -> None:
    """Forget analysed lines; for measuring."""
    _remembered.cache_clear()


def last_program(line: str) -> str | None:
    """Return the program, without directory, that gives the exit code; None if unknown."""
    if _too_large(line):
        return None
    word = last_program_word(parse(line), line)
    if word is None or word in ("[", "[["):
        return word
    try:
        name = read_word(word, 0)
    except UnreadableWordError:
        return None
    return name.text.rpartition("/")[2] or None if name.literal else None


def bash_accepts(line: str, timeout: float = 2.0) -> bool:
    """Return whether bash finds the line well-formed (`bash -n`, about 2 ms).

    False when bash is missing, takes longer than `timeout` seconds or cannot be given the line.
    """
    if "\0" in line:
        return False
    try:
        done = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-n", "-c", "--", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"LC_ALL": "C.UTF-8"},
            timeout=timeout,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and not done.stderr


def _too_large(line: str) -> bool:
    many = len(line) > MAX_OPERATORS and len(_OPERATORS.findall(line)) > MAX_OPERATORS
    return many or len(line) > MAX_CHARACTERS


def _agree(strict: Scan, reading: TreeReading) -> bool:
    ours = [[(word.start, word.end) for word in command.words] for command in strict.commands]
    return ours == reading.commands and strict.redirections == reading.redirections


def _judged(command: SimpleCommand) -> SimpleCommand:
    """Return the command with everything that keeps it from being allowed."""
    first = command.words[0]
    reasons: list[str] = []
    if first.assignment:
        reasons.append(f"{first.raw} sets a variable")
    elif not first.literal or not first.text:
        reasons.append("the program is not named literally")
    for word in command.words:
        if word.obstacle:
            reasons.append(f"{word.raw} holds {word.obstacle}")
    argv = command.argv
    if not first.text.isascii():
        reasons.append("the program's name holds letters beyond ASCII")
    if is_wrapper(argv):
        reasons.append(f"{argv[0]} runs other commands")
    elif changes_state(argv):
        reasons.append(f"{argv[0]} changes what later commands mean")
    if not reasons:
        return command
    return SimpleCommand(command.words, command.source, tuple(reasons))


@lru_cache(maxsize=4096)
def _is_ordinary(program: str) -> bool:
    """Return whether a program spelled so can be judged by its name and words."""
    argv = (program,)
    plain = _PLAIN_PROGRAM.fullmatch(program) is not None and program != "printf"
    return plain and not is_wrapper(argv) and not changes_state(argv)


_UNUSUAL = re.compile(r"[^\t\n -~]")
_FOREIGN_WORD = re.compile(r"[^\W\d_]{2,}")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))
"""Drawn as nothing although their category says letter, mark or symbol."""

_DASHES = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d\u02d7\u058a\u1806")
_HARMLESS_COMPATIBILITY = frozenset("\u2026\u2122\u00aa\u00ba\u00b2\u00b3\u00b9\u2460")
"""Fold to ASCII, yet nobody reads them as shell syntax: ellipsis, trade mark, ordinals, superscripts."""

_REFUSED_CATEGORIES = {
    "Cc": "a control character",
    "Cf": "an invisible format character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
    "Zs": "a blank that is no space",
    "Cs": "half a surrogate pair",
    "Co": "a private-use character",
    "Cn": "an unassigned character",
}
_LOOK_ALIKE_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET")


def deceptive_characters(line: str) -> tuple[str, ...]:
    """Return why a line cannot be shown or read faithfully; empty for ordinary text."""
    if line.isascii() and line.isprintable():
        return ()
    unusual = set(_UNUSUAL.findall(line))
    if not unusual:
        return ()
    found: dict[str, None] = {}
    for char in sorted(unusual):
        deception = _deception_of(char)
        if deception:
            found[f"it holds {deception} (U+{ord(char):04X})"] = None
    if _has_leading_dash(line):
        found["it holds a dash that only looks like the start of an option"] = None
    for word in _FOREIGN_WORD.findall(line):
        if not word.isascii() and _mixes_scripts(word):
            found["a word mixes letters of scripts that look alike"] = None
            break
    return tuple(found)


def reads_bytes_alike(environment: Mapping[str, str]) -> bool:
    """Return whether a shell in this environment reads non-ASCII letters as judged.

    In an old multi-byte locale the last byte of a letter and a backslash behind it are one character, and the quote
    behind that ends what was judged as quoted.
    """
    locale = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or "C"
    return locale in ("C", "POSIX") or locale.lower().partition("@")[0].endswith((".utf-8", ".utf8"))


def _deception_of(char: str) -> str:
    refused = _REFUSED_CATEGORIES.get(unicodedata.category(char))
    if refused:
        return refused
    if char in _INVISIBLE:
        return "an invisible character"
    if char not in _HARMLESS_COMPATIBILITY:
        folded = unicodedata.normalize("NFKC", char)
        if folded != char and folded.isascii():
            return f"a character that looks like {folded!r}"
    return ""


def _has_leading_dash(line: str) -> bool:
    for index, char in enumerate(line):
        starts_word = line[max(index - 1, 0) : index].strip("'\" \t\n") == ""
        if char in _DASHES and starts_word and line[index + 1 : index + 2].strip():
            return True
    return False


def _mixes_scripts(word: str) -> bool:
    scripts = {unicodedata.name(char, "").split(" ", 1)[0] for char in word}
    return "LATIN" in scripts and not scripts.isdisjoint(_LOOK_ALIKE_SCRIPTS)
