"""The fence: where paths lead, what is refused, and that nothing gets through by being swapped (001 R3.8)."""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.errors import FileNotFound, InvalidPath, IsADirectory, NoPermission, NotADirectory, ToolFailure
from ollm_tui.core.fence import openat
from ollm_tui.core.fence import workspace as workspace_module
from ollm_tui.core.fence.workspace import Access, Workspace
from tests.core.tools.file_calls import (
    Room,
    names,
    new_room,
    open_room,
    spelled,
    swapped_all_the_time,
    swapping,
    unprivileged,
)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture(params=["openat2", "walk"])
def way_of_opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "walk":
        monkeypatch.setattr(platform, "machine", lambda: "alpha")  # where the call has another number
    elif not openat.openat2_works():
        pytest.skip("this system has no openat2")
    return request.param


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(names, min_size=1, max_size=4))
def test_every_name_a_file_can_have_is_accepted_and_its_shown_form_leads_to_the_same_place(parts: list[str]) -> None:
    with new_room() as room:
        path = "/".join(parts)
        location = room.workspace.resolve(spelled(path), Access.WRITE)
        assert location.real == room.folder / path
        assert location.shown.isprintable()
        room.workspace.create_parents(location)
        location.real.write_bytes(b"here")
        again = room.workspace.resolve(location.shown)
        assert again.real == location.real
        assert os.read(room.workspace.open_for_reading(again), 9) == b"here"


@settings(max_examples=100, deadline=None)
@given(path=st.text(st.characters(exclude_characters="\0"), max_size=60), ups=st.integers(0, 6))
def test_no_text_leads_out_of_the_workspace(path: str, ups: int) -> None:
    with new_room() as room:
        for text in (path, "../" * ups + path, f"{room.folder}{path}", f"a/{'../' * ups}{path}"):
            try:
                location = room.workspace.resolve(text, Access.WRITE)
            except ToolFailure:
                continue
            assert location.real == room.folder or room.folder in location.real.parents


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.one_of(st.sampled_from(["..", ".", "", "l", "d", "deep"]), names), max_size=8))
def test_a_path_means_what_the_kernel_makes_of_it(steps: list[str]) -> None:
    with new_room() as room:
        (room.folder / "d" / "deep").mkdir(parents=True)
        (room.folder / "d" / "l").symlink_to("deep")
        (room.folder / "l").symlink_to("d/deep")
        text = "/".join(steps)
        assume(text and not text.startswith("/"))
        try:
            real = Path(os.path.realpath(os.path.join(room.folder, text), strict=True))
            os.stat(os.path.join(room.folder, text))
        except OSError:
            return
        inside = real == room.folder or room.folder in real.parents
        try:
            assert room.workspace.resolve(f"./{text}").real == real
            assert inside
        except InvalidPath:
            assert not inside


def test_dots_behind_a_link_lead_from_where_the_link_leads(room: Room) -> None:
    room.write("real/inner/x")
    room.write("real/y", "right")
    room.write("y", "wrong")
    (room.folder / "link").symlink_to("real/inner")
    assert room.workspace.resolve("link/../y").real == room.folder / "real/y"


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "out/passwd",
        "out",
        "a/../../x",
        "missing/../../x",
        "/proc/self/root/etc/passwd",
        "~/x",
        "~",
    ],
)
@pytest.mark.parametrize("access", list(Access))
def test_outside_is_refused_with_the_way_to_allow_it(room: Room, path: str, access: Access) -> None:
    (room.folder / "a").mkdir()
    (room.folder / "out").symlink_to("/etc")
    with pytest.raises(InvalidPath, match="--add-dir"):
        room.workspace.resolve(path, access)


def test_a_sibling_that_starts_with_the_same_letters_is_outside(room: Room) -> None:
    with pytest.raises(InvalidPath):
        room.workspace.resolve(f"{room.folder}-evil/x")


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_what_can_be_no_path_is_refused(room: Room, path: str) -> None:
    with pytest.raises(InvalidPath):
        room.workspace.resolve(path)


def test_a_name_that_is_too_long_is_refused(room: Room) -> None:
    with pytest.raises(InvalidPath):
        room.workspace.resolve("x" * 300)


def test_paths_that_go_on_behind_nothing_or_a_file_say_so(room: Room) -> None:
    room.write("file")
    with pytest.raises(FileNotFound):
        room.workspace.resolve("missing/../file")
    for path in ("file/x", "file/", "file/.", "file/.."):
        with pytest.raises(NotADirectory):
            room.workspace.resolve(path)


