"""Which test runner a project has, and the command line that runs a selection of its tests."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path, PurePosixPath

from ollm_tui.core.base.errors import InvalidArguments, ShellExecutionFailed
from ollm_tui.core.search.repository import read_file

REPORT = "OLLM_TEST_REPORT"
"""The variable with the path of the report, for runners that take it as an argument."""
_HEAD = 200_000


class ReportFormat(StrEnum):
    """Where the outcome of a runner is, and in which form."""

    JUNIT = "junit"
    JUNIT_FOLDERS = "junit folders"
    JEST = "jest"
    GO = "go"
    CARGO = "cargo"
    UNITTEST = "unittest"
    TAP = "tap"


@dataclass(frozen=True)
class Selection:
    """Which tests: files, names, or those that failed last time (`failed` where the runner does not know them)."""

    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    last_failed: bool = False
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class TestCommand:
    """A command line, the variables it needs (`{report}` stands for the report's path), and how to read its outcome."""

    __test__ = False

    runner: str
    line: str
    format: ReportFormat
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: str = ""
    """The end of the paths of folders with reports, where the runner writes them into the project."""
    no_tests_code: int | None = None
    """The exit code that says that there were none."""


_PYTEST_VARIABLES = {"PYTEST_ADDOPTS": "--junitxml={report} -o junit_family=xunit1"}
_NODE_VARIABLES = {
    "NODE_OPTIONS": "--test-reporter=spec --test-reporter-destination=stdout"
    " --test-reporter=junit --test-reporter-destination={report}"
}


def find_command(root: Path, configured: str | None, selection: Selection) -> TestCommand:
    """Return what runs the tests of the project in `root`; reads a few small files.

    Raises:
        ShellExecutionFailed: No runner was found.
        InvalidArguments: The runner cannot be given such a selection.
    """
    if configured:
        return _configured(configured, selection)
    found = [runner for runner in RUNNERS if runner.detect(root)]
    if not found:
        hint = " It has a CMakeLists.txt: build it first." if (root / "CMakeLists.txt").exists() else ""
        raise ShellExecutionFailed(
            "No test runner was found here (pytest, unittest, package.json, node, cargo, go, maven, gradle, ctest)."
            f'{hint} Run the tests with shell, or have the person set [tools] test_command = "...".'
        )
    endings = {PurePosixPath(path.partition("::")[0]).suffix for path in selection.paths} - {""}
    fitting = [runner for runner in found if endings and endings <= set(runner.endings)]
    return (fitting or found)[0].command(root, selection)


def _configured(line: str, selection: Selection) -> TestCommand:
    """Return the command of the settings; what it prints is read by the runner that it names."""
    words = line.split()
    if any(word.rpartition("/")[2] in ("pytest", "py.test") for word in words):
        chosen = _pytest_words(selection)
        return TestCommand("pytest", _line([line], chosen), ReportFormat.JUNIT, _PYTEST_VARIABLES, no_tests_code=5)
    named = {"unittest": ReportFormat.UNITTEST, "cargo": ReportFormat.CARGO}
    form = next((form for name, form in named.items() if name in words), ReportFormat.TAP)
    if "node" in words:
        return TestCommand(line, _line([line], selection.paths), ReportFormat.JUNIT, _NODE_VARIABLES)
    if selection.names or selection.last_failed:
        raise InvalidArguments(f"names and lastFailed cannot be given to {line!r}. Give paths, or nothing.")
    return TestCommand(line, _line([line], selection.paths), form)


def _line(start: Sequence[str], more: Sequence[str] = ()) -> str:
    """Return a command line; `start` is as it is written, `more` is quoted, and never an option by accident."""
    return " ".join([*start, *(shlex.quote(word) for word in more)])


def _no_option(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


def _any_of(names: Sequence[str]) -> str:
    return "|".join(re.escape(name) for name in names)


# -- Python ----------------------------------------------------------------------------------------------------------

_PYTEST_FILES = (
    ("pyproject.toml", "[tool.pytest"),
    *(("pytest.ini", ""), (".pytest.ini", ""), ("conftest.py", "")),
    *(("tests/conftest.py", ""), ("test/conftest.py", ""), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")),
)


def _has(root: Path, name: str, text: str = "") -> bool:
    content = read_file(os.fsencode(root / name), _HEAD)
    return content is not None and text.encode() in content


def _python_tests(root: Path) -> Iterator[Path]:
    for folder in ("", "tests", "test"):
        for pattern in ("test*.py", "*_test.py"):
            yield from (path for path in sorted((root / folder).glob(pattern))[:50] if path.is_file())


def _has_pytest(root: Path) -> bool:
    if any(_has(root, *each) for each in _PYTEST_FILES):
        return True
    return any(map(_is_for_pytest, map(_head, islice(_python_tests(root), 20))))


def _is_for_pytest(head: bytes) -> bool:
    """Return whether a file's tests are pytest's: unittest does not see tests that are plain functions."""
    plain = re.search(rb"^(?:async )?def test", head, re.M) is not None and b"unittest" not in head
    return plain or re.search(rb"^\s*(?:import|from) pytest\b", head, re.M) is not None


def _head(path: Path) -> bytes:
    return read_file(os.fsencode(path), 20_000) or b""


def python_of(root: Path) -> str:
    """Return the interpreter of the project's environment as a command names it."""
    own = (f"{name}/bin/python" for name in (".venv", "venv") if os.access(root / name / "bin" / "python", os.X_OK))
    return next(own, "python3")


def _pytest_words(selection: Selection) -> list[str]:
    words = [_no_option(path) for path in selection.paths]
    ids = [name for name in selection.names if ".py::" in name]
    names = [name.replace("::", " and ") for name in selection.names if ".py::" not in name]
    words += [_no_option(each) for each in ids]
    words += ["-k", " or ".join(f"({each})" if " and " in each else each for each in names)] if names else []
    return words + (["--last-failed", "--last-failed-no-failures=none"] if selection.last_failed else [])


def _pytest(root: Path, selection: Selection) -> TestCommand:
    line = _line([python_of(root), "-m pytest"], _pytest_words(selection))
    return TestCommand("pytest", line, ReportFormat.JUNIT, _PYTEST_VARIABLES, no_tests_code=5)


def _unittest(root: Path, selection: Selection) -> TestCommand:
    names = [*selection.names, *selection.failed]
    start = [python_of(root), "-m unittest"]
    if not selection.paths:
        start.append("discover")
        in_tests = next((name for name in ("tests", "test") if next((root / name).glob("test*.py"), None)), None)
        if in_tests and not (root / in_tests / "__init__.py").exists():
            start += ["-s", in_tests]
    start.append("-v")
    words = [word for name in names for word in ("-k", name)] + [_no_option(path) for path in selection.paths]
    return TestCommand("unittest", _line(start, words), ReportFormat.UNITTEST, no_tests_code=5)


# -- JavaScript ------------------------------------------------------------------------------------------------------


def _package(root: Path) -> dict[str, object]:
    try:
        found = json.loads(read_file(os.fsencode(root / "package.json"), 2_000_000) or b"")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _script(root: Path) -> str:
    scripts = _package(root).get("scripts")
    test = scripts.get("test") if isinstance(scripts, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return test if isinstance(test, str) and "no test specified" not in test else ""


def _depends_on(root: Path, name: str) -> bool:
    package = _package(root)
    tables = (package.get("devDependencies"), package.get("dependencies"))
    return any(isinstance(table, dict) and name in table for table in tables)


_JAVASCRIPT = {"vitest": r"\bvitest\b", "jest": r"\bjest\b", "node": r"\bnode\b.* --test\b"}


def _npm(root: Path, selection: Selection) -> TestCommand:
    script = _script(root)
    managers = (("pnpm-lock.yaml", "pnpm test"), ("yarn.lock", "yarn test"))
    start = next((line for lock, line in managers if (root / lock).exists()), "npm test --")
    kind = next((name for name, pattern in _JAVASCRIPT.items() if re.search(pattern, script)), "")
    return _javascript(kind, start, selection)


def _javascript(kind: str, start: str, selection: Selection) -> TestCommand:
    paths = [_no_option(path) for path in selection.paths]
    pattern = _any_of((*selection.names, *(name.rpartition(" > ")[2] for name in selection.failed)))
    quiet = {"CI": "1", "NO_COLOR": "1"}
    match kind:
        case "vitest":
            words = [*paths, *(["-t", pattern] if pattern else [])]
            line = _line([start, "--reporter=default --reporter=json", f"--outputFile=${REPORT}"], words)
            return TestCommand("vitest", line, ReportFormat.JEST, quiet)
        case "jest":
            # jest keeps by itself what failed.
            pattern = _any_of(selection.names)
            words = [*paths, *(["-t", pattern] if pattern else []), *(["-f"] if selection.last_failed else [])]
            line = _line([start, "--json", f"--outputFile=${REPORT}"], words)
            return TestCommand("jest", line, ReportFormat.JEST, quiet)
        case "node":
            words = [*([f"--test-name-pattern={pattern}"] if pattern else []), *paths]
            line = _line([start], words).removesuffix(" --")
            return TestCommand("node --test", line, ReportFormat.JUNIT, {**quiet, **_NODE_VARIABLES})
        case _:
            line = start.removesuffix(" --")
            if selection.names or selection.last_failed:
                raise InvalidArguments(f"names and lastFailed cannot be given to `{line}`. Give paths, or nothing.")
            return TestCommand(line, _line([start], paths).removesuffix(" --"), ReportFormat.TAP, quiet)


def _is_node(root: Path) -> bool:
    patterns = ("*.test.js", "*.test.mjs", "*.test.cjs", "test/*.js", "test/*.mjs", "test/*.cjs", "tests/*.test.*js")
    return (root / "package.json").exists() and any(next(root.glob(pattern), None) for pattern in patterns)


# -- the rest --------------------------------------------------------------------------------------------------------


def _cargo(root: Path, selection: Selection) -> TestCommand:
    words: list[str] = []
    for path in map(PurePosixPath, selection.paths):
        if path.parent.name != "tests" or path.suffix != ".rs":
            raise InvalidArguments(f"cargo takes paths of tests/*.rs only, not {str(path)!r}. Give names instead.")
        words += ["--test", path.stem]
    words += ["--", *selection.names] if selection.names else []
    words += ["--", "--exact", *selection.failed] if selection.failed else []
    line = _line(["cargo test --no-fail-fast"], words)
    return TestCommand("cargo", line, ReportFormat.CARGO, {"CARGO_TERM_COLOR": "never"})


def _go(root: Path, selection: Selection) -> TestCommand:
    folders = [str(path.parent if path.suffix == ".go" else path) for path in map(PurePosixPath, selection.paths)]
    packages = [each if each.startswith(("/", "./")) else f"./{each}" for each in dict.fromkeys(folders)] or ["./..."]
    names = [*selection.names, *(name.rpartition(".")[2].partition("/")[0] for name in selection.failed)]
    chosen = ["-run", f"^({_any_of(names)})$"] if names else []
    return TestCommand("go", _line(["go test -json"], [*chosen, *packages]), ReportFormat.GO)


def _maven(root: Path, selection: Selection) -> TestCommand:
    failed = [re.sub(r"^(?:.*\.)?([^.]+)\.([^.]+)$", r"\1#\2", name) for name in selection.failed]
    chosen = [*(PurePosixPath(path).stem for path in selection.paths), *selection.names, *failed]
    start = "./mvnw" if os.access(root / "mvnw", os.X_OK) else "mvn"
    words = [f"-Dtest={','.join(chosen)}", "-DfailIfNoTests=false"] if chosen else []
    line = _line([f"{start} -B --fail-at-end test"], words)
    return TestCommand("maven", line, ReportFormat.JUNIT_FOLDERS, folders="target/surefire-reports")


def _gradle(root: Path, selection: Selection) -> TestCommand:
    chosen = [*(f"*{PurePosixPath(path).stem}" for path in selection.paths), *selection.names, *selection.failed]
    start = "./gradlew" if os.access(root / "gradlew", os.X_OK) else "gradle"
    line = _line([f"{start} test --continue"], [word for name in chosen for word in ("--tests", name)])
    return TestCommand("gradle", line, ReportFormat.JUNIT_FOLDERS, folders="build/test-results/test")


def _ctest_folder(root: Path) -> str | None:
    folders = ("build", "out", ".", *sorted(path.name for path in root.glob("cmake-build-*")))
    return next((folder for folder in folders if (root / folder / "CTestTestfile.cmake").is_file()), None)


def _ctest(root: Path, selection: Selection) -> TestCommand:
    if selection.paths:
        raise InvalidArguments("ctest knows tests by name only. Give names instead of paths.")
    words = ["-R", _any_of(selection.names)] if selection.names else []
    words += ["--rerun-failed"] if selection.last_failed else []
    start = ["ctest --test-dir", shlex.quote(_ctest_folder(root) or "build"), "--output-on-failure"]
    line = _line([*start, f"--output-junit ${REPORT}"], words)
    return TestCommand("ctest", line, ReportFormat.JUNIT)


@dataclass(frozen=True)
class SuiteRunner:
    """How one runner is recognised and called, and the endings of the files it takes."""

    detect: Callable[[Path], bool]
    command: Callable[[Path, Selection], TestCommand]
    endings: tuple[str, ...] = ()


_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx")

RUNNERS = (
    SuiteRunner(_has_pytest, _pytest, (".py",)),
    SuiteRunner(lambda root: next(_python_tests(root), None) is not None, _unittest, (".py",)),
    SuiteRunner(lambda root: bool(_script(root)), _npm, _SCRIPTS),
    *(
        SuiteRunner(
            lambda root, name=name: _depends_on(root, name),
            lambda root, selection, name=name, start=start: _javascript(name, start, selection),
            _SCRIPTS,
        )
        for name, start in (("vitest", "npx --no-install vitest run"), ("jest", "npx --no-install jest"))
    ),
    SuiteRunner(_is_node, lambda root, selection: _javascript("node", "node --test", selection), _SCRIPTS),
    SuiteRunner(lambda root: (root / "Cargo.toml").is_file(), _cargo, (".rs",)),
    SuiteRunner(lambda root: (root / "go.mod").is_file(), _go, (".go",)),
    SuiteRunner(lambda root: (root / "pom.xml").is_file(), _maven, (".java", ".kt")),
    SuiteRunner(
        lambda root: any((root / f"build.gradle{end}").is_file() for end in ("", ".kts")), _gradle, (".java", ".kt")
    ),
    SuiteRunner(lambda root: _ctest_folder(root) is not None, _ctest),
)
"""In the order in which they are tried."""
