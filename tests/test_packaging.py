"""What is installed is what was built: the wheel, the floors between the rooms, the README's commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ollm_tui"


def modules_below(folder: Path) -> list[str]:
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in folder.rglob("*.py")
        if path.name != "__main__.py"
    )


CORE_MODULES = modules_below(PACKAGE / "core")
SCREEN_LIBRARIES = {"textual", "rich", "pyte"}


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_module_of_the_core_or_the_agent_loads_a_screen_library() -> None:
    code = (
        "import importlib, sys\n"
        "sys.modules['httpx._main'] = None  # httpx's own command line would load rich\n"
        f"for name in {CORE_MODULES!r} + {modules_below(PACKAGE / 'agent')!r} + ['ollm_tui.config', 'ollm_tui.runtime']:\n"
        "    importlib.import_module(name)\n"
        f"    loaded = {SCREEN_LIBRARIES!r} & set(sys.modules)\n"
        "    assert not loaded, (name, loaded)\n"
        "print('clean')\n"
    )
    assert python(code) == "clean\n"


def test_the_core_stands_without_the_agent() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {CORE_MODULES!r}:\n"
        "    importlib.import_module(name)\n"
        "print([name for name in sys.modules if name.startswith(('ollm_tui.agent', 'ollm_tui.tui', 'ollm_tui.cli'))])\n"
    )
    assert python(code) == "[]\n"


def test_benchmarks_and_the_maker_of_the_pictures_find_what_they_use() -> None:
    """They run now and then only; a name that moved would be missed long after."""
    code = (
        "import importlib\n"
        f"for name in {[*modules_below(ROOT / 'tests' / 'bench'), 'tests.screenshots']!r}:\n"
        "    importlib.import_module(name)\n"
        "print('found')\n"
    )
    assert python(code, PYTHONPATH=str(ROOT)) == "found\n"


def test_heavy_modules_wait_until_they_are_needed() -> None:
    """Building the whole house loads neither HTTP library, page readers nor search engine: an idle dashboard is small."""
    code = (
        "import asyncio, sys\n"
        "from ollm_tui.runtime import Attendance, open_runtime\n"
        "from ollm_tui.options import Options\n"
        "async def main():\n"
        "    async with open_runtime(Options(provider='offline'), Attendance.PERSON):\n"
        "        pass\n"
        "asyncio.run(main())\n"
        "heavy = {'httpx', 'lxml', 'xml.etree.ElementTree', 'readability', 'pathspec', 're2', 'ctypes', 'textual', 'pyte'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    python(code, OLLM_PROBE="0")  # the first start on a machine also tries the sandbox, and keeps what it found
    assert python(code, OLLM_PROBE="0") == "[]\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked into a folder of its own as an installation would."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "site"), str(built)]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "site"


def test_the_wheel_brings_its_themes_presets_and_tables(wheel: Path, tmp_path: Path) -> None:
    code = (
        "import os; os.chdir('/')\n"
        "import ollm_tui\n"
        "from ollm_tui.core.policy.policy_file import PRESETS, load_preset\n"
        "from ollm_tui.core.policy.shell.shell_line import analyse\n"
        "from ollm_tui.core.policy.shell.read_only import read_only_parts\n"
        "from ollm_tui.agent.providers.scripted import tour_script\n"
        "from ollm_tui.tui.themes import load_themes\n"
        "print(ollm_tui.__file__)\n"
        "print(sorted(load_themes().valid), load_themes().errors)\n"
        "print([load_preset(name).source for name in PRESETS], bool(tour_script()))\n"
        "print(all(read_only_parts(analyse('ls -la'))))\n"
    )
    place, themes, presets, tables = python(code, PYTHONPATH=str(wheel)).splitlines()
    assert place.startswith(str(wheel))
    assert "ollm-dark" in themes and "ollm-light" in themes and themes.endswith("()")
    assert presets.endswith("True") and tables == "True"
    assert (wheel / "ollm_tui" / "py.typed").exists()
    pages = sorted(path.relative_to(PACKAGE) for path in (PACKAGE / "docs").rglob("*.md"))
    assert (
        pages and sorted(path.relative_to(wheel / "ollm_tui") for path in (wheel / "ollm_tui").rglob("*.md")) == pages
    )
    styles = {path.name for path in (PACKAGE / "tui" / "styles").glob("*.tcss")}
    assert styles and {path.name for path in (wheel / "ollm_tui" / "tui" / "styles").glob("*.tcss")} == styles


LIBRARY_USER = """\
import asyncio
from ollm_tui.core import (
    AbortSignal, Effect, MessageBus, Parameters, PolicyConfig, PolicyDecision, PolicyEngine, PolicyRule, Risk, Tool,
    ToolExecutor, ToolGroup, ToolInvocation, ToolRegistry, ToolResult, Workspace,
)

class Greeting(Parameters):
    name: str

class Greet(ToolInvocation[Greeting]):
    def get_description(self) -> str:
        return f"Greet {self.params.name}"

    async def execute(self, signal: AbortSignal, update_output: object = None) -> ToolResult:
        return ToolResult.of_text(f"Hello {self.params.name}")

async def main() -> str:
    registry, bus = ToolRegistry(), MessageBus()
    policy = PolicyConfig(rules=[PolicyRule(tool="greet", action=PolicyDecision.ALLOW)])
    tool = Tool(
        name="greet", display_name="Greet", description="Greets", group=ToolGroup.SYSTEM, effect=Effect.READS,
        parameters=Greeting, invocation=Greet, risk=Risk.LOW,
    )
    registry.register(tool)
    executor = ToolExecutor(registry, PolicyEngine(policy), bus, Workspace("."))
    return (await executor.execute("greet", {"name": "you"})).llm_content

print(asyncio.run(main()))
"""


def test_a_program_that_uses_the_library_passes_strict_type_checks_and_runs(wheel: Path, tmp_path: Path) -> None:
    """The wheel's types reach a user: `py.typed` is there, and the names that load lazily are known."""
    venv.create(tmp_path / "venv", with_pip=False)
    [packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "installed.pth").write_text(f"{wheel}\n{sysconfig.get_path('purelib')}\n")
    user, interpreter = tmp_path / "user.py", tmp_path / "venv" / "bin" / "python"

    def check(program: str) -> subprocess.CompletedProcess[str]:
        user.write_text(program)
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
        return subprocess.run(
            [*command, "--python-executable", str(interpreter), str(user)],
            capture_output=True, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip

    done = check(LIBRARY_USER)
    assert (done.returncode, done.stdout) == (0, "Success: no issues found in 1 source file\n"), (
        done.stdout + done.stderr
    )
    ran = subprocess.run([interpreter, user], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.stdout == "Hello you\n", ran.stderr
    wrong = check(LIBRARY_USER.replace('Workspace(".")', "Workspace(1)"))
    assert 'Argument 1 to "Workspace" has incompatible type "int"' in wrong.stdout


def test_the_readme_names_two_commands_of_one_line_each() -> None:
    commands = re.findall(r"^\$ (python3 .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    assert commands[0].endswith(".venv/bin/ollm-tui") and commands[1].endswith("nox -s tests")


def test_every_picture_of_the_readme_is_there() -> None:
    pictures = re.findall(r"\]\((screenshots/[^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures and all((ROOT / picture).exists() for picture in pictures)


def test_the_import_contracts_name_every_room() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rooms = {
        f"ollm_tui.{path.stem}" for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    } - {"ollm_tui.__init__", "ollm_tui.__main__"}
    assert rooms == set(layers)
