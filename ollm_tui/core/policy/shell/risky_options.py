"""Find words that change what an approval covers: they run, write, delete, send or load.

Scripts of sed, awk and jq are judged by an allowlist; anything unusual counts as more than reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ollm_tui.core.policy.shell.program_table import EFFECTS, Flagged, program_key, tables
from ollm_tui.core.policy.shell.words import SimpleCommand, Word


def _expression(mark: str) -> str:
    """Return a regular expression for sed text up to its delimiter.

    A delimiter in brackets ends the text for one sed and not for another (`s/[/]/p;s/e;#/x/`): brackets that hold
    one, or a backslash before one, are not judged.
    """
    one = rf"(?:\[:[a-z]+:\]|\\[^\]\[{mark}\\\n]|[^\]\[{mark}\\\n])"
    brackets = rf"\[(?:\^|(?!\^))(?:\]{one}*|{one}+)\]"  # a `]` in the first place is one of them and closes nothing
    return rf"(?:[^\[{mark}\\\n]|\\[^\n]|{brackets})"


def _last_part(mark: str) -> str:
    """Return the form of `s/[^/]*$//`, common and read alike by every sed."""
    one = _expression(mark)
    return rf"s{mark}{one}{{0,2000}}\[\^?{mark}\]{one}{{0,2000}}{mark}{mark}[gpiI0-9]{{0,8}}"


_ADDRESS = rf"(?:[0-9]+|\$|/{_expression('/')}*/I?)"
_RANGE = rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~][0-9]+))?\s*!?\s*)?"
_MARKS = ("/", r"\|", "#", ",", "@", ":", "!")
_SUBSTITUTION = "|".join(
    [
        rf"s{mark}{_expression(mark)}{{0,2000}}{mark}(?:[^{mark}\\\n]|\\[^\n]){{0,2000}}{mark}[gpiI0-9]{{0,8}}"
        for mark in _MARKS
    ]
    + [_last_part(mark) for mark in _MARKS]
)
_TRANSLATION = r"y/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/"
_SED_COMMAND = re.compile(rf"\s*{_RANGE}(?:[pdqQ=lnNgGhHxD]|{_SUBSTITUTION}|{_TRANSLATION})\s*(?:[;\n]+|\Z)")
_MAX_SCRIPT = 2_000

_AWK_FORBIDDEN = re.compile(
    r"[>|@`]|\\\n|\b(?:system|getline|close|fflush|ARGV|ARGC|ARGIND|ENVIRON|SYMTAB|FUNCTAB|PROCINFO|load|include|"
    r"print_to|BEGINFILE|ENDFILE|nextfile|extension)\b"
)
_AWK_COMPARISON = re.compile(r"\A[\w$ \t+\-*%().!<>=&|,]+(?=\{|\Z)|\bif[ \t]*\([\w$ \t+\-*%.!<>=&|,]*\)", re.ASCII)
"""Where `>` can only compare: in a pattern before the first action and in an `if`, without strings in them."""

_JQ_FORBIDDEN = re.compile(
    r"\b(?:include|import|input_filename|env|modulemeta|getpath_file|debug|stderr|halt)\b|\$ENV|\$__"
)


def sed_is_harmless(script: str) -> bool:
    """Return whether a sed script only prints, deletes, substitutes and moves text."""
    if len(script) > _MAX_SCRIPT:
        return False
    position = 0
    while position < len(script):
        command = _SED_COMMAND.match(script, position)
        if command is None:
            return not script[position:].strip()
        position = command.end()
    return True


def awk_is_harmless(program: str) -> bool:
    """Return whether an awk program starts no commands and chooses no files."""
    if len(program) > _MAX_SCRIPT:
        return False
    compared = _AWK_COMPARISON.sub(lambda found: found[0].replace(">", "<"), program)
    return not _AWK_FORBIDDEN.search(compared.replace("||", " "))


def jq_is_harmless(program: str) -> bool:
    """Return whether a jq filter loads no modules and reads no environment."""
    return len(program) <= _MAX_SCRIPT and not _JQ_FORBIDDEN.search(program)


_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[+:?!]|::|:::)?=", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?![0-9])", re.ASCII)
_REMOTE = re.compile(r"ext::|[^/]*::|--|-|.*@.*-o|ssh://-", re.IGNORECASE)
_SCRIPT_OPTIONS = {"sed": ("-e", "--expression"), "awk": (), "jq": ()}
_HARMLESS = {"sed": sed_is_harmless, "awk": awk_is_harmless, "jq": jq_is_harmless}


@dataclass(frozen=True)
class RiskyOption:
    """Words `index` to `end` (exclusive) that a pattern must spell; `effect` says why."""

    index: int
    end: int
    effect: str
    option: str

    @property
    def reason(self) -> str:
        """The word and what it does, for people."""
        return f"{self.option} {EFFECTS.get(self.effect, self.effect)}"


def risky_options(command: SimpleCommand) -> list[RiskyOption]:
    """Return every word an approval covers only if its pattern spells it."""
    spec = tables().flagged.get(program_key(command.name)) if command.words else None
    if spec is None:
        return []
    found: list[RiskyOption] = []
    words = command.words
    if spec.slash:
        words = tuple([each._replace(text=f"-{each.text[1:]}") if each.text[:1] == "/" else each for each in words])
    if spec.commands is None:
        _check(words, 1, spec, found)
        module = tables().flagged.get(words[2].text) if len(words) > 3 and words[1].text == "-m" else None
        if module is not None:  # `python -m pytest --basetemp=/x`
            _check(words, 3, module, found)
        return found
    index = 1
    while index < len(words):
        word = words[index].text
        if not word.startswith("-") or word == "-":
            break
        _check_option(words, index, spec, found)
        index += 2 if word in spec.command_values else 1
    if index >= len(words):
        return found
    name = words[index]
    if not name.literal or name.text not in spec.commands:
        found.append(RiskyOption(index, index + 1, "a sub-command of its own that a pattern has to name", name.text))
    if spec.every is not None:
        _check(words, index + 1, spec.every, found, globs=name.text in spec.commands)
    sub = spec.sub.get(name.text)
    if sub is not None:
        _check(words, index + 1, sub, found)
    if spec.every is None and sub is None:
        _check(words, index + 1, spec, found)
    return found


def takes_commands(command: SimpleCommand) -> bool:
    """Return whether it runs its input: an interpreter without a script (`echo x | python`)."""
    spec = tables().flagged.get(program_key(command.name)) if command.words else None
    if spec is None or not spec.fed:
        return False
    rest = command.argv[1:]
    if len(rest) == 1 and rest[0] in ("--version", "--help", "-V", "-v", "-h", "-version"):
        return False
    return sum(not word.startswith("-") for word in rest) < spec.fed


def _check(words: tuple[Word, ...], start: int, spec: Flagged, found: list[RiskyOption], *, globs: bool = True) -> None:
    """Check words from `start` on; `globs`: whether a glob may match an option."""
    operands = 0
    options_end = False
    script_seen = not spec.script
    index = start
    while index < len(words):
        word = words[index]
        text = word.text
        if text == "--" and not options_end and not words[index - 1].text.startswith("-"):
            options_end = True
            if "--" in spec.long:  # `git checkout -- FILE`
                found.append(RiskyOption(index, index + 1, spec.long["--"], "--"))
        elif len(text) > 1 and text[0] == "-" and not options_end:
            before = len(found)
            _check_option(words, index, spec, found)
            if spec.region and len(found) > before and found[-1].effect == "runs":
                index = found[-1].end
                continue
            if spec.script and _script_option(words, index, spec, found):
                script_seen = True
                if text in _SCRIPT_OPTIONS[spec.script]:
                    index += 1
            elif text[0] == "-" and len(text) == 2 and text[1] in spec.values:
                index += 1
        else:
            if text == "-" and spec.dash:
                found.append(RiskyOption(index, index + 1, spec.dash, "-"))
            elif not script_seen:
                script_seen = True
                found.extend(_risky_script(word, index, spec.script))
            else:
                _check_operand(word, index, operands, spec, found, globs)
                operands += 1
        index += 1
    if spec.old_style and len(words) > start and not words[start].text.startswith("-"):
        _check_old_style(words[start], start, spec, found)


def _risky_script(word: Word, index: int, language: str) -> list[RiskyOption]:
    if word.literal and _HARMLESS[language](word.text):
        return []
    return [RiskyOption(index, index + 1, f"is a {language} script that may do more than read", word.text)]


def _check_option(words: tuple[Word, ...], index: int, spec: Flagged, found: list[RiskyOption]) -> None:
    word = words[index]
    text = word.text
    end = len(words) if spec.region else index + 1
    name = text.split("=", 1)[0]
    effect = spec.single.get(name.lstrip("-"))
    if effect is None and spec.starts:
        effect = next((effect for start, effect in spec.starts.items() if name.startswith(start)), None)
    if effect is None and text.startswith("--"):
        effect = spec.long.get(name)
        if effect is None and len(name) > 2 and name not in spec.safe:
            # GNU programs and git accept abbreviations of long options
            effect = next((spec.long[option] for option in spec.long if option.startswith(name)), None)
    elif effect is None:
        for char in text[1:]:
            effect = spec.short.get(char)
            if effect is not None or char in spec.values:
                break
    if effect is None:
        return
    if spec.region and effect == "runs":
        end = _region_end(words, index)
    elif effect == "runs" and "=" not in text:
        end = min(index + 2, len(words))
    found.append(RiskyOption(index, end, effect, name))


def _region_end(words: tuple[Word, ...], index: int) -> int:
    """Return where the command of `-exec` ends; `+` counts only behind `{}`."""
    end = index + 1
    while end < len(words):
        if words[end].text == ";" or (words[end].text == "+" and words[end - 1].text == "{}"):
            return end + 1
        end += 1
    return end


def _script_option(words: tuple[Word, ...], index: int, spec: Flagged, found: list[RiskyOption]) -> bool:
    """Check the script of `-e SCRIPT` or `--expression=SCRIPT`; True when there is one."""
    text = words[index].text
    if spec.script != "sed":
        return False
    if text == "--expression" or (not text.startswith("--") and text.endswith("e")):
        script = words[index + 1] if index + 1 < len(words) else None
        if script is None or not script.literal or not sed_is_harmless(script.text):
            found.append(
                RiskyOption(index, min(index + 2, len(words)), "is a sed script that may do more than read", text)
            )
        return True
    if text.startswith("--expression="):
        if not words[index].literal or not sed_is_harmless(text.split("=", 1)[1]):
            found.append(RiskyOption(index, index + 1, "is a sed script that may do more than read", text))
        return True
    if not text.startswith("--") and "e" in text:
        found.append(RiskyOption(index, index + 1, "is a sed script that may do more than read", text))
        return True
    return False


def _check_operand(word: Word, index: int, operands: int, spec: Flagged, found: list[RiskyOption], globs: bool) -> None:
    text = word.text
    effect = ""
    if spec.response and text.startswith("@"):
        effect = spec.response
    elif spec.plus and text.startswith("+"):
        effect = spec.plus
    elif text in spec.words:
        effect = spec.words[text]
    elif spec.operand and operands == 0:
        effect = spec.operand
    elif spec.assigned and _ASSIGNED.match(text):
        effect = spec.assigned
    elif spec.beyond is not None and operands >= spec.beyond:
        effect = spec.beyond_effect
    elif spec.schemes and (scheme := _SCHEME.match(text)):
        effect = "" if scheme[1].lower() in spec.schemes else "loads"
    elif spec.remote and _REMOTE.match(text):
        effect = "runs"
    elif spec.refspec and text[:1] in "+:":
        effect = "deletes"
    if effect:
        found.append(RiskyOption(index, index + 1, effect, text))
    elif globs and word.glob and text[0] in "*?[" and not spec.empty:
        # a file called --output=x would become an option
        found.append(RiskyOption(index, index + 1, "may match a file whose name is an option", text))


def _check_old_style(word: Word, index: int, spec: Flagged, found: list[RiskyOption]) -> None:
    """Check a first operand that is a cluster of options: `tar xIf`."""
    for char in word.text:
        effect = spec.short.get(char)
        if effect is not None:
            found.append(RiskyOption(index, index + 1, effect, word.text))
            return
