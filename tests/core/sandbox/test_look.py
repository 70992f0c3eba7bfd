"""The cage of what only looks (contract section 8): each row beside the same command outside, so that none passes for nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ollm_tui.core.sandbox import look
from ollm_tui.core.sandbox.engines import bubblewrap, look_cage, look_works
from ollm_tui.core.sandbox.landlock import LandlockError, Ruleset
from ollm_tui.core.sandbox.look import LookCage
from ollm_tui.core.sandbox.restricted_thread import RestrictedThread, ends_what_it_starts

pytestmark = pytest.mark.skipif(not look.works(), reason="this kernel has no landlock")

CALL = "import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True); call = libc.syscall"


@dataclass
class Room:
    """A workspace, a folder outside, and processes and listeners of ours that a cage must not reach."""

    root: Path
    name: str = "work space"
    """The workspace's, which is the directory to run in."""
    facts: dict[str, object] = field(default_factory=dict[str, object])

    @property
    def workspace(self) -> Path:
        return self.root / self.name

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def run(self, command: str, *, caged: bool) -> tuple[int, str]:
        line: Sequence[str] = ["bash", "--noprofile", "--norc", "-c", command]
        variables = {**os.environ, "OUTSIDE": str(self.outside), "PYTHON": sys.executable}
        variables |= {name: str(value) for name, value in self.facts.items()}
        cage = look_cage([self.workspace])

        def start(environment: Mapping[str, str]) -> subprocess.Popen[str]:
            return subprocess.Popen(
                line, cwd=self.workspace, env=environment, text=True, start_new_session=True, pass_fds=cage.passed,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip

        try:
            line = cage.command(line, variables) if caged else line
            with cage.start(start, variables, None) if caged else start(variables) as process:
                out = process.communicate(timeout=60)[0]
            return process.returncode, out
        finally:
            cage.close()

    def python(self, program: str, *, caged: bool) -> tuple[int, str]:
        (self.workspace / "program.py").write_text(f"{CALL}\n{program}\n")
        return self.run('"$PYTHON" -I program.py', caged=caged)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with furnished(tmp_path) as made:
        yield made


@contextmanager
def furnished(root: Path) -> Iterator[Room]:
    """Make a room with a repository, and another process, for as long as it is used."""
    made = Room(root)
    made.workspace.mkdir()
    made.outside.mkdir()
    (made.workspace / "file").write_text("one\ntwo\n")
    (made.outside / "secret").write_text("hidden words\n")
    subprocess.run(["git", "init", "-q", "."], cwd=made.workspace, check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "add", "."], cwd=made.workspace, check=True)
    subprocess.run(["git", *identity, "commit", "-qm", "first"], cwd=made.workspace, check=True)
    with ExitStack() as stack:
        other = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(other.kill)
        made.facts["OTHER"] = other.pid
        yield made


WRITES = {
    "a file of the workspace": "echo x > file",
    "a new file": "touch new",
    "a removal": "rm file",
    "a move": "mv file elsewhere",
    "a directory": "mkdir folder",
    "a link": "ln file linked",
    "a symbolic link": "ln -s file linked",
    "a file outside": 'echo x > "$OUTSIDE/new"',
    "through a link": 'echo x > "$OUTSIDE/secret"',
    "/tmp": "f=/tmp/ollm-look-test-$$; echo x > $f && rm $f",
    "the mode of a file": "chmod 755 file",
    "its times": "touch -d 2001-01-01 file",
    "a hook of git": "echo x > .git/hooks/pre-commit",
    "a setting of git": "git config core.fsmonitor true",
    "a commit": "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
}


def listing(folder: Path) -> list[tuple[str, int, int, int]]:
    found: list[tuple[str, int, int, int]] = []
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(at, name))
            found.append((os.path.join(at, name), status.st_mode, status.st_size, status.st_mtime_ns))
    return sorted(found)


@pytest.mark.parametrize("command", WRITES.values(), ids=WRITES)
def test_nothing_is_written(room: Room, command: str) -> None:
    before = listing(room.root)
    code, out = room.run(command, caged=True)
    assert code != 0, out
    assert listing(room.root) == before
    assert room.run(command, caged=False)[0] == 0


