"""What git would print of files: credentials that are tracked, or that some commit still holds."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.fence.protected_paths import credential_examples, holds_credentials
from ollm_tui.core.git.configuration import common_folder, holds_secrets, index_files, tracked_names
from ollm_tui.core.git.objects import ASK_GIT, MOST_NAMES, UNREADABLE, any_found, is_of_head, nameless, object_names
from ollm_tui.core.policy.shell.command_paths import CommandPaths
from ollm_tui.core.policy.shell.read_only import GitPrint
from ollm_tui.core.sandbox.engines import look_cage
from ollm_tui.core.shell.short_program import ProgramRun, run_program
from ollm_tui.core.tools.git_calls import trusted_path

SECONDS = 5.0
_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class GitContents:
    """What git would print in the repository of the workspace."""

    paths: CommandPaths
    _answers: dict[tuple[str, tuple[str, ...]], list[str] | None] = field(
        default_factory=dict[tuple[str, tuple[str, ...]], "list[str] | None"]
    )

    def reason_to_ask(self, prints: GitPrint, directories: Sequence[str]) -> str | None:
        """Return why git needs a question for what it would print. Runs git where operands may name contents."""
        secret = self._tracked_credentials()
        if secret is not None:
            return f"{secret} is tracked and may hold credentials, which it would print"
        shown = self._shown_all_the_same()
        if shown is not None and self.reaches_past(prints, directories):
            return (
                f"the attributes of this repository have git print files such as {shown}, which may be in its history"
            )
        for word in prints.words:
            if (path := self._protected_in_history(word, directories)) is not None:
                return f"{path} may hold credentials, which it would print as they were"
        names = object_names(prints.words) if prints.named else []
        if len(names) > MOST_NAMES:
            return "it names too much to tell what git would print"
        for directory in directories if names else ():
            answers = self._ask_git(directory, tuple(name.name for name in names))
            word = names[0].word if answers is None else nameless(names, answers, below_trees=prints.below_trees)
            if word is not None:
                return f"{word} may name what a file holds or held, which git would print whatever file that is"
        return None

    def reaches_past(self, prints: GitPrint, directories: Sequence[str]) -> bool:
        """Return whether it prints what commits hold, which may be what was removed since."""
        if prints.past or any(map(is_of_head, prints.words)):
            return True
        names = tuple(name.name for name in object_names(prints.words))
        if not names:
            return False
        answers = [self._ask_git(directory, names) for directory in directories]
        return any(each is None or any_found(each) for each in answers)

    def configured_secrets(self) -> bool:
        """Return whether the configuration of the workspace's repository holds a password."""
        repository = self._repository
        return repository is not None and holds_secrets(repository)

    @property
    def _repository(self) -> Path | None:
        return self.paths.repository_of(self.paths.workspace.root)

    def _tracked_credentials(self) -> str | None:
        """Return a file of the workspace's repository that git prints and `read_file` asks about."""
        repository = self._repository
        if repository is None:
            return None
        try:
            found = _first_credential(repository, _states(repository))
            if found is None and self.paths.workspace.own_protection.patterns:
                names = tracked_names(repository)
                found = next((each for each in names if self.paths.is_protected(repository / each)), None)
            return found
        except (OSError, ValueError):
            return "what its index does not say"

    def _shown_all_the_same(self) -> str | None:
        """Return a name of a credential whose contents attributes of the repository have git print."""
        repository = self._repository
        if repository is None:
            return None
        try:
            shown = list(_shown_by_attributes(repository, _attribute_files(repository, _states(repository))))
        except (OSError, ValueError):
            return "those that it names"
        own = self.paths.workspace.own_protection.patterns
        if shown and own:
            return own[0]
        return next(filter(None, map(_example, shown)), None)

    def _protected_in_history(self, word: str, directories: Sequence[str]) -> str | None:
        """Return a path behind a colon that is protected by its name, whatever lies there today."""
        root = self.paths.workspace.root
        starts = (self._repository or root, *(root / self.paths.cwd / directory for directory in directories))
        for behind in (word[index + 1 :] for index, character in enumerate(word) if character == ":"):
            for path in (Path(os.path.normpath(start / behind)) for start in starts):
                if holds_credentials(os.path.relpath(path, root).split("/")) or self.paths.is_protected(path):
                    return behind
        return None

    def _ask_git(self, directory: str, names: tuple[str, ...]) -> list[str] | None:
        """Return git's answer to each name; None where it gave none."""
        key = directory, names
        if key not in self._answers:
            self._answers[key] = self._asked(directory, names)
        return self._answers[key]

    def _asked(self, directory: str, names: tuple[str, ...]) -> list[str] | None:
        workspace = self.paths.workspace
        program = shutil.which("git", path=trusted_path(workspace.roots))
        if program is None or any("\n" in name for name in names):
            return None
        answers: list[str] = []
        try:
            folder = workspace.resolve(posixpath.join(self.paths.cwd, directory)).real
            while len(answers) < len(names):
                cage = look_cage((*workspace.roots, *workspace.readable_roots))
                given = "".join(f"{name}\n" for name in names[len(answers) :]).encode("utf-8", "surrogateescape")
                run = ProgramRun([program, *ASK_GIT], folder, given, SECONDS, _MOST_BYTES, cage)
                ended = run_program(run, AbortSignal())
                answers += ended.output.decode("utf-8", "replace").splitlines()
                if ended.code == 0:
                    break
                answers.append(UNREADABLE)  # where git gives up here, it does so in the cage of the command too
        except ToolFailure:
            return None
        return answers


def _states(repository: Path) -> tuple[tuple[int, int], ...]:
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in index_files(repository))


@lru_cache(maxsize=8)
def _first_credential(repository: Path, states: tuple[tuple[int, int], ...]) -> str | None:
    """Return a tracked name that holds credentials; remembered while the index is as in `states` (6 ms for 670)."""
    return next((each for each in tracked_names(repository) if holds_credentials(each.split("/"))), None)


@lru_cache(maxsize=8)
def _attribute_files(repository: Path, states: tuple[tuple[int, int], ...]) -> tuple[Path, ...]:
    """Return where a repository may have attributes; those that are tracked are remembered."""
    tracked = (repository / each for each in tracked_names(repository) if each.endswith(".gitattributes"))
    return (common_folder(repository) / "info" / "attributes", repository / ".gitattributes", *tracked)


def _shown_by_attributes(repository: Path, files: Sequence[Path]) -> Iterator[str]:
    """Yield the patterns of files that attributes have git show, whatever else is said of them."""
    showing = {"diff", "!diff"}
    for file in dict.fromkeys(files):
        if not os.path.lexists(file):
            continue
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("too large")
        for line in content.decode("utf-8", "replace").splitlines():
            words = line.split() if '"' not in line else shlex.split(line, posix=True)
            if len(words) < 2 or words[0].startswith("#"):
                continue
            if any(word in showing or word.startswith("diff=") for word in words[1:]):
                if words[0].startswith("[attr]"):
                    showing.add(words[0].removeprefix("[attr]"))
                else:
                    yield words[0]


def _example(pattern: str) -> str | None:
    """Return the name of a credential that a pattern of attributes is about."""
    parts = pattern.rstrip("/").casefold().split("/")
    last = parts[-1]
    plain = [re.sub(r"[*?\[\]]", "", part) for part in parts]
    if holds_credentials(plain):
        return pattern
    return next((each for each in credential_examples() if last == "**" or fnmatchcase(each, last)), None)
