"""What counts as a secret by its looks, and what masking leaves of a text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.fence.secrets import MASK, looks_secret, looks_secret_under, mask, variable_looks_secret

SECRETS = {
    "ghp_" + "aB3" * 12: "GitHub",
    "github_pat_" + "11ABC_" * 5: "GitHub",
    "glpat-" + "x1" * 10: "GitLab",
    "sk-proj-" + "k9" * 12: "API key",
    "AKIA" + "Q7" * 8: "AWS",
    "AIza" + "Sy1" * 12: "Google",
    "xoxb-" + "1234567890-abc": "Slack",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl": "web token",
    "hf_" + "Zz" * 12: "Hugging Face",
    "npm_" + "Qq1" * 12: "npm",
    "pypi-" + "AgEI" * 8: "PyPI",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\n-----END OPENSSH PRIVATE KEY-----": "private key",
}


@pytest.mark.parametrize("secret", SECRETS)
@settings(deadline=None)
@given(
    before=st.text(alphabet=st.characters(exclude_categories=["Cs", "L", "N", "P"])),
    after=st.text(" \nü.,", max_size=5),
)
def test_a_secret_is_named_and_masked_wherever_it_stands(secret: str, before: str, after: str) -> None:
    text = before + secret + " " + after
    found = looks_secret(text)
    assert found is not None
    assert SECRETS[secret] in found
    assert secret not in mask(text)
    assert mask(text).startswith(before + MASK)


def test_names_and_addresses_around_a_secret_stay_readable() -> None:
    assert mask("postgres://bob:hunter2@db:5432/x ok") == "postgres://***@db:5432/x ok"
    assert mask('DB_PASSWORD = "s3cr3tvalue" and on') == 'DB_PASSWORD = "***" and on'
    assert mask("a ghp_" + "x" * 20 + " b ghp_" + "y" * 20) == "a *** b ***"
    assert mask("half \ud800 a pair") == "half ? a pair"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the key is under the mat",
        "http://host:8080/a@b",
        "see issue #12 about token limits",
        "skip-this-test-please-now",
        "session: monday",
        "npm_config",
        "https://user@host/x",
    ],
)
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert looks_secret(text) is None
    assert mask(text) == text


def test_a_name_makes_a_single_word_a_secret() -> None:
    assert looks_secret_under("db password", "hunter2") is not None
    assert looks_secret_under("db password", "ask Ann about it") is None
    assert looks_secret_under("favourite colour", "ultramarine") is None


@pytest.mark.parametrize(
    "name", ["API_KEY", "GITHUB_TOKEN", "PGPASSWORD", "MYSQL_PWD", "DATABASE_URL", "openai_apikey"]
)
def test_names_of_secret_variables(name: str) -> None:
    assert variable_looks_secret(name)


@pytest.mark.parametrize("name", ["PATH", "PWD", "OLDPWD", "GIT_AUTHOR_NAME", "TOKENIZERS_PARALLELISM", "KEYTIMEOUT"])
def test_names_of_ordinary_variables(name: str) -> None:
    assert not variable_looks_secret(name)


@settings(deadline=None)
@given(st.text())
def test_masking_is_stable(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize("piece", ["eyJ-", "a://", "token:", "-----BEGIN PRIVATE KEY", "sk-", "é", "x://:"])
def test_no_text_makes_it_slow(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    began = time.perf_counter()
    looks_secret(text)
    mask(text)
    assert time.perf_counter() - began < 2  # milliseconds in fact; backtracking would take minutes
