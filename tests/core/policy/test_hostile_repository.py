"""A repository with every way of starting a program while somebody only looks, through the executor.

Each way is one change to an ordinary repository; git by itself falls for it, which a control shows. A command that is
asked about counts as not run.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ollm_tui.core.policy.rules import Mode
from ollm_tui.core.sandbox.look import works as cage_works
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, configure, open_core
from ollm_tui.testing import answer_confirmations

pytestmark = pytest.mark.skipif(not cage_works(), reason="without a cage these commands ask")

GIT_COMMANDS = """
git status|git status --short|git status -uall|git diff|git diff --stat|git diff --cached|git diff HEAD~1 HEAD
git diff -- a.txt|git log|git log -p|git log --stat -1|git log --oneline --graph --all|git log --alternate-refs -1
git log -1 --format=%h|git log -1 --format=%GK|git log -1 --pretty=x|git log --show-signature -1
git log --remerge-diff -p|git show|git show HEAD:a.txt|git show HEAD:gone.txt|git show HEAD~1|git cat-file -p HEAD
git cat-file --filters HEAD:a.txt|git cat-file --textconv HEAD:a.txt|git blame a.txt|git grep x|git grep --textconv x
git ls-files -m|git ls-files -o --exclude-standard|git diff-index HEAD|git diff-files -p|git diff-tree -p HEAD
git branch -a|git branch -vv|git tag|git tag -v t|git remote -v|git remote show origin|git stash list|git stash show -p
git reflog|git describe --always --dirty|git rev-parse HEAD|git config --get user.name|git config --list
git shortlog -s HEAD|git for-each-ref|git worktree list|git submodule status|git submodule|git check-ignore -v a.txt
git count-objects -v|git ls-tree -r HEAD|git range-diff HEAD~1 HEAD HEAD|git whatchanged -1|git fsck|git ls-remote
git verify-commit HEAD|git rev-list --all|git merge-base HEAD HEAD~1|git show-branch|git name-rev HEAD|git -p log -1
""".replace("\n", "|")
PLACES = (
    "cd n && git status",
    "cd b && git status",
    "cd b/sub && git status",
    "cd b && git log",
    "cd n && git diff",
    "git -C n status",
    "git -C b/sub status",
    "git -C b -C sub log",
    "cd b && git -C sub status",
)
OTHER_COMMANDS = (
    "ls -la|cat a.txt|find . -name '*.txt'|rg x|grep -rn x .|file a.txt|tree|python3 --version|npm --version"
)
COMMANDS = [each.strip() for each in f"{GIT_COMMANDS}|{OTHER_COMMANDS}".split("|") if each.strip()]


@dataclass(frozen=True)
class Place:
    """A repository, and where its canaries would come to lie."""

    root: Path
    canaries: Path

    def program(self, then: str = "true") -> str:
        """A shell command that shows that it ran."""
        return f"touch {self.canaries}/ran; {then}"

    def touched(self) -> bool:
        return any(self.canaries.iterdir())

    def add(self, path: str, text: str, mode: int = 0o644) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a") as file:
            file.write(text)
        place.chmod(mode)

    def configure(self, text: str) -> None:
        self.add(".git/config", f"\n{text}\n")

    def sign(self) -> None:
        """Give the last commit something that looks like a signature."""
        commit = git(self.root, "cat-file", "commit", "HEAD")
        head, _, message = commit.partition("\n\n")
        signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{message}"
        made = git(self.root, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed).strip()
        git(self.root, "update-ref", "HEAD", made)

    def lacks_a_file(self) -> None:
        """Take away an object that git then fetches from where the configuration says."""
        blob = git(self.root, "rev-parse", "HEAD:gone.txt").strip()
        (self.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        self.configure(
            '[extensions]\npartialClone = origin\n[core]\nrepositoryFormatVersion = 1\n[remote "origin"]\npromisor = true'
        )

    def repository_at(self, folder: str) -> Path:
        inner = self.root / folder
        inner.mkdir(parents=True, exist_ok=True)
        git(inner, "init", "-q")
        (inner / "x.txt").write_text("x\n")
        git(inner, "add", "x.txt")
        git(inner, "commit", "-qm", "inner")
        return inner

    def bare_at(self, folder: str) -> None:
        """A bare repository spelled by five files, its working tree the workspace."""
        for path in ("objects/k", "refs/k", "sub/k"):
            self.add(f"{folder}/{path}", "")
        self.add(f"{folder}/HEAD", "ref: refs/heads/main\n")
        self.add(
            f"{folder}/config",
            f'[core]\nrepositoryFormatVersion = 0\nbare = false\nworktree = ..\nfsmonitor = "{self.program("false")}"\n',
        )


def git(root: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(["git", *arguments], cwd=root, input=stdin, capture_output=True, text=True, check=True)
    return done.stdout


def attributes(place: Place, value: str) -> None:
    place.add(".gitattributes", f"*.txt {value}\n")


def text_conversion(place: Place) -> None:
    attributes(place, "diff=x")
    place.configure(f'[diff "x"]\ntextconv = "{place.program("cat")}"')


def diff_driver(place: Place) -> None:
    attributes(place, "diff=x")
    place.configure(f'[diff "x"]\ncommand = "{place.program()} #"')


def filter_of(kind: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        attributes(place, "filter=x")
        place.configure(f'[filter "x"]\n{kind} = "{place.program("cat" if kind != "process" else "false")}"')
        (place.root / "a.txt").write_text("changed x\n")

    return make


def like_large_files(place: Place) -> None:
    attributes(place, "filter=lfs")
    place.configure(f'[filter "lfs"]\nclean = "git-lfs x; {place.program("cat")}"')
    (place.root / "a.txt").write_text("changed x\n")


def hook(folder: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        place.add(f"{folder}/post-index-change", f"#!/bin/sh\n{place.program()}\n", 0o755)
        if folder != ".git/hooks":
            place.configure('[core]\nhooksPath = ev"il"')
        os.utime(place.root / "a.txt", (1, 1))  # the index is written anew with this

    return make


def signature(setting: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        place.sign()
        place.add("gpg", f"#!/bin/sh\n{place.program()}\n", 0o755)
        place.configure(f"[gpg]\nprogram = {place.root}/gpg\n{setting}")

    return make


def fetching(text: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        place.lacks_a_file()
        setting = text.replace("PROGRAM", place.program("false")).replace("ROOT", str(place.root))
        place.configure(setting.replace("CANARY", f"{place.canaries}/ran"))

    return make


def monitor(before: str = "") -> Callable[[Place], None]:
    return lambda place: place.configure(f'{before}[core]\nfsmonitor = "{place.program("false")}"')


def other_file(include: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        place.add(".git/more", f'[core]\nfsmonitor = "{place.program("false")}"\n')
        place.configure(f"[{include}]\npath = more")

    return make


def working_tree_configuration(place: Place) -> None:
    place.configure("[extensions]\nworktreeConfig = true\n[core]\nrepositoryFormatVersion = 1")
    place.add(".git/config.worktree", f'[core]\nfsmonitor = "{place.program("false")}"\n')


def common_directory(place: Place) -> None:
    shutil.copytree(place.root / ".git", place.root / "evil")
    place.add("evil/config", f'[core]\nfsmonitor = "{place.program("false")}"\n')
    place.add(".git/commondir", "../evil\n")


def link_to_a_repository(place: Place) -> None:
    monitor()(place)
    (place.root / ".git").rename(place.root / "evil")
    place.add(".git", "gitdir: evil\n")


def alternates(place: Place) -> None:
    other = place.repository_at("other")
    place.add(".git/objects/info/alternates", f"{other}/.git/objects\n")
    place.configure(f'[core]\nalternateRefsCommand = "{place.program()} #"')


def nested(place: Place) -> None:
    inner = Place(place.repository_at("n"), place.canaries)
    monitor()(inner)


def sub_module(place: Place) -> None:
    nested(place)
    git(place.root, "-c", "core.fsmonitor=false", "add", "n")
    place.configure(f'[submodule "n"]\nactive = true\nurl = ./n\nupdate = "!{place.program()}"')


def merge_driver(place: Place) -> None:
    git(place.root, "checkout", "-qb", "side", "HEAD~1")
    (place.root / "a.txt").write_text("side\n")
    git(place.root, "commit", "-qam", "side")
    subprocess.run(["git", "merge", "-q", "main"], cwd=place.root, capture_output=True, check=False)
    (place.root / "a.txt").write_text("both\n")
    git(place.root, "commit", "-qam", "both")
    attributes(place, "merge=x")
    place.configure(f'[merge "x"]\ndriver = "{place.program()} #"')


WAYS: dict[str, tuple[Callable[[Place], None], str]] = {
    "fsmonitor": (monitor(), "git status"),
    "behind a comment that ends in a backslash": (monitor("# x \\\n"), "git status"),
    "include": (other_file("include"), "git status"),
    "includeIf": (other_file('includeIf "gitdir:**"'), "git status"),
    "config.worktree": (working_tree_configuration, "git status"),
    "commondir": (common_directory, "git status"),
    "a .git file": (link_to_a_repository, "git status"),
    "textconv": (text_conversion, "git diff HEAD~1 HEAD"),
    "diff driver": (diff_driver, "git diff HEAD~1 HEAD"),
    "external diff": (lambda place: place.configure(f'[diff]\nexternal = "{place.program()} #"'), "git diff HEAD~1 HEAD"),
    "clean filter": (filter_of("clean"), "git diff"),
    "smudge filter": (filter_of("smudge"), "git cat-file --filters HEAD:a.txt"),
    "filter process": (filter_of("process"), "git diff"),
    "a filter like that of git-lfs": (like_large_files, "git diff"),
    "merge driver": (merge_driver, "git log --remerge-diff -p"),
    "hook": (hook(".git/hooks"), "git status"),
    "hooksPath": (hook("evil"), "git status"),
    "pager": (lambda place: place.configure(f'[core]\npager = "{place.program("cat")}"'), "git log"),
    "pager of a command": (lambda place: place.configure(f'[pager]\nlog = "{place.program("cat")}"'), "git log"),
    "showSignature": (signature("[log]\nshowSignature = true"), "git log -1"),
    "a pretty format": (signature("[format]\npretty = x\n[pretty]\nx = %+GK"), "git log -1"),
    "ext transport": (fetching('[remote "origin"]\nurl = "ext::sh -c touch% CANARY"\n[protocol "ext"]\nallow = always'), "git show HEAD:gone.txt"),
    "sshCommand": (fetching('[remote "origin"]\nurl = ssh://nowhere/x\n[core]\nsshCommand = "PROGRAM #"'), "git show HEAD:gone.txt"),
    "upload-pack": (fetching('[remote "origin"]\nurl = ROOT\nuploadpack = "PROGRAM #"'), "git show HEAD:gone.txt"),
    "alternateRefsCommand": (alternates, "git log --alternate-refs -1"),
    "nested repository": (nested, "cd n && git status"),
    "bare repository": (lambda place: place.bare_at("b"), "cd b/sub && git status"),
    "sub-module": (sub_module, "git status"),
}  # fmt: skip

OFTEN = ["git status", "git diff", "git diff HEAD~1 HEAD", "git log -p", "git show", "git blame a.txt", "git grep x"]
ALL_AT_ONCE = (
    "fsmonitor", "textconv", "external diff", "clean filter", "hook", "pager", "showSignature", "sshCommand",
    "nested repository", "bare repository",
)  # fmt: skip


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with three commits, as a clone would bring it."""
    root = tmp_path_factory.mktemp("ordinary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        git(root, "init", "-q", "-b", "main")
        for setting in ("user.name=A", "user.email=a@example.org", "commit.gpgSign=false", "gc.auto=0"):
            git(root, "config", *setting.split("="))
        for number in range(3):
            (root / "a.txt").write_text(f"x {number}\n")
            (root / "gone.txt").write_text("gone\n")
            git(root, "add", ".")
            git(root, "commit", "-qm", f"change {number}")
    return root


@pytest.fixture
def place(ordinary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in (("NAME", "A"), ("EMAIL", "a@example.org")):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    made = Place(tmp_path / "work", tmp_path / "canaries")
    shutil.copytree(ordinary, made.root)
    made.canaries.mkdir()
    return made


async def ran(place: Place, options: Options, commands: list[str]) -> int:
    """Run the commands with a person there who answers no question; return how many ran."""
    async with open_core(configure(options), Attendance.PERSON) as core:
        answer_confirmations(core.bus)
        results = [await core.executor.execute("shell", {"command": command}) for command in commands]
    return sum(isinstance(result.exit_code, int) for result in results)


def bare(place: Place, command: str) -> None:
    """Run a command as a person would, on a terminal that nobody sits at."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        shell=True,
        cwd=place.root,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PAGER": "cat"},
    )
    os.close(theirs)
    with suppress(OSError):  # the system's way to say that the other end was closed
        while os.read(ours, 65_536):
            pass
    os.close(ours)
    process.wait(60)


@pytest.mark.parametrize("way", WAYS)
async def test_no_command_that_only_looks_starts_a_program(place: Place, way: str) -> None:
    make, command = WAYS[way]
    make(place)
    await ran(place, Options(workspace=place.root), [*OFTEN, command])
    assert not place.touched()
    bare(place, command)
    assert place.touched(), "git by itself falls for it"


WITHOUT_READ_ONLY_LIST = ("strict", "none")
"""Presets with which every command runs in yolo, by the person's word for that mode alone."""


@pytest.mark.parametrize(
    ("mode", "preset"),
    [
        (mode, preset)
        for mode in Mode
        for preset in ("balanced", "strict", "read-only", "none")
        if mode is not Mode.YOLO or preset not in WITHOUT_READ_ONLY_LIST
    ],
)
async def test_nothing_is_started_in_any_mode_and_preset(place: Place, tmp_path: Path, mode: Mode, preset: str) -> None:
    for way in ALL_AT_ONCE:
        WAYS[way][0](place)
    policy = tmp_path / "p.toml"
    policy.write_text(f'preset = "{preset}"\n')
    await ran(place, Options(workspace=place.root, policy_file=policy, mode=mode.value), [*OFTEN, *PLACES])
    assert not place.touched()


async def test_every_listed_command_runs_or_asks_without_harm(place: Place) -> None:
    assert await ran(place, Options(workspace=place.root), COMMANDS) > 40, "in an ordinary repository they run"
    for way in ALL_AT_ONCE:
        WAYS[way][0](place)
    await ran(place, Options(workspace=place.root), [*COMMANDS, *PLACES])
    assert not place.touched()
