"""What test runners print where they have no format for machines: cargo, unittest and TAP."""

from __future__ import annotations

import re

from ollm_tui.core.test_runs.report import MAX_TEXT, FailedTest, Locator, ReportError, TestReport

_CARGO_TEST = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<outcome>ok|FAILED|ignored)\b")
_CARGO_TEXT = re.compile(r"^---- (?P<name>.+?) stdout ----$")
_CARGO_PLACE = re.compile(r"panicked at (?P<path>[^\s:]+\.rs):(?P<line>\d+)")
_CARGO_ERROR = re.compile(
    r"^error(?:\[E\d+\])?: (?P<message>.+)\n(?:.*\n)?\s+--> (?P<path>[^\s:]+):(?P<line>\d+)", re.M
)


def parse_cargo(output: str, locator: Locator) -> TestReport:
    """Read what `cargo test` prints. Raises ReportError where no test was run or built."""
    report = TestReport()
    failed: list[str] = []
    texts: dict[str, list[str]] = {}
    current: list[str] | None = None
    results = 0
    for row in output.splitlines():
        if found := _CARGO_TEST.match(row):
            current = None
            report.passed += found["outcome"] == "ok"
            report.skipped += found["outcome"] == "ignored"
            failed += [found["name"]] if found["outcome"] == "FAILED" else []
        elif found := _CARGO_TEXT.match(row):
            current = texts.setdefault(found["name"], [])
        elif row.startswith(("failures:", "test result:")):
            current = None
            results += row.startswith("test result:")
        elif current is not None and len(current) < 500:
            current.append(row)
    for name in failed:
        text = "\n".join(texts.get(name, []))[:MAX_TEXT].strip()
        place = _CARGO_PLACE.search(text)
        path, line = locator.find(f"{place['path']}:{place['line']}") if place else locator.find(text)
        lines = [each for each in text.splitlines() if each.strip() and "panicked at" not in each]
        report.add(FailedTest(name, lines[0].strip() if lines else "failed", path, line, text))
    if not results:
        _add_build_errors(report, output, locator)
    return report


def _add_build_errors(report: TestReport, output: str, locator: Locator) -> None:
    for found in _CARGO_ERROR.finditer(output):
        path, line = locator.find(f"{found['path']}:{found['line']}")
        report.add(FailedTest("build", found["message"], path, line, found[0], error=True))
    if not report.failures:
        raise ReportError("it ran no tests")
    report.crashed = "they could not be built"


_UNITTEST_BLOCK = re.compile(
    r"^={70}\n(?P<kind>FAIL|ERROR): (?P<name>\S+) \((?P<owner>[^)\n]+)\)[^\n]*(?:\n(?!-{70})[^\n]*)*\n-{70}\n"
    r"(?P<text>.*?)(?=^={70}$|^-{70}$|\Z)",
    re.M | re.S,
)
_UNITTEST_RAN = re.compile(r"^Ran (?P<count>\d+) tests? in [\d.]+s", re.M)
_UNITTEST_END = re.compile(r"^(?:OK|FAILED|NO TESTS RAN)(?: \((?P<parts>[^)]*)\))?\s*$", re.M)


def parse_unittest(output: str, locator: Locator) -> TestReport:
    """Read what `python -m unittest -v` prints. Raises ReportError where it did not come to its end."""
    ran = _UNITTEST_RAN.search(output)
    if ran is None:
        raise ReportError("it did not come to its end")
    report = TestReport()
    for found in _UNITTEST_BLOCK.finditer(output):
        owner, name = found["owner"], found["name"]
        text = found["text"].strip()
        loading = owner.startswith("unittest.loader.")
        report.crashed = report.crashed or ("they could not be loaded" if loading else "")
        full = owner if loading or owner.endswith(f".{name}") else f"{owner}.{name}"
        lines = [each for each in text.splitlines() if each.strip()]
        places = [place for each in lines if (place := locator.find(each))[1] is not None]
        path, line = places[-1] if places else ("", None)
        raised = [each for each in lines if not each.startswith((" ", "Traceback"))]
        message = raised[0] if raised else "failed"
        report.add(FailedTest(full, message, path, line, text[:MAX_TEXT], error=found["kind"] == "ERROR"))
    end = _UNITTEST_END.search(output, ran.end())
    parts = dict(re.findall(r"([a-z ]+)=(\d+)", end["parts"] or "")) if end else {}
    counts = {name.strip(): int(count[:9]) for name, count in parts.items()}
    report.failed = counts.get("failures", 0) + counts.get("unexpected successes", 0)
    report.errors, report.skipped = counts.get("errors", 0), counts.get("skipped", 0)
    report.passed = max(0, int(ran["count"][:9]) - report.failed - report.errors - report.skipped)
    return report