@pytest.mark.parametrize(
    "command", ['cat "$OUTSIDE/secret"', 'ls "$OUTSIDE" | grep secret', 'grep -r hidden "$OUTSIDE"']
)
def test_nothing_outside_is_read(room: Room, command: str) -> None:
    code, out = room.run(f"set -o pipefail; {command}", caged=True)
    assert code != 0
    assert "hidden words" not in out
    assert room.run(command, caged=False)[0] == 0


def test_the_home_directory_is_empty_and_private(room: Room) -> None:
    room.facts["HOME"] = room.outside
    assert "secret" in room.run("ls ~", caged=False)[1]
    assert room.run("ls -A ~; echo x > ~/f && cat ~/f", caged=True) == (0, "x\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root cannot read it anyway")
def test_root_does_not_read_the_passwords_either(room: Room) -> None:
    assert room.run("cat /etc/shadow > /dev/null", caged=False)[0] == 0
    assert room.run("cat /etc/shadow > /dev/null", caged=True)[0] != 0


def test_no_network_and_no_socket_of_anybody(room: Room) -> None:
    with ExitStack() as stack:
        tcp = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        udp = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
        udp.bind(("127.0.0.1", 0))
        for address in (str(room.workspace / "s"), f"\0ollm-look-{os.getpid()}"):
            listener = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
            listener.bind(address)
            listener.listen()
        programs = {
            "tcp": f"import socket; socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]}), 5)",
            "udp": "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            f"assert s.sendto(b'x', ('127.0.0.1', {udp.getsockname()[1]}))",
            "path": "import socket; socket.socket(socket.AF_UNIX).connect('s')",
            "abstract": f"import socket; socket.socket(socket.AF_UNIX).connect('\\0ollm-look-{os.getpid()}')",
            "netlink": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        }
        for kind, program in programs.items():
            assert room.python(program, caged=False) == (0, ""), kind
            code, out = room.python(program, caged=True)
            assert code != 0, kind
            assert "PermissionError" in out, kind
    assert room.python("import socket; a, b = socket.socketpair(); a.send(b'x')", caged=True) == (0, "")


OTHERS = {
    "signals": "kill -STOP $OTHER; kill -CONT $OTHER",
    "the environment": "tr '\\0' '\\n' < /proc/$OTHER/environ | grep PATH",
    "the command line": "tr '\\0' ' ' < /proc/$OTHER/cmdline | grep sleep",
    "the priority": "renice -n 19 -p $OTHER",
    "limits": "prlimit --core=0 --pid $OTHER",
    "processors": "taskset -p 1 $OTHER",
}


@pytest.mark.parametrize("command", OTHERS.values(), ids=OTHERS)
def test_other_processes_are_out_of_reach(room: Room, command: str) -> None:
    command = f"set -o pipefail; {command}"
    assert room.run(command, caged=True)[0] != 0
    assert room.run(command, caged=False)[0] == 0


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("call(425, 1, None)", "ENOSYS"),  # io_uring_setup
        ("call(321, 0, None, 0)", "EPERM"),  # bpf
        ("call(250, 0, 0, 0, 0, 0)", "EPERM"),  # keyctl
        ("call(272, 0x10000000)", "EPERM"),  # unshare, a namespace of users
        ("call(56, 0x10000000 | 17, None, None, None, None)", "EPERM"),  # clone, the same
        ("call(435, None, 0)", "ENOSYS"),  # clone3
        ("call(101, 16, int(os.environ['OTHER']), 0, 0)", "EPERM"),  # ptrace
        ("call(310, int(os.environ['OTHER']), None, 0, None, 0, 0)", "EPERM"),  # process_vm_readv
        ("libc.ioctl(0, 0x5412, b'x')", "EPERM"),  # TIOCSTI
        ("call(0x40000000 + 39)", "ENOSYS"),  # getpid of the x32 interface
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
def test_ways_around_are_shut(room: Room, program: str, error: str) -> None:
    program = f"import errno\nif {program} < 0: print(errno.errorcode[ctypes.get_errno()])"
    assert room.python(program, caged=True) == (0, f"{error}\n")


