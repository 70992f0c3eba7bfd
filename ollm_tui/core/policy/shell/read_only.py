"""The shipped read-only list: which commands only read, and which paths.

An allowlist: a program, option or spelling that is not in the table asks. Paths are returned as the command names them;
the caller judges each as `read_file` would. Also the risk of a line, which follows from it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import NamedTuple

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.shell.program_table import ReadOnlyForm, program_key, tables
from ollm_tui.core.policy.shell.read_only_forms import (
    NotReadOnlyError,
    ParsedOptions,
    find_paths,
    git_paths,
    printf_obstacle,
    read_arguments,
    test_paths,
)
from ollm_tui.core.policy.shell.risky_options import awk_is_harmless, jq_is_harmless, risky_options, sed_is_harmless
from ollm_tui.core.policy.shell.searched_directories import Descent
from ollm_tui.core.policy.shell.shell_line import ShellLine
from ollm_tui.core.policy.shell.words import SimpleCommand

MAX_DIRECTORIES = 6
"""Directories a line with `cd` may find itself in before it is no longer followed."""


_GIT_PRINTS = {"diff", "show", "grep", "cat-file", "whatchanged", "diff-tree", "diff-index", "diff-files", "range-diff"}
_GIT_PRINTS_PATCHES = {"log", "stash", "reflog"}
_GIT_NAMED = {"show", "cat-file", "diff", "grep", "diff-tree", "diff-index"}
"""What prints contents by their hash; the others take commits alone."""
_GIT_PRESENT = {"diff", "grep", "status", "diff-index", "diff-files"}
"""What prints files as they are, unless an operand names something else."""
_GIT_SETTINGS = {"config", "remote"}
_VERBOSE = frozenset({"-v", "--verbose"})
"""With these `git status` prints what is staged."""
_ABOUT_OBJECTS = frozenset({"-t", "-s", "-e"})
"""With these `git cat-file` prints nothing of the contents."""
_ALL_NAMES = frozenset({"--all", "--branches", "--tags", "--remotes", "--glob", "--alternate-refs", "--reflog"})
_AS_TEXT = frozenset({"-a", "--text", "--binary"})
"""With these git prints the files of which the cage has it say that they differ."""


class GitPrint(NamedTuple):
    """What a command of git prints that may be the contents of files."""

    words: tuple[str, ...] = ()
    """Its operands: revisions and paths."""
    named: bool = False
    """Whether it prints what its operands name, whatever that is."""
    below_trees: bool = True
    """Whether of directories it prints the contents, not the names alone."""
    past: bool = True
    """Whether it prints what commits hold, even where no operand names one."""


class ReadOnlyVerdict(NamedTuple):
    """Whether the shipped list covers a command, and what is left to judge.

    `paths` are judged as read_file would, relative ones from the command's working directory; `descends` says what is
    read below them; `repositories` are directories where git would read configuration.
    """

    covered: bool
    reason: str = ""
    paths: tuple[str, ...] = ()
    descends: Descent | None = None
    repositories: tuple[str, ...] = ()
    prints: GitPrint | None = None
    """What git prints that may be the contents of files."""
    prints_settings: bool = False
    """Whether git prints what its configuration holds."""
    directories: tuple[str, ...] = (".",)
    """Where it may run; empty behind a `cd` that cannot be followed. Holds for commands not covered, too."""

    def __bool__(self) -> bool:
        return self.covered


def read_only(command: SimpleCommand) -> ReadOnlyVerdict:
    """Judge one command, run in the directory the line starts in."""
    if not command.plain or not command.words:
        return ReadOnlyVerdict(False, command.reasons[0] if command.reasons else "it names no program")
    name = command.name
    spec = tables().reading.get(name)
    if _asks_version(command):
        return ReadOnlyVerdict(True)
    if spec is None:
        return ReadOnlyVerdict(False, f"{name} is not on the read-only list")
    if name == "git" and command.argv[1:2] == ("-C",) and len(command.words) > 3:
        return _in_directory(command)
    try:
        return _judge(command, spec)
    except NotReadOnlyError as reason:
        return ReadOnlyVerdict(False, f"{name}: {reason}")


def _in_directory(command: SimpleCommand) -> ReadOnlyVerdict:
    """Judge `git -C DIRECTORY ...` as git behind a `cd` that cannot fail."""
    program, _, directory, *rest = command.words
    if directory.glob or directory.variable or not directory.text:
        return ReadOnlyVerdict(False, f"git: {directory.shown} stands for a directory that is not known here")
    inner = read_only(SimpleCommand((program, *rest), command.source))
    if not inner.covered:
        return inner
    there = _from_directories(inner, [directory.text])
    return there._replace(paths=(directory.text, *there.paths), directories=inner.directories)


def read_only_parts(line: ShellLine) -> tuple[ReadOnlyVerdict, ...]:
    """Judge every part of a line, one verdict each.

    A `cd` may fail or stand in a subshell: behind one, paths are judged from the old and the new directory.
    """
    directories = ["."]
    verdicts: list[ReadOnlyVerdict] = []
    lost = False
    for part in line.parts:
        verdict = read_only(part)
        if len(directories) > 1:
            verdict = _from_directories(verdict, directories)
        moves = part.name == "cd"
        if moves and verdict.covered:
            target = part.argv[-1]
            moved = _moved(directories, target)
            if moved is None:
                verdict = ReadOnlyVerdict(False, f"cd {target}: where this leads cannot be told beforehand")
            else:
                directories = moved
        verdicts.append(verdict)
        lost = lost or (moves and not verdict.covered)
    return _behind_unknown_cd(line, verdicts) if lost else tuple(verdicts)


def _behind_unknown_cd(line: ShellLine, verdicts: list[ReadOnlyVerdict]) -> tuple[ReadOnlyVerdict, ...]:
    """Refuse path arguments behind a `cd` whose target is unknown."""
    lost = False
    result: list[ReadOnlyVerdict] = []
    for part, verdict in zip(line.parts, verdicts, strict=True):
        if lost and verdict.covered and (verdict.paths or verdict.repositories):
            result.append(
                ReadOnlyVerdict(False, "it stands behind a cd that is not on the read-only list", directories=())
            )
        else:
            result.append(verdict._replace(directories=()) if lost else verdict)
        lost = lost or (part.name == "cd" and not verdict.covered)
    return tuple(result)


def _from_directories(verdict: ReadOnlyVerdict, directories: list[str]) -> ReadOnlyVerdict:
    def below(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([_joined(base, name) for base in directories for name in names]))

    return verdict._replace(
        paths=below(verdict.paths), repositories=below(verdict.repositories), directories=tuple(directories)
    )


def _joined(base: str, name: str) -> str:
    return name if base == "." else base if name == "." else posixpath.join(base, name)


def _moved(directories: list[str], target: str) -> list[str] | None:
    components = target.split("/")
    if ".." in components and (len(directories) > 1 or any(part not in ("..", "") for part in components)):
        # bash takes .. off the name, the kernel off the place behind a link: they may differ
        return None
    moved = list(
        dict.fromkeys([*directories, *[posixpath.normpath(posixpath.join(base, target)) for base in directories]])
    )
    return moved if len(moved) <= MAX_DIRECTORIES else None


def _asks_version(command: SimpleCommand) -> bool:
    argv = command.argv
    if len(argv) != 2 or not command.words[1].literal:
        return False
    known = tables()
    name, option = argv
    return name in known.version_names and (
        option == "--version" or option in known.version_spellings.get(name, frozenset())
    )


def _judge(command: SimpleCommand, spec: ReadOnlyForm) -> ReadOnlyVerdict:
    words = command.words
    for word in words:
        if word.glob:
            raise NotReadOnlyError(f"{word.shown} stands for whatever files match it")
        if word.variable and not spec.variables:
            raise NotReadOnlyError(f"{word.shown} stands for a value that is not known here")
    if spec.operands == "git":
        given, repositories, paths = git_paths(words, spec)
        name = next((word for word in command.argv[1:] if word[:1] != "-"), "")
        descent = (
            Descent(links=True) if name == "diff" and len(paths) > 1 else None
        )  # counts outside a repository alone
        prints = _git_print(name, given)
        if prints is not None and (forced := given.options & _AS_TEXT):
            raise NotReadOnlyError(f"{min(forced)} prints what is left out of credentials otherwise")
        return ReadOnlyVerdict(True, "", tuple(paths), descent, tuple(repositories), prints, name in _GIT_SETTINGS)
    match spec.operands:
        case "echo":
            return ReadOnlyVerdict(True)
        case "find":
            return ReadOnlyVerdict(True, "", tuple(find_paths(command.argv)))
        case "test":
            return ReadOnlyVerdict(True, "", tuple(test_paths(command.argv)))
        case "printf":
            obstacle = printf_obstacle(command.words)
            if obstacle:
                raise NotReadOnlyError(obstacle)
            return ReadOnlyVerdict(True)
        case _:
            given = read_arguments(words, 1, spec)
    if spec.needs and not given.options & spec.needs:
        raise NotReadOnlyError(f"only with {' or '.join(sorted(spec.needs))} does it just look")
    return ReadOnlyVerdict(True, "", tuple(_paths(given, spec)), _descent(given, spec))


def _git_print(name: str, given: ParsedOptions) -> GitPrint | None:
    """Return what a sub-command of git prints of what files hold; None where it prints nothing of it."""
    options = given.options
    if name == "show" and (chosen := options & _ALL_NAMES):
        raise NotReadOnlyError(f"git show {min(chosen)} prints whatever has a name")
    silent = {
        "status": options.isdisjoint(_VERBOSE),
        "cat-file": not options.isdisjoint(_ABOUT_OBJECTS),
    }.get(name, name not in _GIT_PRINTS and (name not in _GIT_PRINTS_PATCHES or options <= _git_silent()))
    if silent:
        return None
    names_alone = name in ("show", "cat-file")
    return GitPrint(tuple(given.operands), name in _GIT_NAMED, not names_alone, name not in _GIT_PRESENT)


def _git_silent() -> frozenset[str]:
    return tables().word_lists["git_silent"]


def _descent(given: ParsedOptions, spec: ReadOnlyForm) -> Descent | None:
    """Return what it reads below the directories it is given."""
    if given.options & spec.follows:
        return Descent(links=True)
    if given.options & spec.descends:
        return Descent()
    match spec.searches:
        case "visible" if not given.options & {"--files", "--type-list"}:
            # A kind of files may hold hidden ones by name, and one that is chosen is read: `-t sh` reads .env.
            lists = tables().word_lists
            plain = "--type-add" not in given.options and lists["rg_kinds"].issuperset(given.kinds)
            endings = lists["rg_endings"] if given.kinds and plain else frozenset[str]()
            return Descent(hidden=False, shown=(*given.globs, *(() if plain else ("*",))), endings=endings)
        case "links":
            return Descent(links=True)
        case _:
            return None


def _paths(given: ParsedOptions, spec: ReadOnlyForm) -> list[str]:
    operands = list(given.operands)
    if spec.most is not None and len(operands) > spec.most:
        raise NotReadOnlyError(f"{operands[spec.most]} would be written to")
    if spec.operands not in ("path", "pattern", "sed", "awk", "jq"):
        _check_operands(given, spec)
        return [*given.paths, *(operands if spec.operands == "cd" else ())]
    here = spec.directory
    if spec.operands != "path":
        _check_scripts(given, spec, operands)
        here = here or bool(given.options & (spec.descends | spec.follows))
    paths = [*given.paths, *[operand for operand in operands if operand != "-"]]
    paths += [f"{path}{ending}" for ending in sorted(spec.tried) for path in paths]
    return [*paths, "."] if here and not operands else paths


def _check_operands(given: ParsedOptions, spec: ReadOnlyForm) -> None:
    operands = given.operands
    match spec.operands:
        case "none" if operands:
            raise NotReadOnlyError(f"the word {operands[0]} may change something")
        case "date" if not all(operand.startswith("+") for operand in operands):
            raise NotReadOnlyError("it would set the clock")
        case "cd" if len(operands) != 1 or operands[0] in ("-", ""):
            raise NotReadOnlyError("only one directory named literally is followed")
        case "command" if not given.options & {"-v", "-V"}:
            raise NotReadOnlyError("it runs its words")
        case "none" | "date" | "cd" | "command" | "text":
            pass
        case _:
            raise NotReadOnlyError(f"its operands ({spec.operands}) cannot be judged")


def _check_scripts(given: ParsedOptions, spec: ReadOnlyForm, operands: list[str]) -> None:
    """Remove the pattern or script from the operands and judge scripts."""
    judge = {"sed": sed_is_harmless, "awk": awk_is_harmless, "jq": jq_is_harmless}.get(spec.operands)
    scripts = list(given.scripts)
    if not given.options & spec.pattern_options:
        if not operands:
            raise NotReadOnlyError("it lacks what to look for")
        scripts.append(operands.pop(0))
    for script in scripts:
        if judge is not None and not judge(script):
            raise NotReadOnlyError(f"the script {script} may do more than read")


class LineNature(NamedTuple):
    """What the text of a line alone says about it, whatever the policy and the disk say."""

    verdicts: tuple[ReadOnlyVerdict, ...]
    destructive: bool
    """Whether any command that the line may run deletes or needs privilege."""
    path_words: frozenset[str]
    """Words that look like paths (a slash, `..`, `~`), and the paths of read-only commands."""


def line_nature(line: ShellLine) -> LineNature:
    """Judge all commands of a line by their text."""
    verdicts = read_only_parts(line)
    if line.opaque:
        return LineNature(verdicts, False, frozenset())
    words = {path for verdict in verdicts for path in verdict.paths}
    for command in line.all_commands:
        words.update([word for word in command.argv[1:] if "/" in word or word == ".." or word[:1] == "~"])
    return LineNature(verdicts, any(map(_destructive, line.all_commands)), frozenset(map(path_in, words)))


def command_risk(
    line: ShellLine, is_outside: Callable[[str], bool] | None = None, nature: LineNature | None = None
) -> Risk:
    """Return low for read-only lines, high for deletion, privilege, outside paths and opaque lines."""
    nature = nature or line_nature(line)
    if line.opaque or nature.destructive:
        return Risk.HIGH
    if is_outside is not None and any(map(is_outside, nature.path_words)):
        return Risk.HIGH
    return Risk.LOW if all(nature.verdicts) else Risk.MEDIUM


def _destructive(command: SimpleCommand) -> bool:
    known = tables()
    argv = command.argv
    key = program_key(argv[0])
    if key in known.deleting or key in known.privileged or key.startswith("mkfs"):
        return True
    risky = known.risky_sub.get(key)
    if risky and any(word in risky for word in argv[1:4]):
        return True
    spec = known.flagged.get(key)
    if spec is None or len(argv) < 2 or not spec.may_delete_as(argv[1]):
        return False
    return any(flag.effect == "deletes" for flag in risky_options(command))


def path_in(word: str) -> str:
    """Return the path of `--output=PATH`; other words as they are."""
    return word.split("=", 1)[1] if word.startswith("-") and "=" in word else word
