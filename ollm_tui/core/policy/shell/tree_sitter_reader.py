"""The tree-sitter reader of command lines: word boundaries and nested commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

_LEAVES = frozenset({"word", "number", "raw_string"})
_STRUCTURE = frozenset(
    {"program", "list", "pipeline", "subshell", "compound_statement", "negated_command", "redirected_statement"}
)
_INSIDE_WORDS = frozenset(
    {
        "word",
        "number",
        "raw_string",
        "string",
        "string_content",
        "concatenation",
        "simple_expansion",
        "variable_name",
        '"',
        "$",
    }
)
_EXPRESSIONS = frozenset({"unary_expression", "binary_expression"})
_TEST_WORDS = frozenset({"[", "]", "!", "=", "==", "!=", "test_operator"})
"""What stands between the operands of `[ ... ]`, each a word to bash; `(`, `<` and patterns are not understood."""
_OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "&", "\n", "(", ")", "{", "}", "!"})
_NOT_WORDS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect", "variable_assignment"})
COMMAND_NODES = frozenset({"command", "declaration_command", "unset_command", "test_command"})

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")

Span = tuple[int, int]


class TreeReading:
    """Spans (in characters) of words and redirections; `obstacle` if not understood."""

    def __init__(self) -> None:
        self.commands: list[list[Span]] = []
        self.redirections: list[Span] = []
        self.obstacle = ""


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # loaded with the first line that is judged, not at start-up
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse(line: str) -> Tree:
    """Parse a line; spans count characters.

    Letters beyond ASCII are parsed as `%`, to bash as ordinary inside a word as they are: the grammar's C scanner looks
    them up in a table of 256 entries and crashes the process (tree-sitter-bash 0.25.1, its issue 337: `{` and U+31860).
    """
    plain = line if line.isascii() else _BEYOND_ASCII.sub("%", line)
    return _parser().parse(plain.encode("ascii"))


def read_tree(tree: Tree) -> TreeReading:
    """Return the words of every command, if all node types are understood."""
    reading = TreeReading()
    root = tree.root_node
    if root.has_error:
        reading.obstacle = "the parser reports a syntax error"
        return reading
    todo = [root]
    while todo:
        node = todo.pop()
        for child in node.children:
            kind = child.type
            if kind in ("command", "test_command"):
                spans: list[Span] = []
                words = child.children if kind == "command" else _flat(child)
                if not _command_words(words, spans, reading):
                    return reading
                reading.commands.append(spans)
            elif kind == "file_redirect":
                reading.redirections.append((child.start_byte, child.end_byte))
            elif kind in _STRUCTURE:
                todo.append(child)
            elif kind not in _OPERATORS and kind != "comment":
                reading.obstacle = f"{_kind_for_people(kind)} is not among what can be judged"
                return reading
    reading.commands.sort()
    reading.redirections.sort()
    return reading


def _flat(test: Node) -> list[Node]:
    """Return the words of `[ ... ]` in order, out of the expressions in the tree."""
    words: list[Node] = []
    todo = [test]
    while todo:
        node = todo.pop()
        if node is test or node.type in _EXPRESSIONS:
            todo.extend(reversed(node.children))
        else:
            words.append(node)
    return words


def _command_words(words: list[Node], spans: list[Span], reading: TreeReading) -> bool:
    for child in words:
        kind = child.type
        if kind == "file_redirect":
            reading.redirections.append((child.start_byte, child.end_byte))
            continue
        if kind not in _LEAVES and kind not in _TEST_WORDS:
            inner = child.children[0] if kind == "command_name" else child
            unknown = "" if inner.type in _LEAVES else _unknown_within(inner)
            if unknown:
                reading.obstacle = f"{_kind_for_people(unknown)} is not among what can be judged"
                return False
        spans.append((child.start_byte, child.end_byte))
    return True


def _unknown_within(word: Node) -> str:
    todo = [word]
    while todo:
        node = todo.pop()
        if node.type not in _INSIDE_WORDS:
            return node.type
        todo.extend(node.children)
    return ""


def _kind_for_people(kind: str) -> str:
    return kind.replace("_", " ")


def last_program_word(tree: Tree, line: str) -> str | None:
    """Return the word naming the program that gives the exit code, if known."""
    node: Node | None = tree.root_node
    if tree.root_node.has_error:
        return None
    while node is not None:
        match node.type:
            case "command":
                name = node.child_by_field_name("name")
                return None if name is None else _slice(name, line)
            case "test_command":
                return _slice(node.children[0], line)
            case "redirected_statement":
                node = node.child_by_field_name("body")
            case "program" | "list" | "pipeline" | "subshell" | "compound_statement":
                node = next((each for each in reversed(node.named_children) if each.type != "comment"), None)
            case _:  # `! cmd` turns the code round, loops and conditions have one of their own
                return None
    return None


@dataclass(frozen=True)
class FoundCommand:
    """A command anywhere in a tree; `fed` are its here-documents."""

    words: tuple[str, ...]
    source: str
    fed: tuple[str, ...] = ()


def commands_anywhere(tree: Tree, line: str, limit: int) -> list[FoundCommand]:
    """Return every command of the tree, outermost first, at most `limit`."""
    found: list[FoundCommand] = []
    todo: list[tuple[Node, tuple[str, ...]]] = [(tree.root_node, ())]
    while todo and len(found) < limit:
        node, fed = todo.pop()
        children = node.children
        if node.type == "redirected_statement":
            fed = (*fed, *_here_texts(children, line))
        elif node.type in COMMAND_NODES:
            parts = _flat(node) if node.type == "test_command" else children
            words = tuple([_slice(part, line) for part in parts if part.type not in _NOT_WORDS])
            found.append(FoundCommand(words, _slice(node, line), (*fed, *_here_texts(children, line))))
            fed = ()
        todo.extend([(child, fed) for child in reversed(children)])
    return found


def _here_texts(children: list[Node], line: str) -> list[str]:
    texts: list[str] = []
    for child in children:
        if child.type == "heredoc_redirect":
            texts.extend(_slice(part, line) for part in child.children if part.type == "heredoc_body")
        elif child.type == "herestring_redirect":
            texts.extend(_slice(part, line) for part in child.named_children)
    return texts


def _slice(node: Node, line: str) -> str:
    return line[node.start_byte : node.end_byte]