_TAP = re.compile(
    r"^(?P<not>not )?ok\b(?:\s+\d+)?(?:\s*-)?\s*(?P<name>[^#\n]*?)\s*(?:#\s*(?P<why>(?:skip|todo)\b.*))?$", re.I
)


def parse_tap(output: str, locator: Locator) -> TestReport:
    """Read TAP (the Test Anything Protocol), its top level alone. Raises ReportError where there is none."""
    report = TestReport()
    rows = output.splitlines()
    for index, row in enumerate(rows):
        found = _TAP.match(row)
        if row.startswith("Bail out!"):
            report.crashed = row
        if found is None:
            continue
        if found["why"]:
            report.skipped += 1
        elif not found["not"]:
            report.passed += 1
        else:
            said: list[str] = []
            for each in rows[index + 1 : index + 100]:
                if not each.startswith((" ", "#", "\t")):
                    break
                said.append(each)
            text = "\n".join(said)
            path, line = locator.find(text)
            message = next((each.strip(" #") for each in said if each.strip(" #-.")), "failed")
            report.add(FailedTest(found["name"] or "?", message, path, line, text[:MAX_TEXT]))
    if not report.total and not report.crashed and not re.search(r"^1\.\.\d+", output, re.M):
        raise ReportError("its output has no counts")
    return report


_TOTAL = re.compile(
    r"^(?:collected (?P<pytest>\d+) items?(?:.* (?P<selected>\d+) selected)?|\d+ workers? \[(?P<xdist>\d+) items?\]"
    r"|running (?P<cargo>\d+) tests?|1\.\.(?P<tap>\d+))"
)
_PYTEST_PERCENT = re.compile(r"\[ *(\d+)%\]$")
_CTEST_COUNT = re.compile(r"^ *(\d+)/(\d+) Test +#")
_ONE_ENDED = re.compile(r"^(?:not )?ok \d+\b|^test .+ \.\.\. \w")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST_LINE = 2_000
PROGRESS = re.compile(r"^(\d+ of \d+) tests$", re.M)
"""The line that `TestProgress` writes, among those that the runner prints."""


class TestProgress:
    """Tells, from what a runner prints so far, how many of its tests have ended, where it says how many there are."""

    __test__ = False

    def __init__(self) -> None:
        self._rest = ""
        self._done = self._total = 0

    def feed(self, text: str) -> str:
        """Return a line such as `12 of 40 tests` where further text tells another number, else nothing."""
        before = self._done, self._total
        *rows, rest = (self._rest + text).split("\n")
        self._rest = rest[-_LONGEST_LINE:]
        for row in rows:
            shown = row[-_LONGEST_LINE:].rstrip("\r").rpartition("\r")[2]  # what a terminal shows of it in the end
            self._read(_ESCAPES.sub("", shown).rstrip())
        told = 0 < self._done <= self._total and (self._done, self._total) != before
        return f"{self._done} of {self._total} tests\n" if told else ""

    def _read(self, row: str) -> None:
        if total := _TOTAL.match(row):
            whole = total["selected"] or total["pytest"] or total["xdist"] or total["tap"]
            self._total = int(whole) if whole else self._total + int(total["cargo"])  # one line for each binary
        elif (percent := _PYTEST_PERCENT.search(row)) and self._total:
            self._done = max(self._done, self._total * int(percent[1]) // 100)
        elif count := _CTEST_COUNT.match(row):
            self._done, self._total = int(count[1]), int(count[2])
        elif _ONE_ENDED.match(row):
            self._done += 1
