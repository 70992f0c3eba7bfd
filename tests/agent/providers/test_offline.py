"""`OfflineProvider`: plain forms become ordinary calls made of the person's own words; it never pretends to think."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.agent.providers import offline, offline_forms
from ollm_tui.agent.providers.offline import OfflineProvider
from ollm_tui.agent.providers.offline_forms import FORMS, understand
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    FinishReason,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from tests.agent.providers.collecting import asking, collect, tool

ALL_TOOLS = tuple(tool(name) for name in sorted({form.tool for form in FORMS}))

SENTENCES: dict[str, list[tuple[str, dict[str, object]]]] = {
    "ls": [("ls", {})],
    "ls zebra": [("ls", {"path": "zebra"})],
    "list files in quokka/lib": [("ls", {"path": "quokka/lib"})],
    "What is in the folder walrus?": [("ls", {"path": "walrus"})],
    "please show me all the files in lemur": [("ls", {"path": "lemur"})],
    "tree of gecko": [("ls", {"path": "gecko", "recursive": True})],
    "read ibis.toml": [("read_file", {"path": "ibis.toml"})],
    "Could you show me the file heron/egret.rs, please?": [("read_file", {"path": "heron/egret.rs"})],
    "cat 'my puffin.txt'": [("read_file", {"path": "my puffin.txt"})],
    "read stork.c and crane.c": [("read_file", {"path": "stork.c"}), ("read_file", {"path": "crane.c"})],
    "open finch.md.": [("read_file", {"path": "finch.md"})],
    "read raven.log lines 40-52": [("read_file", {"path": "raven.log", "startLine": 40, "endLine": 52})],
    "show line 77 of robin.py": [("read_file", {"path": "robin.py", "startLine": 77, "endLine": 77})],
    "find *.kt": [("glob", {"pattern": "*.kt"})],
    "find all files matching **/*.zig in otter": [("glob", {"pattern": "**/*.zig", "directory": "otter"})],
    'grep "FIXME later" in badger': [("grep", {"pattern": "FIXME later", "directory": "badger"})],
    r"grep fn\s+okapi": [("grep", {"pattern": r"fn\s+okapi"})],
    "grep Weasel": [("grep", {"pattern": "Weasel"})],
    "search for 'hello (world' in stoat": [
        ("grep", {"pattern": "hello (world", "directory": "stoat", "fixedString": True})
    ],
    "where is send_marmot defined?": [("grep", {"pattern": "send_marmot", "fixedString": True})],
    "git status": [("git_status", {})],
    "what changed?": [("git_status", {})],
    "git diff tapir.go": [("git_diff", {"paths": ["tapir.go"]})],
    "show the last commits": [("git_log", {})],
    "git show HEAD~2": [("git_show", {"revision": "HEAD~2"})],
    "blame okapi.rs": [("git_blame", {"path": "okapi.rs"})],
    "list branches": [("git_branch", {"action": "list"})],
    "stage 'my yak.txt'": [("git_add", {"paths": ["my yak.txt"]})],
    'git commit -m "Feed the yak"': [("git_commit", {"message": "Feed the yak"})],
    "browse http://127.0.0.1:8000/yak": [("browser", {"action": "open", "url": "http://127.0.0.1:8000/yak"})],
    "open http://yak.example/ in the browser": [("browser", {"action": "open", "url": "http://yak.example/"})],
    "click e7": [("browser", {"action": "click", "selector": "e7"})],
    "type 'two yaks' into e3": [("browser", {"action": "type", "text": "two yaks", "selector": "e3"})],
    "press Enter in e3": [("browser", {"action": "press", "text": "Enter", "selector": "e3"})],
    "page text": [("browser", {"action": "text"})],
    "take a screenshot": [("browser", {"action": "screenshot"})],
    "go back": [("browser", {"action": "back"})],
    "close the browser": [("browser", {"action": "close"})],
    "search the code for where yaks are fed": [("search_code", {"query": "where yaks are fed"})],
    "format tapir.go": [("format_code", {"paths": ["tapir.go"]})],
    "check the format of tapir.go": [("format_code", {"paths": ["tapir.go"], "check": True})],
    "pip install yak>=1.0": [("install_package", {"manager": "pip", "packages": ["yak>=1.0"]})],
    "install yak with npm": [("install_package", {"manager": "npm", "packages": ["yak"]})],
    "run the tests": [("run_tests", {})],
    "run the failed tests again": [("run_tests", {"lastFailed": True})],
    "test tests/test_yak.py": [("run_tests", {"paths": ["tests/test_yak.py"]})],
    "run cargo build --release": [("shell", {"command": "cargo build --release"})],
    'run echo "a  b" | wc -c': [("shell", {"command": 'echo "a  b" | wc -c'})],
    "$ uname -a": [("shell", {"command": "uname -a"})],
    "can you run `npm ci`?": [("shell", {"command": "npm ci"})],
    "create vole.txt with Some words, and more.": [
        ("write_file", {"path": "vole.txt", "content": "Some words, and more."})
    ],
    "create hare.py with:\nimport os\n\nprint(1)": [
        ("write_file", {"path": "hare.py", "content": "import os\n\nprint(1)"})
    ],
    'write "one two" to shrew.md': [("write_file", {"path": "shrew.md", "content": "one two"})],
    "create an empty file called Dormouse": [("write_file", {"path": "Dormouse", "content": ""})],
    "overwrite mole.cfg with k=1": [("write_file", {"path": "mole.cfg", "content": "k=1", "overwrite": True})],
    'replace "old tune" with "new tune" in lark.yml': [
        ("edit_file", {"path": "lark.yml", "edits": [{"target": "old tune", "replacement": "new tune"}]})
    ],
    "in wren.js replace foo by bar": [
        ("edit_file", {"path": "wren.js", "edits": [{"target": "foo", "replacement": "bar"}]})
    ],
    "delete the file swift.bak": [("delete_file", {"path": "swift.bak"})],
    "remove folder dist-condor": [("delete_file", {"path": "dist-condor", "recursive": True})],
    "move kiwi.txt to fruit/kiwi.txt": [("move_file", {"from": "kiwi.txt", "to": "fruit/kiwi.txt"})],
    'rename "a b" to "c d"': [("move_file", {"from": "a b", "to": "c d"})],
    "todo paint the shed": [("write_todos", {"action": "add", "task": "paint the shed"})],
    "add a todo: feed the alpaca": [("write_todos", {"action": "add", "task": "feed the alpaca"})],
    "show my todos": [("write_todos", {"action": "list"})],
    "start t12": [("write_todos", {"action": "start", "id": "t12"})],
    "done t7": [("write_todos", {"action": "complete", "id": "t7"})],
    "mark t9 as done": [("write_todos", {"action": "complete", "id": "t9"})],
    "remove todo t31": [("write_todos", {"action": "remove", "id": "t31"})],
    "clear todos": [("write_todos", {"action": "clear"})],
    "remember shoe-size: 43 and a half": [("memory", {"action": "set", "key": "shoe-size", "value": "43 and a half"})],
    "recall shoe-size": [("memory", {"action": "get", "key": "shoe-size"})],
    "fetch https://narwhal.example/x?y=1": [("web_fetch", {"url": "https://narwhal.example/x?y=1"})],
    "search the web for manatee habitats": [("web_search", {"query": "manatee habitats"})],
}

NOT_UNDERSTOOD = [
    "why is the sky blue?",
    "fix the bug in the parser",
    "make it faster",
    "create a website for my bakery",
    "delete everything",
    "show me",
    "read pelican.py and run it twice",
    "what does this project do?",
    "refactor tapir.go",
    "write a poem about rain",
    "",
    "   ",
    "ls; rm -rf /tmp/x y z",
]


def strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from strings(inner)
        case list():
            for inner in value:
                yield from strings(inner)
        case _:
            pass


def copied_from(sentence: str, arguments: dict[str, object]) -> bool:
    """Whether every text is a part of the sentence; `action` is the form itself."""
    return all(text in sentence for key, value in arguments.items() if key != "action" for text in strings(value))


async def offline_says(sentence: str, tools=ALL_TOOLS):
    return await collect(OfflineProvider(), asking(sentence, tools))


@pytest.mark.parametrize("sentence", SENTENCES)
async def test_a_plain_sentence_becomes_calls_made_of_its_own_words(sentence: str):
    got = await offline_says(sentence)
    assert got.called == SENTENCES[sentence]
    assert got.finish is FinishReason.TOOL_CALLS
    assert all(copied_from(sentence, call.arguments) for call in got.calls)


def test_the_sentences_are_not_written_into_the_source():
    source = inspect.getsource(offline_forms) + inspect.getsource(offline)
    assert len(SENTENCES) >= 40
    for calls in SENTENCES.values():
        for _, arguments in calls:
            for key, value in arguments.items():
                if key != "action":
                    assert not any(text in source for text in strings(value) if len(text) > 3)


@pytest.mark.parametrize("sentence", NOT_UNDERSTOOD)
async def test_anything_else_is_answered_with_the_forms_and_how_to_connect_a_model(sentence: str):
    got = await offline_says(sentence)
    assert got.calls == []
    assert got.finish is FinishReason.STOP
    assert "No AI model is connected" in got.text
    assert "`read FILE [and FILE]`" in got.text
    for way in ("--provider ollama", "--base-url http://127.0.0.1", "API key"):
        assert way in got.text


async def test_help_lists_what_there_is_and_nothing_else():
    got = await offline_says("help", (tool("ls"),))
    assert "`ls [FOLDER]`" in got.text
    assert "grep" not in got.text


async def test_a_form_whose_tool_is_missing_says_so():
    for sentence, missing in {"find *.kt": "glob", "grep x": "grep", "move a.b to c.d": "move_file"}.items():
        got = await offline_says(sentence, (tool("ls"),))
        assert got.calls == []
        assert f"{missing}, which is not available in this version" in got.text


@given(st.text())
def test_no_text_whatsoever_becomes_an_invented_argument(text: str):
    check_copied(text)


GRAMMAR = """run read create with to in delete move replace "a" 'b' find *.x grep ls todo t1 folder and lines 3-9
remember k: the file please write overwrite `c` ? ."""
FORM_LIKE = st.lists(st.sampled_from(GRAMMAR.split()) | st.text(max_size=5), min_size=1, max_size=9).map(" ".join)


@given(FORM_LIKE)
def test_words_of_the_grammar_in_any_order_become_no_invented_argument(text: str):
    check_copied(text)


def check_copied(text: str) -> None:
    understood = understand(text)
    for call in understood[1] if understood else ():
        assert copied_from(text, call.arguments)
        assert all(str(n) in text for n in call.arguments.values() if isinstance(n, int) and not isinstance(n, bool))


WALLS = {
    "command": "run " + "x" * 200_000,
    "open quote": 'replace "' + "a " * 100_000,
    "quotes": "create a.b with " + "'\n" * 100_000,
    "endings": 'write "' + '" to ' * 30_000,
    "politeness": "please " * 50_000,
    "stars": "find " + "*" * 100_000,
    "blanks": "todo" + " " * 100_000 + "\n",
}


@pytest.mark.parametrize("text", WALLS.values(), ids=WALLS)
def test_a_pasted_wall_of_text_is_answered_in_no_time(text: str):
    began = time.monotonic()
    understand(text)
    assert time.monotonic() - began < 10


def after(*results: ToolMessage) -> ChatRequest:
    calls = tuple(ToolCall(result.call_id, result.name, {}) for result in results)
    return ChatRequest((UserMessage("ls"), AssistantMessage("", calls), *results), ALL_TOOLS)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ToolMessage("a", "ls", "- x"), "Done: the result of `ls` is above."),
        (ToolMessage("a", "ls", "x", ToolOutcome.DENIED), "`ls` was denied, so nothing was done."),
        (ToolMessage("a", "ls", "No such thing: q\nmore", ToolOutcome.FAILED), "`ls` failed: No such thing: q"),
        (ToolMessage("a", "ls", "PolicyDeniedError: no", ToolOutcome.DENIED), "was denied"),
        (ToolMessage("a", "ls", "ConfirmationDenied: not today", ToolOutcome.DENIED), "was denied"),
        (
            ToolMessage("a", "ls", "FileNotFoundError: q: no such file", ToolOutcome.FAILED),
            "failed: FileNotFoundError: q: no such file",
        ),
        (
            ToolMessage("a", "ls", "half\n\nToolTimeoutError: 3 s", ToolOutcome.FAILED),
            "`ls` failed: ToolTimeoutError: 3 s",
        ),
        (ToolMessage("a", "shell", "Exit code: 2\n\nOutput:\nx", ToolOutcome.FAILED), "`shell` failed: Exit code: 2"),
        (ToolMessage("a", "shell", "Exit code: 0\n\nOutput:\nx"), "Done"),
        (ToolMessage("a", "ls", "Note: nothing here"), "Done"),
        (ToolMessage("a", "ls", ""), "Done"),
    ],
)
async def test_after_a_result_it_says_what_became_of_it_and_stops(result: ToolMessage, words: str):
    got = await collect(OfflineProvider(), after(result))
    assert words in got.text
    assert got.calls == []
    assert got.finish is FinishReason.STOP


async def test_the_next_sentence_after_a_result_is_read_again():
    request = after(ToolMessage("a", "ls", "- x"))
    got = await collect(OfflineProvider(), ChatRequest((*request.messages, UserMessage("read x.y")), ALL_TOOLS))
    assert got.called == [("read_file", {"path": "x.y"})]
    assert got.calls[0].id not in ("a", "")


def test_it_says_in_a_badge_and_a_first_message_that_it_is_no_model():
    described = OfflineProvider().describe()
    assert described.badge == "offline - no AI model"
    assert described.model is None
    assert described.greeting is not None
    assert all(f"\n{number}. " in described.greeting for number in (1, 2, 3))


EXAMPLES = {
    "FILE": "a.b",
    "FOLDER": "c",
    "COMMAND": "d -e",
    "PATTERN": "*.f",
    "NAME": "g",
    "OLD": "h",
    "NEW": "i",
    "URL": "https://j.k",
    "TEXT": "l",
    "WORDS": "m",
}


def test_every_form_that_is_listed_is_understood_as_it_is_listed():
    """With its capitals and optional parts filled in."""
    for form in FORMS:
        plain = form.usage.replace("[", "").replace("]", "")
        for word, example in EXAMPLES.items():
            plain = plain.replace(word, example)
        understood = understand(plain)
        assert understood is not None, plain
        assert understood[0] is form, plain
