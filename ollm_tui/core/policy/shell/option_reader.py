"""Arguments of a program on the read-only list, read strictly by its option table."""

from __future__ import annotations

from ollm_tui.core.policy.shell.program_table import ReadOnlyForm
from ollm_tui.core.policy.shell.words import Word


class NotReadOnlyError(ValueError):
    """Something in the command is not on the read-only list; the message says what."""


class ParsedOptions:
    """What was given: option names (`-e`, `--regexp`), paths and globs named by options, scripts of `-e`, operands.

    `separated` is how many operands stood before a `--`, or None without one.
    """

    def __init__(self) -> None:
        self.options: set[str] = set()
        self.paths: list[str] = []
        self.scripts: list[str] = []
        self.globs: list[str] = []
        self.kinds: list[str] = []
        self.operands: list[str] = []
        self.separated: int | None = None


def read_arguments(words: tuple[Word, ...], start: int, spec: ReadOnlyForm) -> ParsedOptions:
    """Sort the words from `start` on into options and operands; raises NotReading at an option that is not listed."""
    given = ParsedOptions()
    values = spec.values
    index = start
    count = len(words)
    if spec.response and (held := next((word.text for word in words[start:] if word.text[:1] == "@"), "")):
        raise NotReadOnlyError(f"{held} may hold further options")
    while index < count:
        text = words[index].text
        index += 1
        behind_operands = bool(given.operands) and spec.ordered
        if given.separated is not None or text[:1] != "-" or text == "-" or behind_operands:
            given.operands.append(text)
        elif text == "--":
            given.separated = len(given.operands)
        elif text in spec.exact:
            given.options.add(text)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            given.options.add(name)
            if name in spec.long and (equals or name not in values):
                continue
            index = _take_value(name, value if equals else None, words, index, spec, given)
        else:
            for position in range(1, len(text)):
                name = "-" + text[position]
                given.options.add(name)
                if name in values or name in spec.script_options:
                    attached = text[position + 1 :] or None
                    if attached and spec.detached:
                        raise NotReadOnlyError(f"the option {name} is not the last of {text}")
                    index = _take_value(name, attached, words, index, spec, given)
                    break
                if text[position] not in spec.flags:
                    raise NotReadOnlyError(f"the option {name} is not among those that only read")
    return given


def _take_value(
    name: str, value: str | None, words: tuple[Word, ...], index: int, spec: ReadOnlyForm, given: ParsedOptions
) -> int:
    kind = "script" if name in spec.script_options else spec.values.get(name)
    if kind is None:
        raise NotReadOnlyError(f"the option {name} is not among those that only read")
    if value is None:
        if index >= len(words):
            raise NotReadOnlyError(f"the option {name} lacks its value")
        value = words[index].text
        index += 1
        if given.operands and not value.isdigit():
            given.paths.append(value)  # to a program that takes no options behind operands it is a file
    match kind:
        case "script":
            given.scripts.append(value)
        case "path":
            if value != "-":
                given.paths.append(value)
        case "kind":
            given.kinds.append(value)
        case "behind":
            given.paths.extend(value.rsplit(":", 1)[1:])
        case "glob":
            plain = value.lstrip("!")
            if not value.startswith("!"):
                given.globs.append(value)
            if not value.startswith("!") and plain:
                given.paths.append(plain.replace("*", "").replace("?", "").strip("/") or ".")
        case _:
            pass
    return index
