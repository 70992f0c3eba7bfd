"""What a test run found, and the JUnit XML and JSON that runners write about it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.parsers import expat

MAX_REPORT_BYTES = 50_000_000
"""A longer report is not read."""
MAX_FAILURES = 1_000
"""Failures kept with their texts; more are counted only."""
MAX_TEXT = 20_000
"""Characters kept of what a runner says about one failure."""

MAX_SOURCE_FOLDERS = 100
"""Folders that are looked through for the source of a class."""


class ReportError(ValueError):
    """A report that cannot be used; the message says why."""


@dataclass(frozen=True)
class FailedTest:
    """One test that failed; `error` where it broke before it could."""

    name: str
    message: str
    path: str = ""
    line: int | None = None
    text: str = ""
    error: bool = False


@dataclass
class TestReport:
    """Counts and failures of a run; `crashed` names why the tests could not be run."""

    __test__ = False  # no test class, whatever pytest makes of its name

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    failures: list[FailedTest] = field(default_factory=list[FailedTest])
    crashed: str = ""

    @property
    def total(self) -> int:
        """Return how many tests there were."""
        return self.passed + self.failed + self.errors + self.skipped

    def add(self, failure: FailedTest) -> None:
        """Count a failure, and keep it while there is room."""
        if failure.error:
            self.errors += 1
        else:
            self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(failure)

    def include(self, other: TestReport) -> None:
        """Add another report's counts and failures."""
        for name in ("passed", "failed", "errors", "skipped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures += other.failures[: MAX_FAILURES - len(self.failures)]
        self.crashed = self.crashed or other.crashed


class Locator:
    """Finds the line of the workspace that a failure's text speaks of."""

    _PLACES = re.compile(
        r"""File\ "(?P<python>[^"\n]+)",\ line\ (?P<line>\d+)
        |\bat\ (?:\S+/)?(?P<frame>[\w.$]+)\.[\w$<>]+\((?P<source>[\w$-]+\.(?:java|kt|groovy|scala)):(?P<row>\d+)\)
        |(?:file://)?(?P<path>(?:[A-Za-z]:)?[^\s"'()\[\]<>:|]+\.[A-Za-z]{1,5}):(?P<at>\d+)""",
        re.VERBOSE,
    )
    _FOREIGN = ("node_modules", "site-packages", ".venv", "venv", "target")

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, str] = {}
        self._packages: dict[str, list[str]] = {}

    def find(self, text: str, hint: str = "") -> tuple[str, int | None]:
        """Return path and line; the test's own file (`hint`) before others, else no line or no path."""
        places = [(shown, line) for path, line in self._places(text) if (shown := self._inside(path))]
        own = self._inside(hint) if hint else ""
        in_test = [place for place in places if place[0] == own]
        if in_test:
            innermost_first = re.search(r"^\s+at ", text, re.MULTILINE)
            return in_test[0] if innermost_first else in_test[-1]
        return places[0] if places else (own, None)

    def _places(self, text: str) -> Iterator[tuple[str, int]]:
        for found in self._PLACES.finditer(text[:MAX_TEXT]):
            path = found["python"] or found["path"] or self._of_class(found["frame"], found["source"])
            yield path, int((found["line"] or found["at"] or found["row"])[:9])

    def of_test_class(self, name: str) -> str:
        """Return the file of a class of Java or Kotlin; empty where the workspace has none."""
        top = name.rpartition(".")[2].partition("$")[0]
        candidates = (self._of_class(name, f"{top}{ending}") for ending in (".java", ".kt"))
        return next(filter(self._inside, candidates), "")

    def _of_class(self, name: str, file: str) -> str:
        """Return where the source of a class should be; its file name alone where it is nowhere."""
        package = name.rpartition(".")[0].replace(".", "/")
        if package not in self._packages:  # most frames are of a library: one look for all its classes
            folders = (os.path.join(folder, package) for folder in self._source_folders)
            self._packages[package] = [folder for folder in folders if os.path.isdir(folder)]
        return next(filter(self._inside, (os.path.join(folder, file) for folder in self._packages[package])), file)

    @cached_property
    def _source_folders(self) -> list[str]:
        """Return Maven's and Gradle's source folders of the project and its modules, those of tests first."""
        found = (path for depth in ("", "*/", "*/*/") for path in self._root.glob(f"{depth}src/*/*"))
        named = [str(path) for path in found if path.name in ("java", "kotlin", "groovy", "scala")]
        return sorted(named, key=lambda path: ("test" not in Path(path).parent.name.lower(), path))[:MAX_SOURCE_FOLDERS]

    def _inside(self, path: str) -> str:
        """Return a path from the workspace; empty where it is not a file of it."""
        if path not in self._known:
            self._known[path] = self._look_up(path)
        return self._known[path]

    def _look_up(self, path: str) -> str:
        try:
            relative = Path(os.path.realpath(self._root / path)).relative_to(self._root)
            there = (self._root / relative).is_file()
        except (OSError, ValueError):
            return ""
        return str(relative) if there and not any(part in self._FOREIGN for part in relative.parts) else ""


