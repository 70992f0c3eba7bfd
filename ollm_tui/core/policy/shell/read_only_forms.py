"""Read the arguments of programs on the read-only list: options, find, test, printf, git."""

from __future__ import annotations

import posixpath
import re

from ollm_tui.core.policy.shell.program_table import ReadOnlyForm, tables
from ollm_tui.core.policy.shell.words import Word


class NotReadOnlyError(ValueError):
    """Something in the command is not on the read-only list."""


class ParsedOptions:
    """Option names (`-e`, `--regexp`), the paths, globs and scripts they name, operands.

    `separated` is the number of operands before a `--`, None without one.
    """

    def __init__(self) -> None:
        self.options: set[str] = set()
        self.paths: list[str] = []
        self.scripts: list[str] = []
        self.globs: list[str] = []
        self.kinds: list[str] = []
        self.operands: list[str] = []
        self.separated: int | None = None


def read_arguments(words: tuple[Word, ...], start: int, spec: ReadOnlyForm) -> ParsedOptions:
    """Sort the words from `start` on; raises NotReadOnlyError at an unlisted option."""
    given = ParsedOptions()
    values = spec.values
    index = start
    count = len(words)
    if spec.response and (held := next((word.text for word in words[start:] if word.text[:1] == "@"), "")):
        raise NotReadOnlyError(f"{held} may hold further options")
    while index < count:
        text = words[index].text
        index += 1
        behind_operands = bool(given.operands) and spec.ordered
        if given.separated is not None or text[:1] != "-" or text == "-" or behind_operands:
            given.operands.append(text)
        elif text == "--":
            given.separated = len(given.operands)
        elif text in spec.exact:
            given.options.add(text)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            given.options.add(name)
            if name in spec.long and (equals or name not in values):
                continue
            index = _take_value(name, value if equals else None, words, index, spec, given)
        else:
            for position in range(1, len(text)):
                name = "-" + text[position]
                given.options.add(name)
                if name in values or name in spec.script_options:
                    attached = text[position + 1 :] or None
                    if attached and spec.detached:
                        raise NotReadOnlyError(f"the option {name} is not the last of {text}")
                    index = _take_value(name, attached, words, index, spec, given)
                    break
                if text[position] not in spec.flags:
                    raise NotReadOnlyError(f"the option {name} is not among those that only read")
    return given


def _take_value(
    name: str, value: str | None, words: tuple[Word, ...], index: int, spec: ReadOnlyForm, given: ParsedOptions
) -> int:
    kind = "script" if name in spec.script_options else spec.values.get(name)
    if kind is None:
        raise NotReadOnlyError(f"the option {name} is not among those that only read")
    if value is None:
        if index >= len(words):
            raise NotReadOnlyError(f"the option {name} lacks its value")
        value = words[index].text
        index += 1
        if given.operands and not value.isdigit():
            given.paths.append(value)  # to a program that takes no options behind operands it is a file
    _keep_value(kind, value, given)
    return index


def _keep_value(kind: str, value: str, given: ParsedOptions) -> None:
    match kind:
        case "script":
            given.scripts.append(value)
        case "path":
            if value != "-":
                given.paths.append(value)
        case "kind":
            given.kinds.append(value)
        case "behind":
            given.paths.extend(value.rsplit(":", 1)[1:])
        case "glob":
            plain = value.lstrip("!")
            if not value.startswith("!"):
                given.globs.append(value)
            if not value.startswith("!") and plain:
                given.paths.append(plain.replace("*", "").replace("?", "").strip("/") or ".")
        case _:
            pass


_PRINTF_CONVERSION = re.compile(r"%(?:%|[-+ #0']*[0-9]{0,4}(?:\.[0-9]{0,4})?[diouxXeEfFgGaAcsbq])")
_PRINTF_TIME = re.compile(r"%\([^)]*\)T")


def find_paths(argv: tuple[str, ...]) -> list[str]:
    """Return the paths find reads; raises NotReadOnlyError at actions and unknown tests."""
    known = tables().word_lists
    alone, with_value, with_path = known["find_alone"], known["find_value"], known["find_path"]
    paths: list[str] = []
    index = 1
    while index < len(argv) and argv[index] == "-P":
        index += 1
    while index < len(argv) and not (argv[index].startswith("-") or argv[index] in ("!", "(", ")", ",")):
        paths.append(argv[index])
        index += 1
    if not paths:
        paths.append(".")
    while index < len(argv):
        word = argv[index]
        index += 1
        if word in alone:
            continue
        if word not in with_value and word not in with_path:
            raise NotReadOnlyError(f"{word} is not among the tests that only look")
        if index >= len(argv):
            raise NotReadOnlyError(f"{word} lacks its value")
        if word in with_path:
            paths.append(argv[index])
        index += 1
    return paths


def test_paths(argv: tuple[str, ...]) -> list[str]:
    """Return the operands of `test` or `[`; raises NotReadOnlyError at `-v` and the like."""
    paths: list[str] = []
    known = tables().word_lists["test"]
    if argv[0] == "[" and argv[-1] != "]":
        raise NotReadOnlyError("its closing ] is missing")
    for word in argv[1:-1] if argv[0] == "[" else argv[1:]:
        if word in known:
            continue
        if word.startswith("-") and not word.lstrip("-").isdigit():
            raise NotReadOnlyError(f"{word} is not among the tests that only look")
        if word:
            paths.append(word)
    return paths


