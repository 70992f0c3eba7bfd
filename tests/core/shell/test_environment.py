"""What of our environment a command sees (001 R5.8)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.fence.secrets import NOBODY_ANSWERS, cleaned, command_environment, is_never_passed
from ollm_tui.core.shell.hub import CommandHub, CommandRequest, awaitable_of
from ollm_tui.core.shell.pty_process import FILE_BYTES, MORE_TASKS
from tests.core.shell.conftest import Bench, bench_in, data_of

SECRET_NAMES = [
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "PGPASSWORD",
    "MYSQL_PWD",
    "AWS_SECRET_ACCESS_KEY",
    "DATABASE_URL",
    "REDIS_URL",
    "STRIPE_KEY",
    "apikey",
    "MY_PASSPHRASE",
    "SESSION_COOKIE",
    "npm_config__auth",
    "SENTRY_DSN",
    "SLACK_WEBHOOK",
    "DB_PASS",
    "Vault_Token",
    "OTP_SEED",
    "PRIVATE_KEY",
]

NEVER_NAMES = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "BASH_ENV",
    "CDPATH",
    "GLOBIGNORE",
    "POSIXLY_CORRECT",
    "TAR_OPTIONS",
    "ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "GIT_DIR",
    "GIT_CONFIG_COUNT",
    "GIT_SSH_COMMAND",
    "SSH_ASKPASS",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "NODE_OPTIONS",
    "LESSOPEN",
    "RIPGREP_CONFIG_PATH",
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "KUBECONFIG",
    "OLLM_MODEL",
    "OLLM_WEB__SEARXNG_URL",
    "TEXTUAL_LOG",
    "BASH_FUNC_ls%%",
]

ORDINARY_NAMES = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "EDITOR",
    "VIRTUAL_ENV",
    "GOPATH",
    "CARGO_HOME",
    "JAVA_HOME",
    "CC",
    "CFLAGS",
    "SSL_CERT_FILE",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_EMAIL",
    "TOKENIZERS_PARALLELISM",
    "KEYTIMEOUT",
    "MONKEY",
    "AUTHOR",
    "PASSAGE",
    "CI",
    "XDG_CONFIG_HOME",
    "MY_SETTING",
    "PYTHONPATH",
]

SECRET_VALUES = [
    "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
    "postgres://user:hunter2@db.example/main",
    "ghp_0123456789abcdefghij0123",
    "sk-proj-0123456789abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "glpat-0123456789abcdefghij",
    "xoxb-012345678901-abcdefghij",
    "hf_0123456789abcdefghij",
]


async def environment_of(bench: Bench, attended: bool = False) -> dict[str, str]:
    used = bench.attended() if attended else bench
    result = await used.shell("env -0 > environment")
    assert result.exit_code == 0
    raw = (bench.root / "environment").read_bytes()
    return dict(os.fsdecode(entry).split("=", 1) for entry in raw.split(b"\0") if entry)


def a_bench(folder: Path, variables: dict[str, str], passed: tuple[str, ...] = ()) -> Bench:
    (folder / "work").mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    return bench_in(folder / "work", CommandHub(folder / "logs", environment=environment, passed=passed))


@pytest.mark.parametrize("attended", [False, True])
async def test_secrets_code_loaders_sockets_and_our_settings_stay_behind(tmp_path: Path, attended: bool) -> None:
    variables = dict.fromkeys([*SECRET_NAMES, *NEVER_NAMES, *ORDINARY_NAMES], "plain")
    del variables["PATH"], variables["HOME"]
    bench = a_bench(tmp_path, variables)
    seen = await environment_of(bench, attended)
    # bash sets some of these itself for its children.
    assert [name for name in (*SECRET_NAMES, *NEVER_NAMES) if name in seen] == []
    assert [name for name in ORDINARY_NAMES if name not in seen] == []
    await bench.hub.close()


@pytest.mark.parametrize("value", SECRET_VALUES)
async def test_a_secret_under_an_innocent_name_stays_behind(value: str) -> None:
    assert cleaned({"EDITOR": value, "HARMLESS": value, "NOTE": f"see {value} there"}, passed=["HARMLESS"]) == {}


async def test_a_proxy_is_passed_unless_it_holds_a_login() -> None:
    proxies = {"HTTPS_PROXY": "http://proxy:8080", "http_proxy": "http://me@proxy:8080", "NO_PROXY": "localhost"}
    assert set(cleaned(proxies)) == {"HTTPS_PROXY", "NO_PROXY"}


async def test_the_persons_own_list_lets_names_through_but_no_loaders_and_no_secret_values(tmp_path: Path) -> None:
    variables = {
        "API_KEY_FILE": "/run/key",
        "LD_LIBRARY_PATH": "/opt/lib",
        "LD_PRELOAD": "/evil.so",
        "NPM_TOKEN": "npm_0123456789abcdefghij",
    }
    bench = a_bench(tmp_path, variables, passed=tuple(variables))
    seen = await environment_of(bench)
    assert {name for name in variables if name in seen} == {"API_KEY_FILE", "LD_LIBRARY_PATH"}
    await bench.hub.close()


async def test_pagers_and_prompts_are_off_where_nobody_answers(bench: Bench) -> None:
    seen = await environment_of(bench)
    assert {name: seen.get(name) for name in NOBODY_ANSWERS} == dict(NOBODY_ANSWERS)
    assert "COLUMNS" not in seen
    assert seen["PWD"] == str(bench.root.resolve())


async def test_with_somebody_there_the_terminal_is_a_real_one(bench: Bench) -> None:
    attended = bench.attended()
    seen = await environment_of(attended)
    assert seen["TERM"] == "xterm-256color"
    assert "NO_COLOR" not in seen
    assert "GIT_TERMINAL_PROMPT" not in seen
    result = await attended.shell("tty; stty size; echo through >/dev/tty")
    terminal, size, through = data_of(result).output.splitlines()
    assert terminal.startswith("/dev/")
    assert size == "40 120"
    assert through == "through"


VARIABLE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="=\0"), min_size=1, max_size=20)
VALUE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)


@settings(max_examples=100, deadline=None)
@given(
    variables=st.dictionaries(
        VARIABLE
        | st.sampled_from([*SECRET_NAMES, *NEVER_NAMES])
        | VARIABLE.map("OLLM_{}".format)
        | VARIABLE.map("LD_{}".format),
        VALUE | st.sampled_from(SECRET_VALUES),
        max_size=8,
    )
)
def test_no_variable_of_the_never_lists_reaches_a_child(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    witness = folder / "seen"

    async def run() -> None:
        hub = CommandHub(folder / "logs", environment=variables)
        # Read before bash adds its own: what was handed to the process.
        live = await hub.start(CommandRequest("cat", folder, argv=["/bin/cp", "/proc/self/environ", str(witness)]))
        assert (await awaitable_of(live.done)).exit_code == 0
        await hub.close()

    asyncio.run(run())
    entries = [entry.decode().partition("=") for entry in witness.read_bytes().split(b"\0") if entry]
    seen = {name: value for name, _, value in entries if name not in NOBODY_ANSWERS and name != "PWD"}
    assert not [name for name in seen if is_never_passed(name) or name in SECRET_NAMES or name.startswith("OLLM_")]
    assert not [value for value in seen.values() if any(secret in value for secret in SECRET_VALUES)]
    assert set(cleaned(variables)) <= {*seen, *NOBODY_ANSWERS, "PWD", "COLUMNS", "LINES"}


def test_each_command_has_a_mark_of_its_own() -> None:
    first = command_environment({"RUN_BY_OLLM_TUI": "outer"}, attended=False, cwd="/", mark="a")
    assert first["RUN_BY_OLLM_TUI"] == "a"


@pytest.mark.parametrize("attended", [False, True])
async def test_a_command_leaves_no_core_and_its_files_and_processes_are_bounded(bench: Bench, attended: bool) -> None:
    there = bench.attended() if attended else bench
    result = await there.shell("ulimit -c; ulimit -f; ulimit -u; kill -SEGV $$")
    core, size, processes, *_ = result.llm_content.split("Output:\n")[1].split()
    assert core == "0"
    assert int(size) == FILE_BYTES >> 10
    assert MORE_TASKS < int(processes) < 100 * MORE_TASKS
    assert list(bench.root.iterdir()) == []