MUST_WORK = {
    "git status": ("git status --short", ""),
    "git log": ("git log --format=%s", "first\n"),
    "git diff": ("git diff HEAD", ""),
    "git show": ("git show HEAD:file", "one\ntwo\n"),
    "git grep": ("git grep -n two", "file:2:two\n"),
    "a pipe": ("cat file | sort -r | head -1", "two\n"),
    "a here-document": ("cat <<X\nhere\nX", "here\n"),
    "a substituted file": ("cat < <(echo there)", "there\n"),
    "what goes nowhere": ("echo x > /dev/null; echo $?", "0\n"),
    "chance": ("head -c 8 /dev/urandom | wc -c", "8\n"),
    "its own temporary file": ('f=$(mktemp) && echo y > "$f" && cat "$f" && rm "$f"', "y\n"),
    "names of people": ("id -un", None),
    "a child of its own": ("sleep 60 & kill $!; wait $! ; echo $?", "143\n"),
    "exit codes": ("(exit 7); echo $?", "7\n"),
    "python": ('"$PYTHON" -I -c "print(open(\'file\').read(3))"', "one\n"),
    "find": ("find . -name file -not -path './.git/*'", "./file\n"),
    "100 MB": ("head -c 104857600 /dev/zero | wc -c", "104857600\n"),
}


@pytest.mark.parametrize("row", MUST_WORK.values(), ids=MUST_WORK)
def test_what_only_looks_goes_on_as_outside(room: Room, row: tuple[str, str | None]) -> None:
    command, expected = row
    code, out = room.run(command, caged=True)
    assert code == 0, out
    assert out == room.run(command, caged=False)[1]
    assert expected in (None, out)


SETTINGS = {
    "core.fsmonitor": ('git config core.fsmonitor "touch {canary}; false"', "git status"),
    "diff.external": ('git config diff.external "touch {canary}; false"; echo x >> file', "git diff"),
    "a text converter": (
        'git config diff.x.textconv "touch {canary}; cat"; echo "file diff=x" > .gitattributes; echo x >> file',
        "git diff",
    ),
    "a filter": (
        'git config filter.x.clean "touch {canary}; cat"; echo "file filter=x" > .gitattributes; touch file',
        "git diff",
    ),
    "a pager": ('git config core.pager "touch {canary}; cat"', "git -p log"),
    "an alias": ('git config alias.seen "!touch {canary}"', "git seen"),
    "gpg": ('git config gpg.program "touch {canary}; true"', "git log --show-signature --format='%GK'"),
}


@pytest.mark.parametrize("row", SETTINGS.values(), ids=SETTINGS)
def test_a_program_that_a_repository_starts_is_in_the_cage_too(room: Room, row: tuple[str, str]) -> None:
    settings, command = row
    canary = room.outside / "canary"
    subprocess.run(["bash", "-c", settings.format(canary=canary)], cwd=room.workspace, check=True)
    room.run(command, caged=True)
    assert not canary.exists()


@pytest.mark.parametrize("name", ["core.fsmonitor", "diff.external", "a text converter", "an alias"])
def test_outside_the_cage_the_repository_starts_its_program(room: Room, name: str) -> None:
    settings, command = SETTINGS[name]
    canary = room.outside / "canary"
    subprocess.run(["bash", "-c", settings.format(canary=canary)], cwd=room.workspace, check=True)
    room.run(command, caged=False)
    assert canary.exists()


def test_an_inherited_directory_is_no_way_out(room: Room) -> None:
    descriptor = os.open(room.outside, os.O_RDONLY)
    try:
        line = ["cat", f"/proc/self/fd/{descriptor}/secret"]

        def passed() -> bytes:
            return subprocess.run(line, pass_fds=[descriptor], check=False, capture_output=True).stdout

        thread = RestrictedThread(Ruleset(look.system_paths()))
        assert thread.start(passed) == b""
        thread.end()
        assert passed() == b"hidden words\n"
    finally:
        os.close(descriptor)


@pytest.mark.skipif(not ends_what_it_starts(), reason="landlock does not keep signals here")
def test_what_left_its_session_and_its_environment_ends_with_the_cage(room: Room) -> None:
    seconds = f"4747.{os.getpid()}"
    with subprocess.Popen(["sleep", seconds]) as other:
        line = f"trap '' HUP TERM; (setsid env -i setsid bash -c 'exec sleep {seconds}' >/dev/null 2>&1 &); true"
        assert room.run(line, caged=True)[0] == 0
        found = subprocess.run(["pgrep", "-f", f"^sleep {seconds}"], capture_output=True, check=False)
        assert [int(pid) for pid in found.stdout.split()] == [other.pid]  # what is in no cage goes on
        other.kill()


