"""The sentences that work without a model, and their tool calls.

Every text in a call is copied from the sentence; nothing is guessed. What fits no form is not understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ollm_tui.core.base.results import JsonObject

_QUOTES = "\"'`“”‘’"
_NO_NAME = r"(?!(?:me|it|this|that|them|these|those|all|everything|something|nothing|a|an|the|my)(?:\s|\Z))"
_PATH = rf"(?:[{_QUOTES}][^{_QUOTES}\n]+[{_QUOTES}]|{_NO_NAME}[^\s{_QUOTES}]+)"
_FILE = rf"(?:[{_QUOTES}][^{_QUOTES}\n]+[{_QUOTES}]|[^\s{_QUOTES}]*[./][^\s{_QUOTES}]*)"
"""A name that can only be a file's: new files need no confirmation, so a mere word is not enough."""
_TEXT = rf"(?:[{_QUOTES}].+?[{_QUOTES}]|[^\s{_QUOTES}]+)"
_THE_FILE = r"(?:the )?(?:file )?"
_FOLDER = r"(?:the )?(?:folder |directory |dir )?"

_POLITE_START = re.compile(
    r"^\s*(?:(?:please|can you|could you|would you|will you|hey|hi|ok|okay|now|then|and|let me|let us|let's"
    r"|i want to|i want you to|i'd like to|i would like to|go ahead and|just)\b[,:]?\s+)+",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\s*(?:can|could|would|will) you\b.*\?\s*\Z", re.IGNORECASE | re.DOTALL)
_POLITE_END = re.compile(r"(?:,?\s+(?:please|thanks|thank you|for me|now))+\s*[.!?]*\s*$|[?!]+\s*$", re.IGNORECASE)

_LONGEST_PLAIN = 2_000
"""Characters of a sentence without free text; patterns are not tried on more."""


@dataclass(frozen=True)
class PlannedCall:
    """A call that a sentence asks for."""

    tool: str
    arguments: JsonObject


@dataclass(frozen=True)
class Form:
    """One kind of sentence: how it is shown in the list, how it is recognised, what it does."""

    usage: str
    tool: str
    patterns: tuple[str, ...]
    """Their groups are the arguments; `more` is a second path."""
    fixed: JsonObject
    """Arguments that every sentence of this form has."""
    verbatim: bool = False
    """The sentence ends with free text or a command, of which nothing is trimmed."""

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], ...]:
        flags = re.IGNORECASE | (re.DOTALL if self.verbatim else 0)
        return tuple(re.compile(pattern.replace(" ", r"[ \t]+"), flags) for pattern in self.patterns)

    def read(self, sentence: str) -> list[PlannedCall] | None:
        """Return the calls of a sentence of this form; None for others."""
        found = next(filter(None, (pattern.fullmatch(sentence) for pattern in self._compiled)), None)
        if found is None:
            return None
        parts = sorted(found.groupdict().items(), key=lambda part: _ORDER.get(part[0], 0))
        given = {name: _argument(name, text) for name, text in parts if text is not None}
        second = given.pop("more", None)
        calls = [PlannedCall(self.tool, {**self.fixed, **_grouped(given)})]
        if second:
            calls.append(PlannedCall(self.tool, {**self.fixed, **given, "path": second}))
        return calls


_ORDER = {"path": -1, "directory": 1}
_PATHS = ("path", "paths", "more", "directory", "from", "to")


def _argument(name: str, text: str) -> str | int:
    """Return the text of a group as an argument; a command keeps its quotes, all others lose theirs."""
    if name in ("startLine", "endLine"):
        return int(text)
    if name == "command":
        return text
    text = _bare(text)
    if name in _PATHS:
        # the sentence's comma or full stop is no part of a path
        text = text.rstrip(",;:")
        return text[:-1] if text.endswith(".") and text.strip("./") else text
    return text


def _grouped(given: dict[str, str | int]) -> JsonObject:
    """Return arguments as the tool takes them: one line is a range, target and replacement are an edit."""
    arguments: JsonObject = dict(given)
    if "startLine" in given:
        arguments.setdefault("endLine", given["startLine"])
    for name in ("paths", "packages"):
        if name in given:
            arguments[name] = [given[name]]
    if "target" in given:
        arguments["edits"] = [{name: arguments.pop(name) for name in ("target", "replacement")}]
    return arguments