def test_links_inside_are_followed_whether_relative_absolute_or_dangling(room: Room) -> None:
    room.write("d/f")
    (room.folder / "absolute").symlink_to(room.folder / "d")
    (room.folder / "dangling").symlink_to("d/new")
    assert room.workspace.resolve("absolute/f").shown == "d/f"
    assert room.workspace.resolve("dangling", Access.WRITE).real == room.folder / "d/new"


def test_without_following_a_link_stands_for_itself_wherever_it_leads(room: Room) -> None:
    (room.folder / "out").symlink_to("/etc")
    for path in ("out", "out/"):
        assert room.workspace.resolve(path, Access.WRITE, follow=False).real == room.folder / "out"
    with pytest.raises(InvalidPath):
        room.workspace.resolve("out/passwd", Access.WRITE, follow=False)


def test_links_in_a_circle_are_refused(room: Room) -> None:
    (room.folder / "a").symlink_to("b")
    (room.folder / "b").symlink_to("a")
    with pytest.raises(InvalidPath):
        room.workspace.resolve("a")


def test_pipes_sockets_and_devices_are_refused_at_once(room: Room) -> None:
    os.mkfifo(room.folder / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(room.folder / "socket"))
    (room.folder / "null").symlink_to("/dev/null")
    started = time.monotonic()
    for name in ("pipe", "socket", "null"):
        for access in Access:
            with pytest.raises(InvalidPath):
                room.workspace.resolve(name, access)
    listener.close()
    assert time.monotonic() - started < 20


def test_a_pipe_that_takes_the_place_of_a_file_does_not_hang(room: Room, way_of_opening: str) -> None:
    place = room.write("f")
    location = room.workspace.resolve("f")
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(InvalidPath):
        room.workspace.open_for_reading(location)


def test_a_link_that_takes_the_place_of_a_directory_is_not_followed(room: Room, way_of_opening: str) -> None:
    room.write("d/secret", "mine")
    (room.outside / "secret").write_text("theirs")
    location = room.workspace.resolve("d/secret")
    (room.folder / "d").rename(room.folder / "old")
    (room.folder / "d").symlink_to(room.outside)
    with pytest.raises(ToolFailure):
        room.workspace.open_for_reading(location)
    with pytest.raises(ToolFailure):
        room.workspace.open_parent(location)


@pytest.mark.parametrize(
    ("path", "closest"),
    [
        ("Readme.md", ["README.md"]),
        ("src/mian.py", ["src/main.py"]),
        ("scr/main.py", ["src/main.py"]),
        ("scr/nothing", ["src"]),
        ("src/zzz", []),
        ("quite/other", []),
        ('a"b', ['"a\\"bc"']),
    ],
)
def test_what_comes_near_a_missing_file_is_named(room: Room, path: str, closest: list[str]) -> None:
    for name in ("README.md", "src/main.py", "src/other.txt", 'a"bc'):
        room.write(name)
    with pytest.raises(FileNotFound) as failure:
        room.workspace.open_for_reading(room.workspace.resolve(path))
    assert failure.value.details["closest"] == closest
    assert ("Did you mean" in failure.value.message) is bool(closest)
    assert all(name in failure.value.message for name in closest)


def test_opening_a_directory_for_reading_says_what_it_is(room: Room, way_of_opening: str) -> None:
    (room.folder / "d").mkdir()
    with pytest.raises(IsADirectory):
        room.workspace.open_for_reading(room.workspace.resolve("d"))


@swapping
def test_a_race_of_swapped_links_leaks_nothing(room: Room, way_of_opening: str) -> None:
    room.write("a/b/secret", "mine")
    (room.outside / "a/b").mkdir(parents=True)
    (room.outside / "a/b/secret").write_text("theirs")
    opened = refused = 0
    with swapped_all_the_time(room) as race:
        while race.goes_on(opened=opened, refused=refused):
            try:
                descriptor = room.workspace.open_for_reading(room.workspace.resolve("a/b/secret"))
            except ToolFailure:
                refused += 1
                continue
            content = os.read(descriptor, 100)
            os.close(descriptor)
            assert content == b"mine"
            opened += 1