def printf_obstacle(words: tuple[Word, ...]) -> str:
    """Return why `printf` may do more than print (`-v`, `%n`), or an empty string."""
    index = 1
    if len(words) > 1 and words[1].text == "--":
        index = 2
    if index >= len(words):
        return ""
    form = words[index]
    if form.variable or form.text.startswith("-"):
        return f"{form.shown} is no format that can be judged"
    left = _PRINTF_TIME.sub("", form.text)
    if "%" in _PRINTF_CONVERSION.sub("", left):
        return f"the format {form.text} holds a conversion that may set a variable or print without end"
    return ""


_SECRET_KEYS = ("credential", "extraheader", "token", "password", "passwd", "secret", "cookie", "proxy", "sslkey")


def git_paths(words: tuple[Word, ...], spec: ReadOnlyForm) -> tuple[ParsedOptions, list[str], list[str]]:
    """Return git's arguments, the directories it reads configuration from, and its paths."""
    for word in words:
        if "%G" in word.text or "(signature" in word.text:
            raise NotReadOnlyError(f"{word.text} has signatures checked, by a program")
        if "%(raw" in word.text or "%(*raw" in word.text:
            raise NotReadOnlyError(f"{word.text} prints whatever a name stands for")
        if word.text.startswith("--submodule=") and word.text not in ("--submodule=log", "--submodule=short"):
            raise NotReadOnlyError(f"{word.text} has another git print what files of a sub-module hold")
    index = 1
    while index < len(words) and words[index].text.startswith("-"):
        index += 1
    options = read_arguments(words[:index], 1, spec)
    if index >= len(words):
        if not options.options & {"--version", "-v"}:
            raise NotReadOnlyError("it names no sub-command")
        return options, [], []
    name = words[index].text
    sub = spec.sub.get(name)
    if sub is None:
        raise NotReadOnlyError(f"the sub-command {name} is not among those that only read")
    if sub.operands == "git-stash" and [word.text for word in words[index + 1 : index + 2]] not in (["list"], ["show"]):
        raise NotReadOnlyError(
            "only git stash list and git stash show just look"
        )  # `git stash -- list` puts a file away
    given = read_arguments(words, index + 1, sub)
    return given, ["."], [*given.paths, *_operand_paths(name, given, sub)]


_GIT_OPERANDS = frozenset(
    {"none", "text", "git", "git-revision", "git-one", "git-list", "git-remote", "git-worktree", "git-reflog"}
)


def _operand_paths(name: str, given: ParsedOptions, sub: ReadOnlyForm) -> list[str]:
    operands = given.operands
    match sub.operands:
        case "git" | "git-revision" | "git-reflog":
            _check_git_operands(name, given, sub)
            return _candidates(operands)
        case "git-names":
            return _candidates([_folder_of_glob(operand) for operand in operands])
        case "git-stash":
            return _candidates(operands[1:])
        case "git-pattern":
            if given.options & sub.pattern_options:
                return _candidates(operands)
            if not operands:
                raise NotReadOnlyError("it lacks what to look for")
            return _candidates(operands[1:])
        case _:
            _check_git_operands(name, given, sub)
            return []


def _check_git_operands(name: str, given: ParsedOptions, sub: ReadOnlyForm) -> None:
    """Raise NotReadOnlyError where operands make the sub-command change something."""
    operands = given.operands
    lists = tables().word_lists
    match sub.operands:
        case "none" if operands:
            raise NotReadOnlyError(f"the word {operands[0]} may change something")
        case "git-one" if len(operands) != 1:
            raise NotReadOnlyError(f"git {name} with more than one name changes it")
        case "git-list" if operands and not given.options & lists["git_lists"]:
            raise NotReadOnlyError(f"git {name} {operands[0]} would make something new")
        case "git-remote" if operands and (operands[0] != "get-url" or len(operands) != 2):
            raise NotReadOnlyError(f"git remote {operands[0]} does more than list")
        case "git-worktree" if operands != ["list"]:
            raise NotReadOnlyError("only git worktree list just looks")
        case "git-reflog" if operands and operands[0] in lists["git_reflog_actions"]:
            raise NotReadOnlyError(f"git reflog {operands[0]} does more than show")
        case "git-config":
            _check_config(given)
        case _ if sub.operands not in _GIT_OPERANDS:
            raise NotReadOnlyError(f"its operands ({sub.operands}) cannot be judged")
        case _:
            pass


def _folder_of_glob(operand: str) -> str:
    """Return the directory whose names `src/*.py` lists."""
    before, star, _ = operand.partition("*")
    return before.rpartition("/")[0] or "." if star and not operand.startswith((":", "/")) else operand


def _check_config(given: ParsedOptions) -> None:
    most = 2 if given.options & {"--get", "--get-all"} else 1  # without, a second word would be the new value
    if not 1 <= len(given.operands) <= most:
        raise NotReadOnlyError("only git config --get KEY just looks")
    key = given.operands[0].lower()
    if any(secret in key for secret in _SECRET_KEYS):
        raise NotReadOnlyError(f"{given.operands[0]} may hold a credential")


def _candidates(operands: list[str]) -> list[str]:
    """Return all that git might take for a path: operands, and what follows a revision's colon.

    git takes `..` off the name before it, where the kernel takes it off the place: what either finds is judged.
    """
    paths: list[str] = []
    for operand in operands:
        if operand.startswith((":!", ":^")):
            continue
        if operand.startswith(":(") or any(char in operand for char in "*?["):
            raise NotReadOnlyError(f"git would expand {operand}")
        paths.append(operand)
        start = operand.find(":")
        while start >= 0:
            behind = operand[start + 1 :]
            if behind:
                paths.append(behind)
            start = operand.find(":", start + 1)
    return [*paths, *[posixpath.normpath(path) for path in paths if ".." in path.split("/")]]