def understand(sentence: str) -> tuple[Form, list[PlannedCall]] | None:
    """Return the form of a sentence and its calls; None when it has none."""
    whole = _POLITE_START.sub("", sentence.strip())
    if _QUESTION.match(sentence):
        whole = whole.rstrip(" ?")
    trimmed = _trimmed(whole)
    for form in FORMS:
        if not form.verbatim and len(trimmed) > _LONGEST_PLAIN:
            continue
        calls = form.read(whole if form.verbatim else trimmed)
        if calls is not None:
            return form, calls
    return None


def asks_for_help(sentence: str) -> bool:
    """Return whether the sentence asks for the list of forms."""
    words = _trimmed(_POLITE_START.sub("", sentence.strip())).casefold()
    return words in ("help", "?", "/help", "what can you do", "commands", "forms")


def _trimmed(sentence: str) -> str:
    return _POLITE_END.sub("", sentence).strip()


def _bare(text: str) -> str:
    """Return the text without the quotes around it."""
    inside = text[1:-1]
    quoted = len(text) >= 2 and text[0] in _QUOTES and text[-1] in _QUOTES
    return inside if quoted and text[0] not in inside and text[-1] not in inside else text


def _form(usage: str, tool: str, *patterns: str, verbatim: bool = False, **fixed: str | bool) -> Form:
    return Form(usage, tool, patterns, dict(fixed), verbatim)