@swapping
def test_a_race_of_swapped_links_lets_nothing_be_written_outside(room: Room, way_of_opening: str) -> None:
    room.write("a/b/file", "mine")
    (room.outside / "a/b").mkdir(parents=True)
    written = refused = 0
    with swapped_all_the_time(room) as race:
        while race.goes_on(written=written, refused=refused):
            try:
                location = room.workspace.resolve("a/b/new/file", Access.WRITE)
                made = room.workspace.create_parents(location)
                directory, name = room.workspace.open_parent(location)
            except ToolFailure:
                refused += 1
                continue
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=directory))
            os.unlink(name, dir_fd=directory)
            os.close(directory)
            room.workspace.remove_created(location, made)
            written += 1
            assert os.listdir(room.outside / "a/b") == []
    assert os.listdir(room.outside / "a/b") == []


def test_a_directory_is_opened_for_listing_and_never_through_a_link(room: Room, way_of_opening: str) -> None:
    room.write("d/inner")
    location = room.workspace.resolve("d")
    descriptor = room.workspace.open_directory(location)
    assert os.listdir(descriptor) == ["inner"]
    os.close(descriptor)
    (room.folder / "d").rename(room.folder / "old")
    (room.folder / "d").symlink_to(room.outside)
    with pytest.raises(ToolFailure):
        room.workspace.open_directory(location)


def test_directories_are_not_created_through_a_link(room: Room) -> None:
    (room.folder / "d").mkdir()
    location = room.workspace.resolve("d/x/y/file", Access.WRITE)
    (room.folder / "d").rmdir()
    (room.folder / "d").symlink_to(room.outside)
    with pytest.raises(ToolFailure):
        room.workspace.create_parents(location)
    assert list(room.outside.iterdir()) == []


def test_created_directories_are_taken_back_only_where_they_are_empty(room: Room) -> None:
    location = room.workspace.resolve("a/b/c/file", Access.WRITE)
    made = room.workspace.create_parents(location)
    assert made == ["a", "a/b", "a/b/c"]
    room.write("a/other")
    room.workspace.remove_created(location, made)
    assert room.all_names() == ["a", "a/other"]


def test_added_directories_can_be_written_and_are_shown_by_their_absolute_path(room: Room) -> None:
    workspace = Workspace(room.folder, [room.outside])
    location = workspace.resolve(f"{room.outside}/x", Access.WRITE)
    assert location.root == room.outside
    assert location.shown == f"{room.outside}/x"


def test_a_readable_directory_can_be_read_and_not_written(room: Room) -> None:
    (room.outside / "log").write_text("said")
    workspace = Workspace(room.folder, readable_roots=[room.outside])
    assert os.read(workspace.open_for_reading(workspace.resolve(f"{room.outside}/log")), 9) == b"said"
    with pytest.raises(InvalidPath, match="not written"):
        workspace.resolve(f"{room.outside}/log", Access.WRITE)