def parse_junit(content: bytes, locator: Locator) -> TestReport:
    """Read JUnit XML. Raises ReportError for what is not, is too long, or declares a document type."""
    if len(content) > MAX_REPORT_BYTES:
        raise ReportError(f"the report has more than {MAX_REPORT_BYTES:,} bytes")
    reader = _JUnit(locator)
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise ReportError("the report declares a document type, which can make a small file endless")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ReportError(f"the report is no XML: {error}") from None
    return reader.report


class _JUnit:
    """The handlers of one document."""

    _ENDINGS = ("failure", "error", "skipped")
    _PRINTED = "system-out"

    def __init__(self, locator: Locator) -> None:
        self.report = TestReport()
        self._locator = locator
        self._suites: list[str] = []
        self._case: dict[str, str] | None = None
        self._ending = ""
        self._message = ""
        self._text: list[str] = []
        self._room = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "testsuite":
            self._suites.append(attributes.get("name", ""))
        elif name == "testcase":
            self._case, self._ending, self._message, self._text = attributes, "", "", []
        elif name in self._ENDINGS and self._case is not None and not self._ending:
            self._ending, self._message, self._room = name, attributes.get("message", ""), MAX_TEXT
        elif name == self._PRINTED and self._case is not None and not "".join(self._text).strip():
            self._room = MAX_TEXT

    def text(self, data: str) -> None:
        if self._room > 0:
            self._text.append(data[: self._room])
            self._room -= len(data)

    def end(self, name: str) -> None:
        if name == "testsuite" and self._suites:
            self._suites.pop()
        elif name in (*self._ENDINGS, self._PRINTED):
            self._room = 0
        elif name == "testcase" and self._case is not None:
            self._count(self._case)
            self._case = None

    def _count(self, case: dict[str, str]) -> None:
        match self._ending:
            case "":
                self.report.passed += 1
            case "skipped":
                self.report.skipped += 1
            case _:
                text = "".join(self._text).strip()
                message = self._message or text.rpartition("\n")[2]
                if message == "collection failure":
                    self.report.crashed = "they could not be collected"
                    message = next((row[1:].strip() for row in text.splitlines() if row.startswith("E ")), message)
                own = case.get("file", "") or self._locator.of_test_class(case.get("classname", ""))
                path, line = self._locator.find(text, own)
                if line is None and path and case.get("line", "").isdigit():
                    line = int(case["line"][:9]) + 1  # pytest counts from 0
                name = self._name(case)
                self.report.add(FailedTest(name, message, path, line, text, error=self._ending == "error"))

    def _name(self, case: dict[str, str]) -> str:
        name, owner = case.get("name", "?"), case.get("classname", "")
        module = case.get("file", "").removesuffix(".py").replace("/", ".")
        if module and (owner == module or owner.startswith(f"{module}.")):  # pytest
            return "::".join([*owner[len(module) + 1 :].split("."), name] if owner != module else [name])
        if owner in ("", name):  # ctest, a file that pytest could not collect
            return name
        if owner == "test":  # node
            return " > ".join([*filter(None, self._suites), name])
        return f"{owner}.{name}"