def test_a_cage_for_which_there_is_no_thread_is_closed_all_the_same(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert room.run("true", caged=True)[0] == 0  # the thread that makes the others is there
    cage = LookCage([room.workspace])

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(OSError, match="new thread"):
        cage.start(lambda _: None, os.environ, None)
    cage.close()


def test_a_thread_in_no_domain_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ruleset = Ruleset(look.system_paths())
    thread = RestrictedThread(ruleset)
    sent: list[tuple[int, int]] = []
    really = os.kill

    def kill(pid: int, number: int) -> None:
        sent.append((pid, number))
        really(pid, number) if pid > 0 else None

    monkeypatch.setattr(os, "kill", kill)
    thread._outer.end_inner_domain()  # called by this thread, which is free
    assert not ends_what_it_starts() or [number for _, number in sent] == [0]


def test_the_rest_of_this_process_stays_free(room: Room) -> None:
    assert room.run("true", caged=True) == (0, "")
    (room.workspace / "ours").write_text("x")
    with closing(socket.socket()):
        pass
    freed: list[bool] = []
    thread = threading.Thread(target=lambda: freed.append((room.outside / "secret").is_file()))
    thread.start()
    thread.join()
    assert freed == [True]
    os.kill(int(str(room.facts["OTHER"])), signal.SIGCONT)


def test_a_step_that_fails_starts_nothing(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ruleset: Ruleset) -> None:
        raise LandlockError(1, "no")

    monkeypatch.setattr(Ruleset, "restrict_thread", refuse)
    started: list[object] = []
    cage = LookCage([room.workspace])
    with pytest.raises(LandlockError):
        cage.start(started.append, {}, None)
    assert started == []
    cage.close()


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)


def test_a_working_tree_of_git_s_own_reads_its_repository(room: Room) -> None:
    tree = room.root / "tree"
    git(room.workspace, "worktree", "add", "-q", str(tree))
    room.name = "tree"
    assert room.run("git status --short; git log --format=%s", caged=True) == (0, "first\n")


def test_a_git_file_that_nothing_leads_back_to_is_not_followed(room: Room) -> None:
    other = room.root / "hostile"
    other.mkdir()
    (other / ".git").write_text(f"gitdir: {room.workspace}/.git\n")
    room.name = "hostile"
    assert room.run("git log --format=%s", caged=False) == (0, "first\n")
    assert room.run("git log --format=%s", caged=True)[0] != 0


def test_a_folder_of_a_repository_is_read_by_git_and_the_files_beside_it_by_nobody(room: Room) -> None:
    (room.workspace / "sub").mkdir()
    (room.workspace / "sub" / "own").write_text("mine\n")
    git(room.workspace, "add", ".")
    git(room.workspace, "commit", "-qm", "second")
    (room.workspace / "file").write_text("not committed\n")
    room.name = "work space/sub"
    assert room.run("git log --format=%s; git status --short", caged=True)[1].startswith("second\nfirst\n")
    assert room.run("cat own", caged=True) == (0, "mine\n")
    assert "not committed" not in room.run("cat ../file", caged=True)[1]


@pytest.fixture
def without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    if bubblewrap().problem:
        pytest.skip(bubblewrap().problem)
    monkeypatch.setattr(look, "works", lambda: False)


@pytest.mark.usefixtures("without_landlock")
@pytest.mark.parametrize("command", [
    *(command for name, command in WRITES.items() if name != "/tmp"),  # its /tmp is its own
    'cat "$OUTSIDE/secret"', 'kill -0 "$OTHER"', 'test -d "/proc/$OTHER/fd"', "unshare -U true",
    '"$PYTHON" -c "import socket; socket.socket()"',
])  # fmt: skip
def test_without_landlock_bubblewrap_holds_what_only_reads(room: Room, command: str) -> None:
    before = listing(room.root)
    code, out = room.run(command, caged=True)
    assert look_works() and code != 0 and "hidden words" not in out
    assert listing(room.root) == before


@pytest.mark.usefixtures("without_landlock")
@pytest.mark.parametrize("command", [
    "cat file | grep two", "git status --short && git log --oneline", "cd /tmp && echo x > y && cat y", "ls -l && head -1 file",
])  # fmt: skip
def test_without_landlock_what_reads_works(room: Room, command: str) -> None:
    code, out = room.run(command, caged=True)
    assert code == 0, out
