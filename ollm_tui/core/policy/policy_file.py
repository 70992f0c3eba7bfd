"""Read policy files: TOML to rules that know their file and line."""

from __future__ import annotations

import re
import stat
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Literal, cast

from pydantic import Field, JsonValue, ValidationError, model_validator

from ollm_tui.core.base.app_dirs import line_of_key
from ollm_tui.core.policy.rule_set import compile_condition
from ollm_tui.core.policy.rules import Decision, ExecPolicy, PolicyRule, PolicyTable, RuleSource, ToolPolicy
from ollm_tui.core.sandbox.engines import SandboxMode

PRESETS = ("balanced", "strict", "read-only", "none")
DEFAULT_PRESET = "balanced"

_RULE_HEADER = re.compile(r"^\s*\[\[\s*(?:policy\s*\.\s*)?rules\s*\]\]")
_LINE_IN_MESSAGE = re.compile(r"\(at line (\d+), column \d+\)")


class SandboxPolicy(PolicyTable):
    """Layer 3: where commands run that were allowed (004's names are accepted); None: not given."""

    mode: SandboxMode | None = None
    network: bool | None = None
    git: Literal["ro", "rw"] | None = None
    bind: list[str] | None = None
    memory_mb: int | None = Field(default=None, ge=64)
    cpu_percent: int | None = Field(default=None, ge=1)
    pids: int | None = Field(default=None, ge=16)
    tmp_mb: int | None = Field(default=None, ge=1)
    image: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _take_other_names(cls, table: object) -> object:
        if not isinstance(table, dict):
            return table
        given = cast(dict[str, object], table)
        return {_SANDBOX_NAMES.get(name, name): value for name, value in given.items()}


_SANDBOX_NAMES = {
    "networkAccess": "network",
    "bindMounts": "bind",
    "maxMemoryMb": "memory_mb",
    "maxCpuPercent": "cpu_percent",
}
"""Names of 004's SandboxConfig."""


class WebPolicy(PolicyTable):
    """Hosts that may be fetched without asking."""

    allow_domains: list[str] = Field(default_factory=list[str])


class PolicyDocument(PolicyTable):
    """One policy file, or the `policy` table of a config file; None: not given."""

    preset: Literal["balanced", "strict", "read-only", "none"] | None = None
    default_action: Decision | None = None
    tools: ToolPolicy = Field(default_factory=ToolPolicy)
    exec: ExecPolicy = Field(default_factory=ExecPolicy)
    sandbox: SandboxPolicy = Field(default_factory=SandboxPolicy)
    web: WebPolicy = Field(default_factory=WebPolicy)
    rules: list[PolicyRule] = Field(default_factory=list[PolicyRule])


@dataclass(frozen=True)
class LoadedPolicy:
    """A document with the sources of its rules."""

    document: PolicyDocument
    source: str
    rule_sources: tuple[RuleSource, ...] = ()
    file: str | None = None

    @property
    def rules_with_sources(self) -> list[tuple[PolicyRule, RuleSource]]:
        """Each rule with its source."""
        return list(zip(self.document.rules, self.rule_sources, strict=True))


@dataclass
class PolicyFileError(Exception):
    """A policy that cannot be used: where, what is wrong, and the remedy."""

    file: str
    message: str
    remedy: str = "Correct the file; until then nothing is allowed."
    line: int | None = None
    rule: int | None = field(default=None)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        rule = f", rule {self.rule}" if self.rule else ""
        return f"{where}{rule}: {self.message}. {self.remedy}"


def read_policy_file(path: Path, source: str) -> LoadedPolicy:
    """Read a file whose top level is the policy (`--policy`); raises PolicyFileError."""
    text = read_checked(path)
    return load_policy(parse_toml(text, str(path)), text, str(path), source)


def read_checked(path: Path) -> str:
    """Return the text of a policy file; raises PolicyFileError if world-writable."""
    try:
        if path.stat().st_mode & stat.S_IWOTH:
            raise PolicyFileError(str(path), "every user of this machine may write it", "Run: chmod o-w on it.")
        return path.read_text("utf-8")
    except OSError as error:
        raise PolicyFileError(str(path), error.strerror or str(error), "Check the path.") from None
    except UnicodeDecodeError as error:
        raise PolicyFileError(str(path), f"not UTF-8: {error.reason} at byte {error.start}") from None


def parse_toml(text: str, file: str) -> dict[str, JsonValue]:
    """Parse TOML; raises PolicyFileError with the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE_IN_MESSAGE.search(str(error))
        message = _LINE_IN_MESSAGE.sub("", str(error)).strip()
        raise PolicyFileError(file, message, line=int(found[1]) if found else None) from None


def load_policy(table: JsonValue, text: str, file: str, source: str) -> LoadedPolicy:
    """Validate a policy table of `text`; raises PolicyFileError for the first error."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _RULE_HEADER.match(line)]
    try:
        document = PolicyDocument.model_validate(table)
    except ValidationError as error:
        raise _placed(error, file, lines, text) from None
    sources: list[RuleSource] = []
    for index, rule in enumerate(document.rules):
        line = lines[index] if index < len(lines) else None
        sources.append(RuleSource(source, index + 1, file, line))
        for condition in rule.conditions:
            try:
                compile_condition(condition, rule.action)
            except ValueError as error:
                raise PolicyFileError(file, str(error), line=line, rule=index + 1) from None
    return LoadedPolicy(document, source, tuple(sources), file)


def preset_text(name: str) -> str:
    """Return the text of a shipped preset."""
    return resources.files("ollm_tui.core.policy").joinpath(f"presets/{name}.toml").read_text("utf-8")


def load_preset(name: str) -> LoadedPolicy:
    """Load one of PRESETS."""
    text = preset_text(name)
    return load_policy(parse_toml(text, f"preset {name}"), text, f"preset {name}", f"preset {name}")


def _placed(error: ValidationError, file: str, lines: list[int], text: str) -> PolicyFileError:
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    rule = int(loc[1]) + 1 if len(loc) > 1 and loc[0] == "rules" and loc[1].isdigit() else None
    line = lines[rule - 1] if rule is not None and rule <= len(lines) else None
    if line is None:
        # In a config file the policy is a table among others.
        line = line_of_key(text, ["policy", *loc]) or line_of_key(text, loc)
    key = ".".join(loc) or "policy"
    match first["type"]:
        case "extra_forbidden":
            message, remedy = f"unknown key {key}", "Remove it or correct its spelling; until then nothing is allowed."
        case "enum" if loc[:2] == ["sandbox", "mode"]:
            message = f"sandbox mode {first['input']!r} is not available in this version"
            modes = ", ".join(f'"{mode}"' for mode in SandboxMode)
            remedy = f"Set [sandbox] mode to one of {modes}; until then nothing is allowed."
        case _:
            message, remedy = f"{key}: {first['msg']}", "Correct the file; until then nothing is allowed."
    return PolicyFileError(file, message, remedy, line, rule)