def parse_jest(content: bytes, locator: Locator) -> TestReport:
    """Read the JSON that jest and vitest write. Raises ReportError."""
    if len(content) > MAX_REPORT_BYTES:
        raise ReportError(f"the report has more than {MAX_REPORT_BYTES:,} bytes")
    try:
        files = [_table(each) for each in _list(_table(json.loads(content)).get("testResults"))]
    except (ValueError, RecursionError) as error:
        raise ReportError(f"the report is no JSON: {error}") from None
    report = TestReport()
    for file in files:
        path = _text(file.get("name"))
        cases = [_table(each) for each in _list(file.get("assertionResults"))]
        for case in cases:
            _add_jest_case(report, case, path, locator)
        if not cases and file.get("status") == "failed":
            said = _text(file.get("message")) or "the file could not be run"
            found, line = locator.find(said, path)
            report.add(FailedTest(found or path, _first_line(said), found, line, said[:MAX_TEXT], error=True))
    if report.errors and not report.passed + report.failed:
        report.crashed = "they could not be loaded"
    return report


def _add_jest_case(report: TestReport, case: dict[str, Any], path: str, locator: Locator) -> None:
    match case.get("status"):
        case "passed":
            report.passed += 1
        case "failed":
            said = "\n".join(_text(each) for each in _list(case.get("failureMessages")))
            found, line = locator.find(said, path)
            name = _text(case.get("fullName")).strip() or _text(case.get("title"))
            report.add(FailedTest(name, _first_line(said), found, line, said[:MAX_TEXT]))
        case _:
            report.skipped += 1


def parse_go(output: str, locator: Locator) -> TestReport:
    """Read the JSON lines of `go test -json`; other lines are skipped. Raises ReportError where there is none."""
    report = TestReport()
    said: dict[tuple[str, str], list[str]] = {}
    known = False
    for row in output.splitlines():
        try:
            event = _table(json.loads(row)) if row.startswith("{") else {}
        except (ValueError, RecursionError):
            continue
        known = known or bool(event)
        key = _text(event.get("Package")) or _text(event.get("ImportPath")), _text(event.get("Test"))
        match event.get("Action"):
            case "output" | "build-output":
                lines = said.setdefault(key, [])
                if len(lines) < 1_000:
                    lines.append(_text(event.get("Output")))
            case "pass" if key[1]:
                report.passed += 1
            case "skip" if key[1]:
                report.skipped += 1
            case "fail":
                _add_go_failure(report, key, said, locator)
            case _:
                pass
    if not known:
        raise ReportError("there is no line of JSON in the output")
    if report.errors and not report.passed + report.failed:
        report.crashed = "they could not be built"
    return report


def _add_go_failure(
    report: TestReport, key: tuple[str, str], said: dict[tuple[str, str], list[str]], locator: Locator
) -> None:
    package, test = key
    if not test and any(failure.name.startswith(f"{package}.") for failure in report.failures):
        return  # the package failed because a test did
    text = "".join(said.get(key, []))
    if not test:
        text += "".join(line for (owner, _), lines in said.items() if owner.startswith(f"{package} ") for line in lines)
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("===", "---"))
    ]
    path, line = locator.find(text)
    if line is None and (place := re.search(r"^\s*([\w.-]+\.go):(\d+):", text, re.MULTILINE)):
        path, line = _go_path(locator, package, place[1]), int(place[2][:9])
    name = f"{package}.{test}" if test else package
    report.add(FailedTest(name, lines[0] if lines else "failed", path, line, text[:MAX_TEXT], error=not test))


def _go_path(locator: Locator, package: str, file: str) -> str:
    """Return a file's path: go names it alone, and the package with the module's name in front."""
    parts = package.split("/")
    tried = ("/".join([*parts[start:], file]) for start in range(len(parts) + 1))
    return next((found for each in tried if (found := locator.find("", each)[0])), file)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
