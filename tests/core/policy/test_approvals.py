"""Approve and remember: what is offered, what it would have allowed, where it is kept."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.bus.states import RememberScope, Risk
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approvals import ApprovalStore, RememberOffer
from ollm_tui.core.policy.command_rules import CommandPolicy
from ollm_tui.core.policy.engine import Floor, JudgedCall, PolicyEngine, PolicySources
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision, Operator, PolicyCondition, PolicyRule, RuleSource
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.builtin import BUILTIN_TOOLS
from ollm_tui.options import Options
from ollm_tui.runtime import configure

TOOLS = {tool.name: tool for tool in BUILTIN_TOOLS}


def shell(command: str, **more: object) -> JudgedCall:
    return JudgedCall(TOOLS["shell"], {"command": command, "background": False}, Effect.RUNS, **more)  # type: ignore[arg-type]  # passed through


def edit(path: str, **more: object) -> JudgedCall:
    return JudgedCall(TOOLS["edit_file"], {"path": path, "edits": []}, Effect.WRITES, **more)  # type: ignore[arg-type]  # passed through


@pytest.fixture
def engine(tmp_path: Path) -> PolicyEngine:
    (tmp_path / "ws" / ".git").mkdir(parents=True)
    (tmp_path / "ws" / ".env").write_text("TOKEN=1\n")
    return PolicyEngine(configure(Options(workspace=tmp_path / "ws")).sources)


def offered(engine: PolicyEngine, call: JudgedCall, store: ApprovalStore | None = None) -> RememberOffer | None:
    return (store or ApprovalStore()).offer(engine, call, engine.explain(call))


@pytest.mark.parametrize(("command", "text"), [
    ("npm run build", "npm run build *"),
    ("pytest -q tests", "pytest *"),
    ("git commit -m 'x y'", "git commit *"),
    ("ls && make all", "make all *"),
    ("cargo build --release; cargo test", "cargo build *\ncargo test *"),
])  # fmt: skip
def test_the_narrowest_sensible_rule_is_offered(engine: PolicyEngine, command: str, text: str) -> None:
    offer = offered(engine, shell(command))
    assert offer is not None and offer.text == text


@pytest.mark.parametrize("command", [
    "rm a", "rm -rf build", "git clean -fd", "find . -delete", "sudo make", "chmod +x a", "kill 1",
    "make ../other", "cp a /tmp/x", "touch /etc/passwd", "cat .env", "cp .env x", "make --file=../Makefile",
    "make > out", "make $(ls)", "make &", "X=1 make", "for i in a; do make; done", "env make", "bash -c make",
    "make\u200b", "make \u202e x", "make " + "x" * 9_000, "eval make",
])  # fmt: skip
def test_nothing_is_offered_for_what_should_be_asked_every_time(engine: PolicyEngine, command: str) -> None:
    call = shell(command)
    assert engine.explain(call).decision is Decision.ASK
    assert offered(engine, call) is None
    with pytest.raises(ValueError, match="asked every time"):
        ApprovalStore().remember(engine, call, engine.explain(call), RememberScope.SESSION, None)


def test_nothing_is_offered_for_deletions_floors_plugins_and_places_outside(engine: PolicyEngine) -> None:
    deletion = JudgedCall(TOOLS["delete_file"], {"path": "a"}, Effect.WRITES)
    plugin = JudgedCall(replace(TOOLS["edit_file"], plugin=True), {"path": "a", "edits": []}, Effect.WRITES)
    floor = (Floor(Decision.ASK, "because"),)
    for call in (
        deletion,
        plugin,
        edit("a", inside_workspace=False),
        edit("a", floors=floor),
        shell("make", floors=floor),
    ):
        assert engine.explain(call).decision is Decision.ASK
        assert offered(engine, call) is None


def test_nothing_is_offered_where_a_rule_asks_for_commands_like_it(engine: PolicyEngine) -> None:
    condition = PolicyCondition(param="command", operator=Operator.STARTS_WITH, value="make")
    rule = PolicyRule(tool="shell", action=Decision.ASK, conditions=[condition])
    asking = PolicyEngine(
        replace(engine.sources, rule_sets=(RuleSet([(rule, RuleSource("user", 1))]), *engine.sources.rule_sets))
    )
    assert offered(asking, shell("make")) is None
    assert offered(asking, shell("make && npm test")) is None, "the other half alone would not have allowed the line"


def test_the_offer_says_what_else_it_would_have_allowed(engine: PolicyEngine) -> None:
    store = ApprovalStore()
    for command in (
        "pytest -x",
        "pytest tests/a.py",
        "npm test",
        "pytest -x",
        "pytest > out",
        "pytest ../other && make",
    ):
        store.record_question(shell(command))
    store.record_question(shell("pytest -k slow")).denied = True
    offer = offered(engine, shell("pytest -q"), store)
    assert offer is not None and offer.patterns == ("pytest *",)
    assert offer.also_allows == ("pytest -k slow (you denied it)", "pytest -x", "pytest tests/a.py")


def test_a_rule_about_a_file_speaks_of_that_file_alone(engine: PolicyEngine) -> None:
    store = ApprovalStore()
    for path in ("src/a.py", "src/b.py", "a.py"):
        store.record_question(edit(path))
    offer = offered(engine, edit("src/a.py"), store)
    assert offer is not None and offer.also_allows == ()
    assert offer.text == 'edit_file where path = "src/a.py"' and offer.editable
    wider = offer.reworded('edit_file where path startsWith "src/"')
    assert store.also_allowed(engine, edit("src/a.py"), wider) == ("edit_file src/b.py",)


@pytest.mark.parametrize(("wording", "said"), [
    ('shell where command = "x"', "can not be read"),
    ("edit_file", "can not be read"),
    ('edit_file where path like "x"', "can not be read"),
    ('edit_file where path = "src/a.py" or more', "can not be read"),
    ('edit_file where path = "src/b.py"', "would not have allowed this call"),
    ('edit_file where path matches "("', "does not compile"),
])  # fmt: skip
def test_a_wording_that_does_not_hold_is_refused_and_nothing_is_saved(
    engine: PolicyEngine, tmp_path: Path, wording: str, said: str
) -> None:
    path = tmp_path / "saved.toml"
    store = ApprovalStore({RememberScope.WORKSPACE: (path, ())})
    call = edit("src/a.py")
    with pytest.raises(ValueError) as refused:
        store.remember(engine, call, engine.explain(call), RememberScope.WORKSPACE, wording)
    assert said in str(refused.value) and not path.exists()


def test_what_is_of_high_risk_is_remembered_for_the_session_only(engine: PolicyEngine, tmp_path: Path) -> None:
    path = tmp_path / "saved.toml"
    store = ApprovalStore(dict.fromkeys((RememberScope.WORKSPACE, RememberScope.USER), (path, ())))
    call = shell("npm run build")
    explained = engine.explain(call)._replace(risk=Risk.HIGH)
    for scope in store.files:
        with pytest.raises(ValueError, match="for the session only"):
            store.remember(engine, call, explained, scope, None)
    wiser, _ = store.remember(engine, call, explained, RememberScope.SESSION, None)
    assert wiser.explain(call).decision is Decision.ALLOW and not path.exists()


def test_an_edited_pattern_has_to_allow_the_very_call(engine: PolicyEngine) -> None:
    call = shell("npm run build --silent")
    store = ApprovalStore()
    for wording in ("npm run build", "npm test *", "npm run lint *", ""):
        with pytest.raises(ValueError, match=r"would not have allowed|needs at least one word"):
            store.remember(engine, call, engine.explain(call), RememberScope.SESSION, wording)
    wiser, said = store.remember(engine, call, engine.explain(call), RememberScope.SESSION, "npm run *")
    assert wiser.explain(shell("npm run lint")).decision is Decision.ALLOW and "npm run *" in said
    assert engine.explain(shell("npm run lint")).decision is Decision.ASK, "the engine before stays as it was"


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
PROGRAMS = st.sampled_from(["npm", "make", "git", "docker", "cargo", "mytool", "pytest", "python", "sed", "kubectl"])


@given(
    st.lists(st.tuples(PROGRAMS, st.lists(WORDS, max_size=3)), min_size=1, max_size=2), st.sampled_from(RememberScope)
)
@settings(max_examples=100, deadline=None)
def test_a_saved_rule_allows_the_call_it_was_saved_from(
    tmp_path_factory: pytest.TempPathFactory, commands: list[tuple[str, list[str]]], scope: RememberScope
) -> None:
    root = tmp_path_factory.getbasetemp()
    path = root / f"{scope.value}.toml"
    sources = PolicySources((), Decision.ASK, (), CommandPolicy(workspace=Workspace(root)))
    line = " && ".join(shlex.join([program, *words]) for program, words in commands)
    engine, call = PolicyEngine(sources), shell(line)
    store = ApprovalStore({RememberScope.WORKSPACE: (path, ()), RememberScope.USER: (path, ("policy",))})
    offer = offered(engine, call, store)
    if offer is None:
        return
    wiser, _ = store.remember(engine, call, engine.explain(call), scope, None)
    assert wiser.explain(call).decision is Decision.ALLOW
    if scope is not RememberScope.SESSION:
        table = tomllib.loads(path.read_text())
        saved = (table if scope is RememberScope.WORKSPACE else table["policy"])["exec"]["approvals"]
        assert {row["pattern"] for row in saved} >= set(offer.patterns)


KEPT = """\
# my policy
default_action = "ask"   # as it should be

