"""What git's machine formats say, as data and as text for a model (003; git-status, git-log, git-blame)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Literal

from ollm_tui.core.base.escape import quote_name, visible
from ollm_tui.core.base.results import ToolData, Wire

STATUS_ARGUMENTS = ("status", "--porcelain=v2", "-z", "--branch", "--show-stash", "--untracked-files=all")
LOG_FORMAT = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%B"
"""Seven fields for each commit; with `-z` the next begins behind the last."""
_LOG_FIELDS = 7

SHORT_HASH = 9
_KINDS = {
    "A": "added",
    "C": "copied",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "type changed",
    "U": "unmerged",
}


class GitChange(Wire):
    """A changed path; `old_path` where it was renamed or copied."""

    path: str
    kind: str
    """`added`, `copied`, `deleted`, `modified`, `renamed`, `type changed`; a conflict has git's two letters."""
    old_path: str | None = None


class GitStatusData(ToolData):
    """The state of a working tree; each list in git's order."""

    branch: str | None = None
    """None where HEAD is detached."""
    commit: str | None = None
    """None before the first commit."""
    upstream: str | None = None
    ahead: int = 0
    behind: int = 0
    operation: str | None = None
    """What waits to be finished: `merge`, `rebase`, `cherry-pick`, `revert`, `bisect`."""
    stashes: int = 0
    staged: tuple[GitChange, ...] = ()
    unstaged: tuple[GitChange, ...] = ()
    conflicts: tuple[GitChange, ...] = ()
    untracked: tuple[str, ...] = ()


class GitCommit(Wire):
    """One commit; `date` is the author's, in ISO 8601."""

    hash: str
    parents: tuple[str, ...]
    author: str
    email: str
    date: str
    refs: tuple[str, ...]
    subject: str
    body: str


class GitLogData(ToolData):
    """The commits, newest first."""

    commits: tuple[GitCommit, ...] = ()


class GitFileChange(GitChange):
    """A file of a diff; the counts are None for binary ones."""

    additions: int | None = None
    deletions: int | None = None


class GitDiffData(ToolData):
    """The files of a diff, and the diff itself as git prints it."""

    files: tuple[GitFileChange, ...] = ()
    diff: str = ""


class GitShowData(GitDiffData):
    """A commit with its diff, or a file's content at a revision."""

    commit: GitCommit | None = None
    content: str | None = None


class GitBlameLines(Wire):
    """Neighbouring lines that the same commit wrote; 1-based, both ends included."""

    start_line: int
    end_line: int
    commit: str
    author: str
    date: str
    subject: str


class GitBlameData(ToolData):
    """Who wrote which lines."""

    lines: tuple[GitBlameLines, ...] = ()


def parse_status(output: bytes, shown: Callable[[bytes], str], operation: str | None) -> GitStatusData:
    """Return what `STATUS_ARGUMENTS` print; `shown` turns git's path into the caller's."""
    head: dict[str, str] = {}
    staged, unstaged, conflicts = list[GitChange](), list[GitChange](), list[GitChange]()
    untracked: list[str] = []
    fields = iter(output.split(b"\0"))
    for field in fields:
        match field[:1]:
            case b"#":
                key, _, value = os.fsdecode(field[2:]).partition(" ")
                head[key] = value
            case b"1" | b"2":
                renamed = field[:1] == b"2"
                path = field.split(b" ", 9 if renamed else 8)[-1]
                old = shown(next(fields)) if renamed else None
                for letter, changes in zip(field[2:4].decode("ascii"), (staged, unstaged), strict=True):
                    if letter != ".":
                        changes.append(
                            GitChange(
                                path=shown(path),
                                kind=_KINDS.get(letter, letter),
                                old_path=old if letter in "RC" else None,
                            )
                        )
            case b"u":
                conflicts.append(GitChange(path=shown(field.split(b" ", 10)[-1]), kind=field[2:4].decode("ascii")))
            case b"?":
                untracked.append(shown(field[2:]))
            case _:
                pass
    ahead, _, behind = head.get("branch.ab", "+0 -0").partition(" ")
    branch, commit = head.get("branch.head", ""), head.get("branch.oid", "")
    return GitStatusData(
        branch=None if branch == "(detached)" else branch,
        commit=None if commit == "(initial)" else commit,
        upstream=head.get("branch.upstream"),
        ahead=int(ahead),
        behind=-int(behind),
        operation=operation,
        stashes=int(head.get("stash", "0")),
        staged=tuple(staged),
        unstaged=tuple(unstaged),
        conflicts=tuple(conflicts),
        untracked=tuple(untracked),
    )


def status_text(status: GitStatusData) -> str:
    """Return a status as a model reads it."""
    return "\n".join(_status_lines(status))


def _status_lines(status: GitStatusData) -> Iterator[str]:
    place = f"On branch {visible(status.branch)}" if status.branch else f"HEAD detached at {_short(status.commit)}"
    if status.commit is None:
        place += ", no commits yet"
    if status.upstream:
        counts = [f"{n} {word}" for n, word in ((status.ahead, "ahead"), (status.behind, "behind")) if n]
        place += f", {' and '.join(counts) or 'level'} of {visible(status.upstream)}"
    yield place
    if status.operation:
        yield f"A {status.operation} is not finished"
    if status.stashes:
        yield f"{status.stashes} stashed"
    sections = (("Conflicts", status.conflicts), ("Staged", status.staged), ("Not staged", status.unstaged))
    for title, changes in sections:
        if changes:
            yield f"\n{title}:"
            yield from map(_change_line, changes)
    if status.untracked:
        yield "\nUntracked:"
        yield from (f"  {path}" for path in status.untracked)
    if not (status.conflicts or status.staged or status.unstaged or status.untracked):
        yield "Nothing to commit, working tree clean"


