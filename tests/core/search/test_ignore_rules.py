"""The lister names what git names (001 R4.12, 000 Property 24)."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ollm_tui.core.fence import dir_handle
from ollm_tui.core.fence.dir_handle import DirectoryCache, DirHandle
from ollm_tui.core.search.ignore_files import IgnoreChain, IgnoreFile, is_common
from ollm_tui.core.search.ignore_rules import parse
from ollm_tui.core.search.listing import Listing, ListingOptions
from ollm_tui.core.search.repository import Repository
from tests.core.tools.file_reads import git, listed_by_git, listed_by_us, write

CRAFTED: dict[str, str | bytes] = {
    ".gitignore": "*.log\n!keep.log\n/build/\nnode_modules/\ndoc/**/*.html\n**/gen/*.c\n\\#hash\n\\!bang\ntrail\\ \n"
    "spaces   \n*.[oa]\nx[!ab]y\nq?z\n[[:digit:]]dig\n{a,b}.brace\nunclosed[x\nlast\\\nfoo/**\n**/deep\na/**/b.txt\n"
    "case.TXT\n[]]bracket\n[a-c]range\nd**d\n/only-root.txt\ndirs/*/\n",
    "a.log": "", "keep.log": "", "s/b.log": "", "s/keep.log": "", "build/out.py": "", "s/build/in.py": "",
    "node_modules/x/y.js": "", "s/node_modules/z.js": "", "doc/a.html": "", "doc/p/q/a.html": "", "doc/a.txt": "",
    "gen/a.c": "", "m/gen/a.c": "", "m/gen/n/a.c": "", "#hash": "", "!bang": "", "trail ": "", "trail": "",
    "spaces": "", "f.o": "", "f.a": "", "f.b": "", "xay": "", "xcy": "", "qéz": "", "qaz": "", "7dig": "", "adig": "",
    "a.brace": "", "b.brace": "", "{a,b}.brace": "", "unclosed[x": "", "last\\": "", "last": "", "foo/bar/baz": "",
    "foox": "", "k/deep/f": "", "deep": "", "a/b.txt": "", "a/1/2/b.txt": "", "a/c.txt": "", "case.txt": "",
    "case.TXT": "", "]bracket": "", "brange": "", "drange": "", "dxxd": "", "only-root.txt": "", "s/only-root.txt": "",
    "dirs/one/f": "", "dirs/file": "", ".hidden/f": "", ".hidden.log": "",
    "sub/.gitignore": b"\xef\xbb\xbf*.bom\r\n!*.log\r\n/anch/\r\n",
    "sub/x.bom": "", "sub/x.log": "", "sub/anch/f": "", "sub/t/anch/f": "",
    "bad/.gitignore": b"*.first\n\xff\xfe*.bad\n*.second\n!a.log\n",
    "bad/a.first": "", "bad/a.second": "", "bad/a.log": "", "bad/a.third": "",
    "neg/.gitignore": "*\n!.gitignore\n!kept/\n!kept/f\n", "neg/kept/f": "", "neg/kept/g": "", "neg/other/f": "",
    "excluded.by-info": "", "s/excluded.by-global": "", "exc/in.by-info": "",
    "name\nwith newline.py": "", "forced/x.log": "", "forced.log": "", "ign/.gitignore": "*\n", "ign/tracked/f": "",
    "ign/untracked": "", "empty/": "",
}  # fmt: skip


@pytest.fixture
def crafted(tmp_path: Path, own_folders: Path) -> Path:
    root = tmp_path / "repo"
    write(root, CRAFTED)
    git(root, "init", "-q")
    (root / ".git/info/exclude").write_text("*.by-info\n")
    (own_folders / "my ignore").write_text("*.by-global\n")
    (own_folders / ".gitconfig").write_text('[core] ; comment\n\texcludesFile = "~/my ignore" # mine\n')
    with open(os.fsencode(root) + b"/b\xff.py", "wb"), open(os.fsencode(root) + b"/b\xff.log", "wb"):
        pass
    for link, target in {
        "to_file": "a.log",
        "to_dir": "s",
        "self": "self",
        "gone": "nowhere",
        "l.log": "keep.log",
    }.items():
        (root / link).symlink_to(target)
    (root / "linked").mkdir()
    (root / "linked/.gitignore").symlink_to("../.gitignore")
    (root / "linked/x.log2").touch()
    os.mkfifo(root / "pipe")
    git(root, "add", "-f", "forced/x.log", "forced.log", "ign/tracked/f", "a/c.txt", "deep")
    write(root, {"removed.txt": ""})
    git(root, "add", "removed.txt")
    (root / "removed.txt").unlink()
    nested = root / "nested"
    write(
        nested,
        {"c.log": "", ".gitignore": "*.tmp\n", "d.tmp": "", "in/f": "", "excluded.by-info": "", "x.by-global": ""},
    )
    git(nested, "init", "-q")
    git(nested, "add", "-f", "in/f")
    write(root, {"half/.git/": "", "half/f": "", "half/x.log": ""})
    return root


def test_names_exactly_what_git_names(crafted: Path) -> None:
    """Property 24, on every case that listers are known to get wrong."""
    assert listed_by_us(crafted) == listed_by_git(crafted)


@pytest.mark.parametrize("start", ["sub", "bad", "s", "a", "neg", "nested", "nested/in", "doc/p", "m/gen"])
def test_rules_of_parents_count_for_a_start_below(crafted: Path, start: str) -> None:
    """Property 24, started in a subdirectory, the fence drawn there too."""
    assert listed_by_us(crafted / start) == listed_by_git(crafted / start)


@pytest.mark.parametrize(
    "arguments",
    [("update-index", "--index-version", "4"), ("update-index", "--split-index"), ("add", "-A", "--", ".", ":!nested")],
)
def test_reads_every_form_of_the_index(crafted: Path, arguments: tuple[str, ...]) -> None:
    git(crafted, *arguments)
    (crafted / "later.log").touch()
    git(crafted, "add", "-f", "later.log")
    ours = listed_by_us(crafted)
    assert ours == listed_by_git(crafted)
    assert {b"forced.log", b"later.log", b"ign/tracked/f"} <= ours


def test_knows_worktrees_and_submodules(crafted: Path, tmp_path: Path) -> None:
    git(crafted, "commit", "-q", "-m", "x")
    git(crafted, "worktree", "add", "-q", str(tmp_path / "tree"))
    write(tmp_path / "tree", {"n.log": "", "n.by-info": "", "n.txt": ""})
    assert listed_by_us(tmp_path / "tree") == listed_by_git(tmp_path / "tree")
    repository = Repository.at(os.fsencode(tmp_path / "tree") + b"/")
    assert repository is not None
    assert repository.common_dir == os.fsencode(crafted) + b"/.git/"


def test_outside_a_repository_gitignore_files_count_all_the_same(tmp_path: Path) -> None:
    """Property 24, without a repository; rules above the allowed root do not."""
    root = tmp_path / "root"
    write(tmp_path, {".gitignore": "*\n"})
    write(
        root, {".gitignore": "*.log\n", "a.log": "", "a.py": "", "s/b.log": "", "s/.gitignore": "*.py\n", "s/c.py": ""}
    )
    assert listed_by_us(root) == {b".gitignore", b"a.py", b"s/.gitignore"}
    assert listed_by_us(root / "s", root) == {b".gitignore"}


def test_an_ignored_folder_that_was_asked_for_is_listed(crafted: Path) -> None:
    listing = Listing(DirHandle.at(os.fsencode(crafted / "build")), os.fsencode(crafted), ListingOptions())
    assert list(listing.files(links=True)) == [b"out.py"]
    assert listing.scopes.start_ignored


def test_ignored_files_are_listed_on_request_but_never_git_itself(crafted: Path) -> None:
    everything = listed_by_us(crafted, include_ignored=True)
    assert b"node_modules/x/y.js" in everything
    assert b"pipe" not in everything
    assert not [name for name in everything if b".git" in name.split(b"/")]


def test_an_unreadable_folder_is_noted_and_the_rest_listed(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can read every folder")
    write(tmp_path, {"a/f": "", "b/f": ""})
    (tmp_path / "a").chmod(0)
    listing = Listing(DirHandle.at(os.fsencode(tmp_path)), os.fsencode(tmp_path), ListingOptions())
    assert list(listing.files(links=True)) == [b"b/f"]
    assert listing.unreadable == [b"a/"]


def test_a_folder_that_vanishes_during_the_walk_is_noted(tmp_path: Path) -> None:
    write(tmp_path, {"a/f": "", "b/f": ""})
    listing = Listing(DirHandle.at(os.fsencode(tmp_path)), os.fsencode(tmp_path), ListingOptions())
    walk = listing.directories()
    next(walk)
    (tmp_path / "a/f").unlink()
    (tmp_path / "a").rmdir()
    assert [folder.files for folder in walk] == [[b"f"]]
    assert listing.unreadable == [b"a/"]


class TestFolderEntries:
    """A remembered folder is the folder as it is."""

    @pytest.fixture
    def entries(self, monkeypatch: pytest.MonkeyPatch) -> DirectoryCache:
        monkeypatch.setattr(dir_handle, "SETTLED", -(10**18))  # trusted at once, without waiting two seconds
        return DirectoryCache()

    def test_is_read_once_while_it_does_not_change(self, tmp_path: Path, entries: DirectoryCache) -> None:
        write(tmp_path, {"a": "", "d/": ""})
        first = entries.of(DirHandle.at(os.fsencode(tmp_path)), b"")
        assert (first.files, first.directories) == ([b"a"], [b"d"])
        (tmp_path / "a").write_text("other content")
        write(tmp_path, {"d/inner": ""})
        assert entries.of(DirHandle.at(os.fsencode(tmp_path)), b"") is first

    @pytest.mark.parametrize("change", ["add", "remove", "rename", "retype", "replace the folder"])
    def test_is_read_anew_after_any_change(self, tmp_path: Path, entries: DirectoryCache, change: str) -> None:
        folder = tmp_path / "folder"
        write(folder, {"a": "", "b": ""})
        entries.of(DirHandle.at(os.fsencode(folder)), b"")
        match change:
            case "add":
                (folder / "c").touch()
            case "remove":
                (folder / "a").unlink()
            case "rename":
                (folder / "a").rename(folder / "z")
            case "retype":
                (folder / "a").unlink()
                (folder / "a").mkdir()
            case _:
                times = folder.stat()
                write(tmp_path, {"other/x": ""})
                folder.rename(tmp_path / "gone")
                (tmp_path / "other").rename(folder)
                os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))
        seen = entries.of(DirHandle.at(os.fsencode(folder)), b"")
        assert sorted([*seen.files, *seen.directories]) == sorted(os.listdir(os.fsencode(folder)))
        assert seen.directories == ([b"a"] if change == "retype" else [])

    def test_a_folder_that_just_changed_is_not_remembered(self, tmp_path: Path) -> None:
        write(tmp_path, {"a": ""})
        fresh = DirectoryCache()
        assert fresh.of(DirHandle.at(os.fsencode(tmp_path)), b"") is not fresh.of(
            DirHandle.at(os.fsencode(tmp_path)), b""
        )

    def test_folders_of_the_system_are_never_remembered(self, entries: DirectoryCache) -> None:
        assert entries.of(DirHandle.at(b"/proc/self"), b"") is not entries.of(DirHandle.at(b"/proc/self"), b"")

    def test_forgets_before_it_grows_too_large(self, tmp_path: Path, entries: DirectoryCache) -> None:
        write(tmp_path, {f"{folder}/{name}": "" for folder in "abc" for name in "xyz"})
        small = DirectoryCache(names_kept=9)
        kept = [small.of(DirHandle.at(os.fsencode(tmp_path / folder)), b"") for folder in "abc"]
        assert [len(each.files) for each in kept] == [3, 3, 3]
        assert small.of(DirHandle.at(os.fsencode(tmp_path / "c")), b"") is kept[2]
        assert small.of(DirHandle.at(os.fsencode(tmp_path / "a")), b"") is not kept[0]


NAMES = st.text(
    st.one_of(st.characters(blacklist_characters="/\0", codec="utf-8"), st.sampled_from("abAB.é!#\\[]{}*? -")),
    min_size=1,
    max_size=6,
).filter(lambda name: name not in (".", "..", ".git") and len(name.encode()) < 60)
PARTS = st.one_of(
    NAMES,
    st.sampled_from(
        [
            "*",
            "**",
            "?",
            "a*",
            "*b",
            "[ab]",
            "[!a]",
            "[^b]x",
            "[[:alpha:]]",
            "\\a",
            "a\\",
            "[",
            "**a",
            "***",
            "a**",
            "é***",
        ]
    ),
)
PATTERNS = st.builds(
    lambda bang, lead, parts, tail: bang + lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " ", "\\ ", "\r"]),
)
RULES = st.lists(PATTERNS, max_size=6).map("\n".join)
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.none(), min_size=1, max_size=10)


NEAR = [
    "a",
    "b",
    "ab",
    "ax/b/f",
    "ax/y/b/f",
    "ax/y/zb",
    "x/a",
    "x/ab",
    "x/ac/d/b",
    "x/ay/b",
    "a*/b",
    "xab",
    "ax/x/b/f",
    "ax/yx/q/b",
    "ax/x/q/b",
]


@pytest.mark.parametrize(
    "pattern",
    [
        "a**/b",
        "/a***/b",
        "x/a**",
        "x/a**/",
        "!x/a**",
        "a**/**/b",
        "a**/*b",
        "a**\\/b",
        "a**/x**/b",
        "\\a**/b",
        "[a]**/b",
        "a?**/b",
        "x/**/b",
        "ax/**b",
        "a**",
        "**a/b",
        "a**/",
        "/a**",
        "a**/**b",
        "a**/**/**/b",
        "a**/x/**/b",
        "a**/b**",
    ],
)
def test_stars_behind_plain_text_cross_folders_where_git_lets_them(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, dict.fromkeys(NEAR, ""))
    before = "x/*\n" if pattern.startswith("!") else ""
    write(
        tmp_path,
        {".gitignore": f"{before}{pattern}\n", "s/.gitignore": pattern, "s/a/b": "", "s/ab": "", "s/ax/y/b": ""},
    )
    git(tmp_path, "init", "-q")
    assert listed_by_us(tmp_path) == listed_by_git(tmp_path)


@given(TREES, RULES, RULES, st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_property_24_random_trees_and_rules_are_listed_as_git_lists_them(
    tree: dict[str, None], top: str, below: str, data: st.DataObject
) -> None:
    """Property 24."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name in tree:
            try:
                write(root, {name: ""})
            except (OSError, ValueError):
                continue  # a file stands where this one needs a folder
        folders = sorted(path for path in root.rglob("*") if path.is_dir())
        write(root, {".gitignore": top})
        if folders:
            rules = data.draw(st.sampled_from(folders)) / ".gitignore"
            if not rules.exists():
                rules.write_text(below)
        git(root, "init", "-q")
        tracked = data.draw(st.sampled_from(sorted(tree)))
        if os.path.lexists(root / tracked):
            git(root, "add", "-f", "--", f":(literal){tracked}")
        assert listed_by_us(root) == listed_by_git(root)


