"""Hand-written lines, harmless ones and traps, through the analysis, the read-only list, approvals and risk."""

from __future__ import annotations

import tomllib
from typing import Any  # what tomllib returns

import pytest

from ollm_tui.core.policy.approval_patterns import ApprovalPattern, suggest_pattern
from ollm_tui.core.policy.shell.read_only import command_risk, read_only_parts
from ollm_tui.core.policy.shell.shell_line import analyse, bash_accepts
from tests import DATA_DIR

DATA = DATA_DIR / "shell_lines"


def corpus(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text("utf-8"))


def is_outside(path: str) -> bool:
    return path.startswith(("/", "..", "~"))


def is_covered(pattern: ApprovalPattern, line: str) -> bool:
    shell_line = analyse(line)
    return not shell_line.opaque and all(pattern.covers(part) for part in shell_line.parts)


def found_texts(line: str) -> list[str]:
    return [text for command in analyse(line).all_commands for text in command.spellings]


@pytest.mark.parametrize("line", corpus("looking_around")["lines"])
def test_looking_around_needs_no_confirmation(line: str) -> None:
    shell_line = analyse(line)
    assert shell_line.opaque_reasons == ()
    assert [verdict.reason for verdict in read_only_parts(shell_line) if not verdict] == []


@pytest.mark.parametrize("line", corpus("not_looking")["lines"])
def test_what_does_more_than_look_is_not_on_the_read_only_list(line: str) -> None:
    shell_line = analyse(line)
    assert shell_line.opaque_reasons == ()
    refused = [verdict for verdict in read_only_parts(shell_line) if not verdict]
    assert refused
    assert all(verdict.reason for verdict in refused)


@pytest.mark.parametrize("line", corpus("never_allowed")["lines"])
def test_a_line_outside_the_plain_subset_is_opaque_and_says_why(line: str) -> None:
    shell_line = analyse(line)
    assert shell_line.opaque
    assert shell_line.reason.strip()


def approval_rows(kind: str) -> list[tuple[str, str]]:
    return [(entry["text"], line) for entry in corpus("approvals")["pattern"] for line in entry[kind]]


@pytest.mark.parametrize(("pattern", "line"), approval_rows("covers"))
def test_an_approval_covers_what_its_words_say(pattern: str, line: str) -> None:
    assert is_covered(ApprovalPattern.parse(pattern), line)


@pytest.mark.parametrize(("pattern", "line"), approval_rows("leaves"))
def test_an_approval_leaves_everything_else_to_a_question(pattern: str, line: str) -> None:
    assert not is_covered(ApprovalPattern.parse(pattern), line)


@pytest.mark.parametrize("line", corpus("found_inside")["found"])
def test_a_command_hidden_in_a_line_is_found_for_deny_rules(line: str) -> None:
    assert any(text.startswith("rm ") for text in found_texts(line))


@pytest.mark.parametrize("line", corpus("found_inside")["mentioned"])
def test_a_command_that_is_only_mentioned_is_not_found(line: str) -> None:
    assert not any(text.startswith("rm ") for text in found_texts(line))


@pytest.mark.parametrize("entry", corpus("paths")["line"], ids=lambda entry: entry["text"])
def test_the_paths_a_read_only_line_looks_at_are_handed_back(entry: dict[str, Any]) -> None:
    verdicts = read_only_parts(analyse(entry["text"]))
    assert all(verdicts)
    assert list(dict.fromkeys(path for verdict in verdicts for path in verdict.paths)) == entry["paths"]
    assert any(verdict.descends for verdict in verdicts) == entry.get("descends", False)
    found = sorted({place for verdict in verdicts for place in verdict.repositories})
    assert found == entry.get("repositories", [])


@pytest.mark.parametrize(("risk", "line"), [(risk, line) for risk, lines in corpus("risk").items() for line in lines])
def test_risk_follows_from_what_a_line_can_do(risk: str, line: str) -> None:
    assert command_risk(analyse(line), is_outside) == risk


def test_nothing_of_the_opaque_corpus_is_covered_by_any_approval_of_the_corpus() -> None:
    patterns = [ApprovalPattern.parse(entry["text"]) for entry in corpus("approvals")["pattern"]]
    for line in corpus("never_allowed")["lines"]:
        assert not any(is_covered(pattern, line) for pattern in patterns), line


def test_bash_finds_the_harmless_corpus_well_formed() -> None:
    # joined into one text: one process instead of three hundred
    assert bash_accepts("\n".join(corpus("looking_around")["lines"]))


@pytest.mark.parametrize("line", ["ls | | cat", "if ls", "(ls", "ls 'x", "ls &&", "fi", "ls\0", "ls <<EOF\nx"])
def test_bash_refuses_what_is_not_well_formed(line: str) -> None:
    assert not bash_accepts(line)


def test_bash_that_does_not_answer_in_time_counts_as_a_refusal() -> None:
    assert not bash_accepts("ls", timeout=0.0)


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("npm run build", "npm run build *"),
        ("npm run build -- --watch", "npm run build *"),
        ("npm test", "npm test *"),
        ("npm install left-pad", "npm install *"),
        ("git push", "git push *"),
        ("git push origin main", "git push *"),
        ("git commit -m 'a b'", "git commit *"),
        ("git status", "git status *"),
        ("git stash list", "git stash list *"),
        ("git log --output=x", "git log --output=x"),
        ("git -C x status", "git -C x status"),
        ("pytest -q tests/test_a.py", "pytest *"),
        ("python -m pytest -q", "python -m pytest *"),
        ("python3 -m pytest -q", "python3 -m pytest *"),
        ("python script.py --fast", "python script.py --fast"),
        ("node -e 1", "node -e 1"),
        ("uv run pytest -x", "uv run pytest *"),
        ("npx tsc --noEmit", "npx tsc *"),
        ("cargo build --release", "cargo build *"),
        ("go test ./...", "go test *"),
        ("make build", "make build *"),
        ("docker compose up -d", "docker compose up *"),
        ("docker exec -u root app pytest -q", "docker exec -u root app pytest *"),
        ("curl https://h/x", "curl https://h/x"),
        ("./run.sh a", "./run.sh a"),
        ("echo 'a*b'", "echo *"),
        ("./run.sh 'a b' 'c*'", "./run.sh 'a b' 'c*'"),
        ("sed -i s/a/b/ f", "sed -i s/a/b/ f"),
        ("rm x", None),
        ("rm -rf x", None),
        ("git clean -fd", None),
        ("git reset --hard", None),
        ("git push --force", None),
        ("git branch -D x", None),
        ("find . -delete", None),
        ("sudo ls", None),
        ("bash -c ls", None),
        ("timeout 5 ls", None),
        ("ls ~", None),
        ("chmod +x a", None),
        ("npm publish", None),
        ("./run.sh $X", None),
        ("git", "git"),
        ("npm", "npm"),
        ("mv a b", "mv a b"),
        ("mkdir x", "mkdir *"),
    ],
)
def test_the_suggested_rule_is_the_narrowest_sensible_one(line: str, suggestion: str | None) -> None:
    (command,) = analyse(line).parts
    assert suggest_pattern(command) == suggestion