[exec]
mode = "allowlist"
approvals = [
    # builds
    { pattern = "make *", added_by = "user" },
]

[[rules]]
tool = "ls"      # looking is fine
action = "allow"
"""


def test_saving_keeps_comments_and_order_and_can_be_read_back(engine: PolicyEngine, tmp_path: Path) -> None:
    path = tmp_path / "workspace.toml"
    path.write_text(KEPT)
    store = ApprovalStore({RememberScope.WORKSPACE: (path, ())})
    for call in (shell("npm test"), edit("a.py")):
        store.remember(engine, call, engine.explain(call), RememberScope.WORKSPACE, None)
    text = path.read_text()
    for line in KEPT.splitlines():
        assert line in text
    table = tomllib.loads(text)
    assert [row["pattern"] for row in table["exec"]["approvals"]] == ["make *", "npm test *"]
    assert [row["tool"] for row in table["rules"]] == ["edit_file", "ls"], "the new rule is asked first"
    assert list(path.parent.glob("*tmp*")) == []


def test_a_pattern_is_kept_once(engine: PolicyEngine, tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    store = ApprovalStore({RememberScope.WORKSPACE: (path, ())})
    for command in ("npm test a", "npm test b"):
        call = shell(command)
        store.remember(engine, call, engine.explain(call), RememberScope.WORKSPACE, None)
    assert path.read_text().count("npm test *") == 1


def faulty(path: Path) -> None:
    path.write_text("[exec\n")


def open_to_all(path: Path) -> None:
    path.write_text("")
    path.chmod(0o666)


def in_another_form(path: Path) -> None:
    path.write_text('exec = { mode = "allowlist" }\n')


@pytest.mark.parametrize("spoil", [faulty, open_to_all, in_another_form])
def test_a_file_that_cannot_take_the_rule_is_left_as_it_is(
    engine: PolicyEngine, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "w.toml"
    spoil(path)
    before = path.read_bytes()
    store = ApprovalStore({RememberScope.WORKSPACE: (path, ())})
    call = shell("npm test")
    with pytest.raises(ValueError, match=r"cannot be added to|could not be changed"):
        store.remember(engine, call, engine.explain(call), RememberScope.WORKSPACE, None)
    assert path.read_bytes() == before


def test_a_saved_rule_is_found_again_by_the_next_process(engine: PolicyEngine, tmp_path: Path) -> None:
    options = Options(workspace=tmp_path / "ws")
    for scope, call in ((RememberScope.WORKSPACE, shell("npm test")), (RememberScope.USER, edit("src/a.py"))):
        configuration = configure(options)
        store = ApprovalStore(configuration.files.remember_in)
        current = PolicyEngine(configuration.sources)
        assert current.explain(call).decision is Decision.ASK
        store.remember(current, call, current.explain(call), scope, None)
        assert PolicyEngine(configure(options).sources).explain(call).decision is Decision.ALLOW


def test_a_rule_that_a_stronger_scope_overrules_is_not_saved(engine: PolicyEngine, tmp_path: Path) -> None:
    """The workspace's rules are asked before the user's: a user's rule would not have allowed this."""
    asks = RuleSet([(PolicyRule(tool="edit_file", action=Decision.ASK), RuleSource("workspace", 1))])
    guarded = PolicyEngine(replace(engine.sources, rule_sets=(asks, *engine.sources.rule_sets)))
    path = tmp_path / "user.toml"
    store = ApprovalStore({RememberScope.USER: (path, ("policy",)), RememberScope.WORKSPACE: (tmp_path / "w.toml", ())})
    call = edit("a.py")
    with pytest.raises(ValueError, match="workspace rule 1"):
        store.remember(guarded, call, guarded.explain(call), RememberScope.USER, None)
    assert not path.exists()
    wiser, _ = store.remember(guarded, call, guarded.explain(call), RememberScope.WORKSPACE, None)
    assert wiser.explain(call).decision is Decision.ALLOW