FORMS: tuple[Form, ...] = (
    _form(
        "install PACKAGE with pip",
        "install_package",
        rf"(?P<manager>pip|npm) install (?P<packages>{_PATH})",
        rf"install (?:the )?(?:package )?(?P<packages>{_PATH}) (?:with|using|from) (?P<manager>pip|npm)",
    ),
    _form("format FILE", "format_code", rf"(?:format|reformat) {_THE_FILE}(?P<paths>{_FILE})"),
    _form(
        "check format of FILE",
        "format_code",
        rf"check (?:the )?format(?:ting)? (?:of|in) {_THE_FILE}(?P<paths>{_FILE})",
        check=True,
    ),
    _form("run the failed tests", "run_tests", r"(?:re)?run (?:the )?failed tests(?: again)?", lastFailed=True),
    _form(
        "run the tests [FILE]",
        "run_tests",
        rf"(?:run (?:the |all )*tests?|test)(?: (?:in |of )?(?P<paths>{_FILE}))?",
    ),
    _form(
        "run COMMAND",
        "shell",
        r"(?:run|exec|execute|shell)(?: the command)?:?\s+`(?P<command>[^`]+)`",
        r"(?:run|exec|execute|shell)(?: the command:?)?:?\s+(?!(?:the|my|all|a|it|this|that) )(?P<command>.+?)"
        r"(?:,? please[.!]?)?",
        r"[$!]\s*(?P<command>.+)",
        verbatim=True,
    ),
    _form(
        "overwrite FILE with TEXT",
        "write_file",
        rf"overwrite {_THE_FILE}(?P<path>{_PATH}) with(?: the (?:text|content))?:?\s+(?P<content>.+)",
        overwrite=True,
        verbatim=True,
    ),
    _form(
        "create FILE with TEXT",
        "write_file",
        rf"(?:create|make|new) (?:a |the )?(?:new )?(?:file )?(?:called |named )?(?P<path>{_FILE})"
        r" (?:with|containing|saying)(?: the)?(?: (?:text|content|contents))?:?\s+(?P<content>.+)",
        rf"(?:write|save|put) (?P<content>[{_QUOTES}].+[{_QUOTES}]) (?:to|into|in) {_THE_FILE}(?P<path>{_PATH})",
        verbatim=True,
    ),
    _form(
        "create FILE",
        "write_file",
        rf"(?:create|make|touch|new) (?:an? )?(?:empty |new )*(?:file )?(?:called |named )?(?P<path>{_FILE})",
        rf"(?:create|make|new) (?:an? )?(?:empty |new )*file (?:called |named )?(?P<path>{_PATH})",
        content="",
    ),
    _form("start t1", "write_todos", r"(?:start|begin)(?: (?:on )?(?:todo|task))? (?P<id>t\d+)", action="start"),
    _form(
        "done t1",
        "write_todos",
        r"(?:done|complete|finish|finished|check|tick)(?: (?:off |with )?(?:todo |task )?)?\s*(?P<id>t\d+)",
        r"(?:mark )?(?:todo |task )?(?P<id>t\d+) (?:is |as )?(?:done|complete|completed|finished)",
        action="complete",
    ),
    _form(
        "remove todo t1",
        "write_todos",
        r"(?:remove|delete|drop)(?: (?:the )?(?:todo|task))? (?P<id>t\d+)",
        action="remove",
    ),
    _form(
        "clear todos", "write_todos", r"(?:clear|tidy)(?: up)? (?:the |my )?(?:todos|todo list|tasks)", action="clear"
    ),
    _form(
        "todos",
        "write_todos",
        r"(?:(?:show|list|print|view) )?(?:me )?(?:the |my |all )*(?:todos|todo list|task list|tasks|todo)",
        action="list",
    ),
    _form(
        "todo TEXT",
        "write_todos",
        r"(?:(?:add|new) (?:an? )?)?(?:todo|task)(?: to|:)?\s+(?P<task>.+)",
        action="add",
        verbatim=True,
    ),
    _form(
        "remember NAME: TEXT",
        "memory",
        r"(?:remember|memorize|memorise|note) (?P<key>[\w.-]+)\s*(?::|=| is )\s*(?P<value>.+)",
        action="set",
        verbatim=True,
    ),
    _form("recall NAME", "memory", r"(?:recall|what is remembered (?:as|under)) (?P<key>[\w.-]+)", action="get"),
    _form("forget NAME", "memory", r"forget (?P<key>[\w.-]+)", action="delete"),
    _form("memories", "memory", r"(?:show |list )?(?:the |my |all )*(?:memories|memory)", action="list"),
    _form(
        "browse URL",
        "browser",
        r"(?:browse|visit|go) (?:to )?(?P<url>https?://\S+)",
        r"(?:open|show) (?P<url>https?://\S+) in the browser",
        action="open",
    ),
    _form("click REF", "browser", r"click (?:on )?(?P<selector>.+)", action="click"),
    _form(
        'type "TEXT" into REF',
        "browser",
        rf"type (?P<text>{_TEXT}) in(?:to)? (?P<selector>\S+)",
        action="type",
        verbatim=True,
    ),
    _form("press KEY [in REF]", "browser", r"press (?P<text>\S+)(?: in (?P<selector>\S+))?", action="press"),
    _form("page text [of REF]", "browser", r"(?:the )?page text(?: of (?P<selector>\S+))?", action="text"),
    _form("screenshot", "browser", r"(?:take )?(?:a )?screenshot(?: of the page)?", action="screenshot"),
    _form("go back", "browser", r"(?:go )?back", action="back"),
    _form("close browser", "browser", r"close (?:the )?browser", action="close"),
    _form("fetch URL", "web_fetch", r"(?:fetch|get|download|open|read) (?P<url>https?://\S+)"),
    _form(
        "web WORDS", "web_search", r"(?:web|search the web for|search online for|web search(?: for)?):?\s+(?P<query>.+)"
    ),
    _form(
        'replace "OLD" with "NEW" in FILE',
        "edit_file",
        rf"(?:replace|change|swap) (?P<target>{_TEXT}) (?:with|by|to|for) (?P<replacement>{_TEXT}) in"
        rf" {_THE_FILE}(?P<path>{_PATH})",
        rf"in {_THE_FILE}(?P<path>{_PATH}),? (?:replace|change) (?P<target>{_TEXT}) (?:with|by|to)"
        rf" (?P<replacement>{_TEXT})",
    ),
    _form("git status", "git_status", r"(?:show )?(?:the )?(?:git )?status|what (?:has )?changed"),
    _form("git diff [FILE]", "git_diff", rf"(?:show )?(?:the )?(?:git )?diff(?: (?:of |in )?(?P<paths>{_PATH}))?"),
    _form("git log", "git_log", r"git log|(?:show |list )?(?:the )?(?:last |recent )?commits"),
    _form("git show REVISION", "git_show", r"(?:git show|show (?:the )?commit) (?P<revision>[^\s:]+)"),
    _form("git blame FILE", "git_blame", rf"(?:git )?blame {_THE_FILE}(?P<path>{_PATH})"),
    _form("git branches", "git_branch", r"(?:git |list |show )?(?:the )?(?:branches|branch)", action="list"),
    _form("git add FILE", "git_add", rf"(?:git add|stage) {_THE_FILE}(?P<paths>{_PATH})"),
    _form(
        "git commit MESSAGE",
        "git_commit",
        r"git commit (?:-m )?(?P<message>.+)",
        r"commit (?:-m|with (?:the )?message:?) (?P<message>.+)",
        verbatim=True,
    ),
    _form(
        "have a sub-agent FORM",
        "task",
        r"(?:have |let )?(?:a |the )?sub-?agent (?:to )?(?P<prompt>.+)",
        verbatim=True,
        description="one form",
    ),
    _form("search code WORDS", "search_code", r"(?:search (?:the )?code|code search)(?: for)?:?\s+(?P<query>.+)"),
    _form(
        "delete folder FOLDER",
        "delete_file",
        rf"(?:delete|remove) (?:the )?(?:folder|directory|dir) (?P<path>{_PATH})",
        rf"rm -rf? (?P<path>{_PATH})",
        recursive=True,
    ),
    _form("delete FILE", "delete_file", rf"(?:delete|remove|rm|trash) {_THE_FILE}(?P<path>{_PATH})"),
    _form(
        "move FILE to FILE",
        "move_file",
        rf"(?:move|rename|mv) {_THE_FILE}(?P<from>{_PATH}) (?:to|into|as) (?P<to>{_PATH})",
        rf"mv (?P<from>{_PATH}) (?P<to>{_PATH})",
    ),
    _form(
        "tree [FOLDER]",
        "ls",
        rf"tree(?: (?:of |in )?{_FOLDER}(?P<path>{_PATH}))?",
        rf"ls -[rR](?: (?P<path>{_PATH}))?",
        rf"(?:list|show) (?:all |every )?(?:files? )?(?:in )?{_FOLDER}(?P<path>{_PATH}) (?:recursively|and below)",
        recursive=True,
    ),
    _form(
        "find PATTERN [in FOLDER]",
        "glob",
        rf"(?:find|glob|locate) (?:all |the |every )*(?:files? )?(?:called |named |like |matching )?"
        rf"(?P<pattern>[^\s{_QUOTES}]*[*?./\[][^\s{_QUOTES}]*)"
        rf"(?: (?:files )?(?:in|under|below) {_FOLDER}(?P<directory>{_PATH}))?",
        rf"glob (?P<pattern>{_PATH})(?: (?:in|under|below) {_FOLDER}(?P<directory>{_PATH}))?",
    ),
    _form(
        'grep "PATTERN" [in FOLDER]',
        "grep",
        rf"(?:grep|rg)(?: for)? (?P<pattern>{_TEXT})(?: (?:(?:in|under|through) )?{_FOLDER}(?P<directory>{_PATH}))?",
    ),
    _form(
        'search for "TEXT" [in FOLDER]',
        "grep",
        rf"(?:search|look|scan|find)(?: for)? (?:the )?(?:text |word )?(?P<pattern>{_TEXT})"
        rf"(?: (?:in|under|through) {_FOLDER}(?P<directory>{_PATH}))?",
        rf"search {_FOLDER}(?P<directory>{_PATH}) for (?P<pattern>{_TEXT})",
        rf"where (?:is|does) (?P<pattern>{_TEXT})(?: (?:used|defined|appear|occur))?"
        rf"(?: in {_FOLDER}(?P<directory>{_PATH}))?",
        fixedString=True,
    ),
    _form(
        "ls [FOLDER]",
        "ls",
        r"ls|dir|list|(?:list|show)(?: me)? (?:all |the |my )*files|what files are (?:there|here)",
        rf"(?:ls|dir) (?P<path>{_PATH})",
        rf"(?:list|show)(?: me)? (?:all |the )*(?:files |contents? )?(?:in|of|under) {_FOLDER}(?P<path>{_PATH})",
        rf"list (?:files )?{_FOLDER}(?P<path>{_PATH})",
        rf"(?:show|open) (?:the )?(?:folder|directory) (?P<path>{_PATH})",
        rf"what(?: is|'s| files are) in {_FOLDER}(?P<path>{_PATH})",
    ),
    _form(
        "read FILE lines 3-9",
        "read_file",
        rf"(?:read|show|view|print|cat)(?: me)? {_THE_FILE}(?P<path>{_PATH}),? (?:lines?|from)(?: line)?"
        r" (?P<startLine>\d+)(?:\s*(?:-|–|to|until)\s*(?P<endLine>\d+))?",
        rf"(?:read|show|view|print)(?: me)? lines? (?P<startLine>\d+)(?:\s*(?:-|–|to|until)\s*(?P<endLine>\d+))?"
        rf" (?:of|from|in) {_THE_FILE}(?P<path>{_PATH})",
    ),
    _form(
        "read FILE [and FILE]",
        "read_file",
        rf"(?:read|cat|show|open|view|print|display)(?: me)? {_THE_FILE}(?P<path>{_PATH})(?: and (?P<more>{_PATH}))?",
        rf"what does {_THE_FILE}(?P<path>{_PATH}) say",
    ),
)
"""Tried in this order; the first that fits the whole sentence counts."""