@given(st.text(max_size=80), st.text(min_size=1, max_size=12).filter(lambda name: "/" not in name and "\0" not in name))
@settings(max_examples=100)
def test_no_text_of_a_rule_file_is_an_error(text: str, name: str) -> None:
    rules = parse(text.encode("utf-8", "surrogatepass"))
    chain = IgnoreChain().with_stronger(IgnoreFile(b"/r/", rules))
    raw = name.encode("utf-8", "surrogatepass")
    assert chain.ignored(b"/r/", [raw], directories=False) <= {raw}


def test_a_hostile_rule_takes_no_longer_than_a_plain_one() -> None:
    hostile = IgnoreChain().with_stronger(IgnoreFile(b"/", parse(b"*a" * 25 + b"b\n" + b"[a-z]*" * 20 + b"!\n")))
    started = time.perf_counter()
    assert hostile.ignored(b"/", [b"a" * 250] * 50, directories=False) == set()
    assert time.perf_counter() - started < 2  # a backtracking engine would need longer than anyone lives


@pytest.mark.parametrize(
    ("rules", "common"),
    [
        (b"*.py[cod]\n__pycache__/\n# any thing {} \\\n/dist\r\n!keep\n**/x\na/**/b\n", True),
        (b"{a,b}\n", False),
        (b"[[:alpha:]]\n", False),
        (b"a\\ b\n", False),
        (b"\xff\n", False),
        (b"caf\xc3\xa9\n", False),
        (b"a?\n", False),
        (b"x\t\n", False),
        (b"a**b\n", False),
    ],
)
def test_knows_which_rules_all_readers_understand_alike(rules: bytes, common: bool) -> None:
    assert is_common(rules) is common
