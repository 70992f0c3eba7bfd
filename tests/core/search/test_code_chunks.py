"""Where source files are cut, by language; and that no text makes the cutter fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.search.code_chunks import LONGEST_LINES, Chunk, chunks_of, first_words

SOURCES: dict[str, tuple[str, list[Chunk]]] = {
    "py": (
        "import os\n\n@cache\ndef one():\n    return 1\n\nclass Two(Base):\n    x = 1\n\n    async def three(self):\n        pass\n",
        [Chunk(1, 1), Chunk(3, 5, "one"), Chunk(7, 8, "Two"), Chunk(10, 11, "Two.three")],
    ),
    "js": (
        "export function one() {\n}\nclass Two {\n  three() {\n  }\n}\nconst four = () => {\n}\n",
        [Chunk(1, 2, "one"), Chunk(3, 3, "Two"), Chunk(4, 5, "Two.three"), Chunk(6, 6, "Two"), Chunk(7, 8, "four")],
    ),
    "ts": ("interface One {\n  a: string\n}\nenum Two { A }\n", [Chunk(1, 3, "One"), Chunk(4, 4, "Two")]),
    "go": (
        "package a\n\ntype One struct {\n}\n\nfunc (o One) Two() {\n}\n",
        [Chunk(1, 1), Chunk(3, 4, "One"), Chunk(6, 7, "Two")],
    ),
    "rs": (
        "struct One;\nimpl One {\n    fn two() {}\n}\nfn three() {}\n",
        [Chunk(1, 2, "One"), Chunk(3, 3, "One.two"), Chunk(4, 4, "One"), Chunk(5, 5, "three")],
    ),
    "java": ("class One {\n  void two() {\n  }\n}\n", [Chunk(1, 1, "One"), Chunk(2, 3, "One.two"), Chunk(4, 4, "One")]),
    "c": ("int one(void)\n{\n}\nstruct two { int a; };\n", [Chunk(1, 3, "one"), Chunk(4, 4, "two")]),
    "cpp": ("namespace n {\nint one() {\n}\n}\n", [Chunk(1, 1, "n"), Chunk(2, 3, "n.one"), Chunk(4, 4, "n")]),
    "sh": ("one() {\n  true\n}\n", [Chunk(1, 3, "one")]),
    "md": (
        "# A\ntext\n## B\n```\n# no heading\n```\n# C\n",
        [Chunk(1, 2, "A"), Chunk(3, 6, "A > B"), Chunk(7, 7, "C")],
    ),
    "txt": ("\n\nwords\nmore\n\n", [Chunk(3, 4)]),
    "": ("", []),
}


@pytest.mark.parametrize("suffix", SOURCES)
def test_files_are_cut_where_something_is_defined(suffix: str) -> None:
    text, expected = SOURCES[suffix]
    assert chunks_of(suffix, text.encode()) == expected


def test_long_texts_are_cut_into_windows_that_share_lines() -> None:
    text = "\n".join(f"line {number}" for number in range(LONGEST_LINES * 2))
    chunks = chunks_of("txt", text.encode())
    assert chunks[0] == Chunk(1, 40) and chunks[1].start == 31 and chunks[-1].end == LONGEST_LINES * 2
    body = "".join(f"    x = {number}\n" for number in range(LONGEST_LINES + 20))
    pieces = chunks_of("py", f"def long():\n{body}".encode())
    assert len(pieces) > 1 and {piece.symbol for piece in pieces} == {"long"}


@given(
    st.sampled_from(sorted(SOURCES)), st.text(max_size=200) | st.sampled_from([text for text, _ in SOURCES.values()])
)
@settings(max_examples=100, deadline=None)
def test_every_line_with_text_is_in_a_chunk_of_any_text(suffix: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    covered = {number for chunk in chunks_of(suffix, data) for number in range(chunk.start, chunk.end + 1)}
    assert {number for number, line in enumerate(data.split(b"\n"), 1) if line.strip()} <= covered


def test_nesting_has_an_end() -> None:
    text = "".join(f"{'  ' * depth}class C{depth}:\n" for depth in range(300)) + "  " * 300 + "x = 1\n"
    assert chunks_of("py", text.encode())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('def cut(apple):\n    """Cut an apple.\n\n    Slowly.\n    """\n    # not this\n', "Cut an apple."),
        ("'''Apples.'''\n" + '"""later"""', "Apples."),
        ("/** Cuts an apple. */\nfunction cut() {}\n", "* Cuts an apple."),
        ("x = 1\n# Cut\n# an apple\ny = 2\n# later\n", "# Cut\n# an apple"),
        ("func cut() {\n\t// Cut it.\n}\n", "// Cut it."),
        ('"""never ends', "never ends"),
        ("x = 1\n", ""),
        ("", ""),
    ],
)
def test_what_a_text_says_of_itself_is_its_first_docstring_or_comment(text: str, said: str) -> None:
    assert first_words(text) == said


@given(st.text(alphabet="\"'/*# \nab", max_size=3_000))
def test_any_text_says_at_most_so_much_of_itself(text: str) -> None:
    assert len(first_words(text)) <= 300