def test_a_workspace_reached_by_a_link_is_its_real_directory(room: Room, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(room.folder)
    workspace = Workspace(tmp_path / "alias")
    assert workspace.root == room.folder
    assert workspace.resolve(f"{tmp_path}/alias/x").shown == "x"


def test_a_workspace_that_is_no_directory_is_refused(room: Room) -> None:
    with pytest.raises(FileNotFound):
        Workspace(room.folder / "missing")
    with pytest.raises(NotADirectory):
        Workspace(room.write("file"))


def test_a_place_below_a_closed_directory_is_no_permission_and_outside_stays_outside() -> None:
    with open_room() as room:
        room.write("closed/x")
        (room.outside / "x").write_text("x")
        (room.folder / "closed").chmod(0)
        room.outside.chmod(0)
        with unprivileged():
            with pytest.raises(NoPermission):
                room.workspace.resolve("closed/x")
            with pytest.raises(InvalidPath):
                room.workspace.resolve(f"{room.outside}/x")
        (room.folder / "closed").chmod(0o700)
        room.outside.chmod(0o700)


ASKED_FOR_WRITING = [
    ".git/hooks/pre-commit",
    ".git/config",
    "sub/.git/config",
    ".GIT/config",
    ".gi\u200ct/config",
    ".github/workflows/ci.yml",
    ".github",
    ".gitlab-ci.yml",
    ".vscode/tasks.json",
    ".idea/x.xml",
    "AGENTS.md",
    "docs/Claude.md",
    ".mcp.json",
    ".bashrc",
    ".envrc",
    ".pnpmfile.cjs",
    ".yarnrc.yml",
    "sub/.cargo/config.toml",
    ".cargo",
    ".gdbinit",
    ".gitattributes",
    "Mise.toml",
    "mise.local.toml",
    ".env",
    ".env.production",
    "deploy/id_rsa",
    "server.pem",
    ".netrc",
    ".ssh/config",
]


@pytest.mark.parametrize("path", ASKED_FOR_WRITING)
def test_protected_names_ask_for_writing_in_every_spelling(room: Room, path: str) -> None:
    location = room.workspace.resolve(path, Access.WRITE)
    sensitivity = room.workspace.sensitivity(location, Access.WRITE)
    assert sensitivity is not None
    assert sensitivity.decision == "ask"
    assert sensitivity.reason


@pytest.mark.parametrize(
    "path", [".env.example", "src/env.py", ".gitignore", ".github/CODEOWNERS", "id_rsa.pub", "keys.py", "git/hooks/x"]
)
def test_ordinary_names_are_not_asked_about(room: Room, path: str) -> None:
    location = room.workspace.resolve(path, Access.WRITE)
    assert room.workspace.sensitivity(location, Access.WRITE) is None
    assert room.workspace.sensitivity(location, Access.READ) is None


@pytest.mark.parametrize("path", [".env", ".env.local", "a/.ENV", "id_ed25519", ".netrc", ".aws/credentials", "x.key"])
def test_credentials_ask_for_reading_too(room: Room, path: str) -> None:
    sensitivity = room.workspace.sensitivity(room.workspace.resolve(path), Access.READ)
    assert sensitivity is not None
    assert sensitivity.decision == "ask"


@pytest.mark.parametrize("path", [".git/config", "AGENTS.md", ".vscode/tasks.json", ".bashrc"])
def test_what_is_only_dangerous_to_change_can_be_read(room: Room, path: str) -> None:
    assert room.workspace.sensitivity(room.workspace.resolve(path), Access.READ) is None


def test_own_settings_ask_for_reading_and_are_denied_for_writing(room: Room) -> None:
    location = room.workspace.resolve(".ollm/config.toml", Access.WRITE)
    reading = room.workspace.sensitivity(location, Access.READ)
    writing = room.workspace.sensitivity(location, Access.WRITE)
    assert (reading and reading.decision, writing and writing.decision) == ("ask", "deny")


def test_own_folders_inside_the_workspace_are_denied_but_for_what_is_given_to_read(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(room.folder / "conf"))
    monkeypatch.setenv("XDG_STATE_HOME", str(room.folder / "state"))
    output = room.folder / "state" / "ollm-tui" / "sessions" / "1" / "output"
    output.mkdir(parents=True)
    workspace = Workspace(room.folder, readable_roots=[output])
    policy = workspace.resolve("conf/ollm-tui/config.toml", Access.WRITE)
    denied = workspace.sensitivity(policy, Access.WRITE)
    assert denied is not None
    assert denied.decision == "deny"
    assert workspace.sensitivity(workspace.resolve(str(output / "text")), Access.READ) is None


def test_a_second_name_of_protected_data_is_protected_too(room: Room) -> None:
    os.link(room.write(".env", "KEY=1"), room.folder / "innocent.txt")
    location = room.workspace.resolve("innocent.txt")
    for access in Access:
        assert room.workspace.sensitivity(location, access) is not None


@pytest.mark.parametrize(
    ("credential", "place"),
    [
        ("home/.ssh/work", "notes.txt"),
        ("home/.gnupg/private-keys-v1.d/x.key", "a/b"),
        ("home/.config/gh/hosts.yml", "a/b"),
        ("home/.netrc", "a/b/c"),
        ("workspace/server.pem", "a/b/c"),
        ("workspace/a/server.pem", "a/b/c"),
        ("workspace/.docker/config.json", "c"),
        ("workspace/.ollm/config.toml", "c"),
        ("added/.env", "c"),
    ],
)
def test_a_second_name_of_credentials_in_a_known_place_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, credential: str, place: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for path in (credential, f"workspace/{place}.near", "workspace/plain", "added/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("KEY=1")
    os.link(tmp_path / credential, tmp_path / "workspace" / place)
    os.link(tmp_path / "workspace/plain", tmp_path / "workspace/plain2")
    workspace = Workspace(tmp_path / "workspace", [tmp_path / "added"])
    for access in Access:
        found = workspace.sensitivity(workspace.resolve(place), access)
        assert found is not None
        assert found.decision == "ask"
        assert workspace.sensitivity(workspace.resolve("plain2"), access) is None
    (tmp_path / credential).unlink()
    assert workspace.sensitivity(workspace.resolve(place), Access.READ) is None


def test_many_threads_resolve_and_open_without_losing_descriptors(room: Room) -> None:
    room.write("a/b/c", "x")
    before = len(os.listdir("/dev/fd"))

    def work() -> None:
        for _ in range(200):
            os.close(room.workspace.open_for_reading(room.workspace.resolve("a/b/c")))
            os.close(room.workspace.open_parent(room.workspace.resolve("a/b/new", Access.WRITE))[0])
            with pytest.raises(ToolFailure):
                room.workspace.open_parent(room.workspace.resolve("no/such", Access.WRITE))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize(("name", "target"), [(".env", "envs/dev"), (".ssh", "keys"), (".aws", "deep/er/aws")])
def test_what_a_protected_name_links_to_is_protected_under_its_own_name(room: Room, name: str, target: str) -> None:
    place = room.folder / target
    place.parent.mkdir(parents=True, exist_ok=True)
    if name == ".env":
        place.write_text("TOKEN=1")
        asked = [target, name]
    else:
        place.mkdir()
        (place / "x").write_text("secret")
        asked = [f"{target}/x", f"{name}/x", f"{target}/not-yet"]
    (room.folder / name).symlink_to(place)
    for path in asked:
        for access in Access:
            found = room.workspace.sensitivity(room.workspace.resolve(path), access)
            assert found is not None and found.decision == "ask", (path, access)


def test_removing_a_link_to_what_is_protected_is_judged_by_the_links_own_place(room: Room) -> None:
    (room.folder / ".env").write_text("TOKEN=1")
    (room.folder / "link").symlink_to(".env")
    link = room.workspace.resolve("link", Access.WRITE, follow=False)
    assert room.workspace.sensitivity(link, Access.WRITE) is None
    assert room.workspace.sensitivity(room.workspace.resolve("link", Access.WRITE), Access.WRITE) is not None


def test_what_became_protected_a_moment_ago_is_protected_now(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered between two looks: not links, not files, not where this program keeps its own."""
    (room.folder / "plain").mkdir()
    (room.folder / "plain" / "x").write_text("x")

    def asked_about(path: str = "plain/x") -> bool:
        return room.workspace.sensitivity(room.workspace.resolve(path), Access.READ) is not None

    for _ in range(2):
        assert not asked_about()
        (room.folder / ".aws").symlink_to("plain")
        assert asked_about()
        (room.folder / ".aws").unlink()
        assert not asked_about()
        os.link(room.folder / "plain" / "x", room.folder / ".env")
        assert asked_about()
        (room.folder / ".env").unlink()
        monkeypatch.setenv("XDG_STATE_HOME", str(room.folder / "state"))
        assert not asked_about()
        (room.folder / "state").mkdir()
        (room.folder / "state" / "ollm-tui").symlink_to(room.folder / "plain")
        assert asked_about()
        (room.folder / "state" / "ollm-tui").unlink()
        assert asked_about("state/ollm-tui/not-yet/there")
        (room.folder / "state").rmdir()
        monkeypatch.delenv("XDG_STATE_HOME")


def test_a_denial_is_the_word_where_two_protected_names_lead_to_one_place(room: Room) -> None:
    (room.folder / ".git").mkdir()
    assert decided(room, ".git/x") == "ask"
    (room.folder / ".ollm").symlink_to(".git")
    (room.folder / "a").symlink_to(".git")
    assert decided(room, ".git/x") == decided(room, ".ollm/x") == decided(room, "a/x") == "deny"


def decided(room: Room, path: str) -> str | None:
    found = room.workspace.sensitivity(room.workspace.resolve(path, Access.WRITE), Access.WRITE)
    return found.decision if found is not None else None


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(names, min_size=1, max_size=4), folder=st.lists(names, min_size=0, max_size=3))
def test_lying_in_a_folder_is_told_by_components(parts: list[str], folder: list[str]) -> None:
    """By text, and as pathlib tells it."""
    place, around = "/" + "/".join(parts), "/" + "/".join(folder)
    inside = Path(place) == Path(around) or Path(around) in Path(place).parents
    assert workspace_module.lies_in(place, around) is inside
    if inside:
        below = Path(place).relative_to(around).as_posix()
        assert workspace_module._below(place, around) == ("" if below == "." else below)
