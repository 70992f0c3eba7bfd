"""Cut source files into chunks that each say one thing: a function, the head of a class, a section, else some lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

WINDOW_LINES = 40
"""Lines of a chunk where nothing else tells where to cut."""
OVERLAP_LINES = 10
LONGEST_LINES = 80
"""A longer function is cut into windows."""
_DEEPEST = 8
"""Classes and name spaces within each other that are entered."""


_TEST = re.compile(
    r"(^|/)(tests?|testing|__tests__|specs?)/|(^|/)(test_|conftest\.)[^/]*$|[._](test|spec)s?\.\w+$", re.I
)


class Chunk(NamedTuple):
    """Lines of a file, 1-based, both ends included; `symbol` names what they define, with the class before a dot."""

    start: int
    end: int
    symbol: str = ""


@dataclass(frozen=True)
class _Grammar:
    """How a language is read: the module that brings it, and its nodes that define something."""

    module: str
    function: str = "language"
    leaves: str = ""
    """Definitions that are one chunk."""
    holders: str = ""
    """Definitions that hold further ones."""


_C = "function_definition"
_C_HOLDERS = (
    "struct_specifier union_specifier enum_specifier class_specifier namespace_definition linkage_specification"
)
_JS = "function_declaration generator_function_declaration method_definition lexical_declaration variable_declaration"
_GRAMMARS = {
    "python": _Grammar("tree_sitter_python", leaves="function_definition", holders="class_definition"),
    "javascript": _Grammar("tree_sitter_javascript", leaves=_JS, holders="class_declaration"),
    "typescript": _Grammar(
        "tree_sitter_typescript",
        "language_typescript",
        f"{_JS} interface_declaration type_alias_declaration enum_declaration abstract_method_signature",
        "class_declaration abstract_class_declaration internal_module",
    ),
    "tsx": _Grammar(
        "tree_sitter_typescript",
        "language_tsx",
        f"{_JS} interface_declaration type_alias_declaration enum_declaration",
        "class_declaration abstract_class_declaration",
    ),
    "go": _Grammar("tree_sitter_go", leaves="function_declaration method_declaration type_declaration"),
    "rust": _Grammar(
        "tree_sitter_rust",
        leaves="function_item struct_item enum_item macro_definition type_item",
        holders="impl_item trait_item mod_item",
    ),
    "java": _Grammar(
        "tree_sitter_java",
        leaves="method_declaration constructor_declaration",
        holders="class_declaration interface_declaration enum_declaration record_declaration",
    ),
    "c": _Grammar("tree_sitter_c", leaves=_C, holders=_C_HOLDERS),
    "cpp": _Grammar("tree_sitter_cpp", leaves=f"{_C} template_declaration", holders=_C_HOLDERS),
    "bash": _Grammar("tree_sitter_bash", leaves="function_definition"),
}
_BY_SUFFIX = {
    suffix: name
    for name, suffixes in {
        "python": "py pyi",
        "javascript": "js mjs cjs jsx",
        "typescript": "ts mts cts",
        "tsx": "tsx",
        "go": "go",
        "rust": "rs",
        "java": "java",
        "c": "c h",
        "cpp": "cc cpp cxx hh hpp hxx",
        "bash": "sh bash",
    }.items()
    for suffix in suffixes.split()
}
_WRAPPERS = frozenset({"decorated_definition", "export_statement", "declaration_list", "class_body", "block"})
"""Nodes between a definition and what it holds, or around it: looked through."""

_DOC_MARKS = {'"""': '"""', "'''": "'''", "/*": "*/"}
_COMMENT = re.compile(r"(?:^[ \t]*(?:#(?!#)|//)[^\n]*\n?)+", re.M)
_LOOKED_AT = 2_000
"""Characters in which a text says what it is."""
_SAID = 300
"""Characters of that which count."""

_HEADING = re.compile(rb"(#{1,6})\s+(.+?)\s*#*\s*\Z")
_FENCE = re.compile(rb"\s{0,3}(```|~~~)")


def is_test(path: str) -> bool:
    """Return whether a path names a test or what tests need."""
    return _TEST.search(path) is not None


def chunks_of(suffix: str, data: bytes) -> list[Chunk]:
    """Return the chunks of a file by the end of its name (`py`); the lines of each are its own, but for windows."""
    lines = data.split(b"\n")
    if suffix in ("md", "markdown"):
        owners = _sections(lines)
    else:
        name = _BY_SUFFIX.get(suffix, "")
        parser = _parser(name) if name else None
        if parser is None:
            return list(_windows(1, len(lines), "", lines))
        owners = _owners(parser.parse(data).root_node, _kinds(name), len(lines))
    found: list[Chunk] = []
    end = 0
    for symbol, run in groupby(owners):
        start, end = end + 1, end + len(list(run))
        found += _windows(start, end, symbol, lines)
    return found


def first_words(text: str) -> str:
    """Return what a text says of itself: its first docstring, else its first lines of comment; empty without one."""
    text = text[:_LOOKED_AT]
    opened = [(at, mark) for mark in _DOC_MARKS if (at := text.find(mark)) >= 0]
    if opened:
        at, mark = min(opened)
        return text[at + len(mark) :].partition(_DOC_MARKS[mark])[0].strip().partition("\n\n")[0][:_SAID]
    if "#" not in text and "//" not in text:  # as in most: finding that out costs a tenth of the search
        return ""
    comment = _COMMENT.search(text)
    return "" if comment is None else comment[0].strip()[:_SAID]


def _windows(start: int, end: int, symbol: str, lines: list[bytes]) -> Sequence[Chunk]:
    """Return the lines in pieces, those that follow each other sharing some; nothing where all are blank."""
    while start <= end and not lines[start - 1].strip():
        start += 1
    while end >= start and not lines[end - 1].strip():
        end -= 1
    if start > end:
        return ()
    if end - start < LONGEST_LINES:
        return (Chunk(start, end, symbol),)
    firsts = range(start, end - OVERLAP_LINES + 1, WINDOW_LINES - OVERLAP_LINES)
    return [Chunk(first, min(first + WINDOW_LINES - 1, end), symbol) for first in firsts]


@cache
def _parser(name: str) -> Parser | None:
    """Return a language's parser; None where its grammar is not installed."""
    grammar = _GRAMMARS[name]
    try:
        language: object = getattr(import_module(grammar.module), grammar.function)()
        return Parser(Language(language))
    except (ImportError, ValueError):  # not there, or made for another tree-sitter
        return None