def _change_line(change: GitChange) -> str:
    from_where = f"{change.old_path} -> " if change.old_path else ""
    return f"  {change.kind}: {from_where}{change.path}"


def parse_log(output: bytes) -> tuple[GitCommit, ...]:
    """Return the commits that `git log -z --format=LOG_FORMAT` prints."""
    fields = output.decode("utf-8", "replace").split("\0")
    return tuple(_commit(fields[start : start + _LOG_FIELDS]) for start in range(0, len(fields) - 1, _LOG_FIELDS))


def _commit(fields: Sequence[str]) -> GitCommit:
    commit, parents, author, email, date, refs, message = fields
    subject, _, body = message.strip().partition("\n")
    return GitCommit(
        hash=commit.strip(),
        parents=tuple(parents.split()),
        author=author,
        email=email,
        date=date,
        refs=tuple(filter(None, refs.split(", "))),
        subject=subject,
        body=body.strip(),
    )


def commit_line(commit: GitCommit) -> str:
    """Return a commit on one line: hash, date, author, subject, refs."""
    refs = f"  ({visible(', '.join(commit.refs))})" if commit.refs else ""
    return f"{_short(commit.hash)} {commit.date[:10]} {visible(commit.author)}: {visible(commit.subject)}{refs}"


def parse_changed_files(output: bytes, shown: Callable[[bytes], str]) -> dict[tuple[bytes, ...], GitFileChange]:
    """Return the files that `--raw --numstat -z` names, in its order, by git's own path and the one before a rename."""
    found: dict[bytes, GitFileChange] = {}
    before: dict[bytes, bytes] = {}
    fields = iter(output.split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            letter = field.rpartition(b" ")[2][:1].decode("ascii")
            path, old = next(fields, b""), None
            if letter in "RC":
                path, old = next(fields, b""), path
                before[path] = old
            found[path] = GitFileChange(
                path=shown(path), kind=_KINDS.get(letter, letter), old_path=None if old is None else shown(old)
            )
        elif b"\t" in field:
            added, _, rest = field.partition(b"\t")
            deleted, _, path = rest.partition(b"\t")
            if not path:  # a rename: both names follow
                _, path = next(fields, b""), next(fields, b"")
            if path in found and added != b"-":
                found[path] = found[path].model_copy(update={"additions": int(added), "deletions": int(deleted)})
    return {(path, before[path]) if path in before else (path,): file for path, file in found.items()}


def diff_summary(files: Iterable[GitFileChange]) -> str:
    """Return how much a diff changes: `2 files, +8 -1`."""
    every = tuple(files)
    added, deleted = sum(file.additions or 0 for file in every), sum(file.deletions or 0 for file in every)
    return f"{len(every)} file{'s' if len(every) != 1 else ''}, +{added} -{deleted}"


def parse_blame(output: bytes) -> tuple[tuple[GitBlameLines, ...], tuple[str, ...]]:
    """Return what `git blame --line-porcelain` says, and the lines themselves."""
    found: list[tuple[int, dict[str, str]]] = []
    texts: list[str] = []
    facts: dict[str, str] = {}
    number = 0
    for line in output.decode("utf-8", "replace").split("\n"):
        if line.startswith("\t"):
            texts.append(line[1:])
            found.append((number, facts))
            facts = {}
        elif not facts:
            commit, _, place = line.partition(" ")
            if place:
                number = int(place.split(" ")[1])
                facts = {"commit": commit}
        else:
            key, _, value = line.partition(" ")
            facts[key] = value
    runs = (list(run) for _, run in groupby(found, key=lambda one: one[1]["commit"]))
    return tuple(_blamed(run[0][0], run[-1][0], run[0][1]) for run in runs), tuple(texts)


def _blamed(start: int, end: int, facts: dict[str, str]) -> GitBlameLines:
    moment = datetime.fromtimestamp(int(facts.get("author-time", "0")), UTC)
    return GitBlameLines(
        start_line=start,
        end_line=end,
        commit=facts["commit"],
        author=facts.get("author", ""),
        date=moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        subject=facts.get("summary", ""),
    )


def blame_text(runs: Iterable[GitBlameLines], texts: Sequence[str]) -> str:
    """Return each line behind its commit, date and author."""
    written = iter(texts)
    lines: list[str] = []
    for run in runs:
        head = f"{_short(run.commit)} {run.date[:10]} {visible(run.author)}"
        lines += (f"{head} {number}|{next(written, '')}" for number in range(run.start_line, run.end_line + 1))
    return "\n".join(lines)


def shown_below(prefix: str) -> Callable[[bytes], str]:
    """Return how paths of the repository's root are shown to who works in `prefix` below it (with a slash behind)."""

    def shown(path: bytes) -> str:
        text = os.fsdecode(path)
        if text.startswith(prefix):
            return quote_name(text[len(prefix) :])
        return quote_name(os.path.relpath(text, prefix or "."))

    return shown


UnfinishedMark = Literal["merge", "rebase", "cherry-pick", "revert", "bisect"]
_MARKS: tuple[tuple[bytes, UnfinishedMark], ...] = (
    (b"rebase-merge", "rebase"),
    (b"rebase-apply", "rebase"),
    (b"MERGE_HEAD", "merge"),
    (b"CHERRY_PICK_HEAD", "cherry-pick"),
    (b"REVERT_HEAD", "revert"),
    (b"BISECT_LOG", "bisect"),
)


def unfinished_operation(git_dir: bytes) -> UnfinishedMark | None:
    """Return what was begun in a repository and waits to be finished."""
    return next((name for mark, name in _MARKS if os.path.lexists(git_dir + mark)), None)


def _short(commit: str | None) -> str:
    return (commit or "")[:SHORT_HASH]