@cache
def _kinds(name: str) -> Mapping[str, bool]:
    """Return the nodes that define something; true for those that hold further ones."""
    grammar = _GRAMMARS[name]
    return {**dict.fromkeys(grammar.leaves.split(), False), **dict.fromkeys(grammar.holders.split(), True)}


def _owners(root: Node, kinds: Mapping[str, bool], count: int) -> list[str]:
    """Return for each line the innermost definition it belongs to."""
    owners = [""] * count
    waiting: list[tuple[Node, str, int, int | None]] = [(root, "", 0, None)]
    while waiting:
        parent, above, depth, outer = waiting.pop()
        for node in parent.named_children:
            kind = node.type
            holds = kinds.get(kind)
            if holds is None:
                if kind in _WRAPPERS and depth < 2 * _DEEPEST:
                    # A decorator is a line of what it decorates.
                    start = node.start_point[0] if kind == "decorated_definition" else None
                    waiting.append((node, above, depth + 1, start))
                continue
            symbol = f"{above}.{_name_of(node)}" if above else _name_of(node)
            start, end = node.start_point[0] if outer is None else outer, min(node.end_point[0], count - 1)
            owners[start : end + 1] = [symbol] * (end + 1 - start)
            if holds and depth < _DEEPEST:
                waiting.append((node, symbol, depth + 1, None))
    return owners


def _name_of(node: Node) -> str:
    """Return the name in a definition; empty where it has none."""
    for _ in range(6):
        inner = next(filter(None, map(node.child_by_field_name, ("name", "declarator", "type", "trait"))), None)
        if inner is None:
            inner = next((child for child in node.named_children if child.type in _NAMED_WITHIN), None)
        if inner is None:
            break
        node = inner
        if not node.named_child_count:
            break
    text = node.text
    return "" if text is None or node.named_child_count > 3 else text.decode("utf-8", "replace").split("\n")[0][:80]


_NAMED_WITHIN = ("variable_declarator", "type_spec", "function_definition", "class_specifier", "identifier")


def _sections(lines: list[bytes]) -> list[str]:
    """Return for each line the headings it stands under."""
    owners: list[str] = []
    headings: list[tuple[int, str]] = []
    fenced = False
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else _HEADING.match(line)
        if heading is not None:
            level = len(heading[1])
            headings = [each for each in headings if each[0] < level]
            headings.append((level, heading[2].decode("utf-8", "replace")))
        owners.append(" > ".join(text for _, text in headings))
    return owners
