"""Settings: their models and defaults, and the files, variables and flags they come from."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, ValidationError

from ollm_tui.agent.providers.provider import ModelOptions, Thinking, ToolsMode
from ollm_tui.core.base.app_dirs import config_dir, line_of_key, may_be_there
from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.policy.repository_trust import RepositoryConfig
from ollm_tui.core.policy.rules import Mode
from ollm_tui.options import Options

ENVIRONMENT_PREFIX = "OLLM_"
NOT_SETTINGS = frozenset({"OLLM_PROBE", "OLLM_TEST_TOOLS", "OLLM_TEST_LLM"})
"""Variables with our prefix that are not settings."""

NOT_FOR_REPOSITORIES = frozenset(
    {"api_key", "base_url", "provider", "shell", "mode", "web", "memory", "keys", "terminal", "models", "mcp"}
)
"""Keys that a repository's file may not set: they could leak secrets or loosen something."""


class ConfigTable(BaseModel):
    """Base of settings tables, in which unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class UiSettings(ConfigTable):
    """`[ui]`: how the dashboard looks and behaves."""

    theme: str = "ollm-dark"
    mouse: bool = True
    reduced_motion: bool = False
    auto_open: Literal["idle", "never"] = "idle"
    """When a confirmation opens by itself; `idle`: over an empty prompt, after a second without keys."""
    notify: Literal["all", "bell", "never"] = "all"
    """How a question, a prompt or the end of a turn is said while the window has not the focus."""


class ConfirmSettings(ConfigTable):
    """`[confirm]`: how long a confirmation waits; None is for ever, while a person is there."""

    timeout: Annotated[float, Field(gt=0)] | None = None


class LimitSettings(ConfigTable):
    """`[limits]`: bounds on what tools read and return."""

    file_bytes: int = Field(20_000_000, gt=0)
    result_lines: int = Field(2_000, gt=0)
    result_chars: int = Field(100_000, gt=0)
    entries: int = Field(100_000, gt=0)
    call_seconds: float = Field(300.0, gt=0)


class ToolSettings(ConfigTable):
    """`[tools]`: how calls are read."""

    forgiving: bool = True
    strict_edits: bool = False
    test_command: str | None = None
    """The command line of `run_tests`, which else finds the project's own runner."""
    protected: list[str] = Field(default_factory=list[str])
    """Patterns, as in `.gitignore`, of files that ask for reading and writing."""


class ShellSettings(ConfigTable):
    """`[shell]`: commands of the agent."""

    pass_env: list[str] = Field(default_factory=list[str])
    """Variables that reach commands although their names look secret."""


class TerminalSettings(ConfigTable):
    """`[terminal]`: what programs in the terminal may do beyond drawing."""

    clipboard: bool = False
    """Whether they may write the clipboard (OSC 52); reading it is never allowed."""


class WebSettings(ConfigTable):
    """`[web]`: where to search (without anything set, the keyless provider if it is installed), and the browser."""

    search_provider: Literal["searxng", "brave", "tavily", "ddgs"] | None = None
    searxng_url: str | None = None
    brave_key: SecretStr | None = None
    tavily_key: SecretStr | None = None
    browser_without_sandbox: bool = False
    """Whether Chromium may run without its own sandbox, as it has to for root and in some containers."""


class MemorySettings(ConfigTable):
    """`[memory]`: notes in a session's first message."""

    inject: bool = True
    inject_tokens: int = Field(1_000, gt=0)
    """Most tokens of the notes, as estimated; at most an eighth of a known context window."""


class AgentSettings(ConfigTable):
    """`[agent]`: the conversation."""

    max_rounds: int = Field(50, gt=0)
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """Tokens of one turn, its requests and replies; None is for no limit."""
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    """Time of one turn without that of waiting for the person."""


class ModelSettings(ConfigTable):
    """`[models."NAME"]`: one model; None is as for all models."""

    num_ctx: Annotated[int, Field(gt=0)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    think: Thinking | None = None
    tools: ToolsMode | None = None
    images: bool | None = None

    @property
    def options(self) -> ModelOptions:
        """The settings as providers take them."""
        return ModelOptions(self.num_ctx, self.temperature, self.think, self.tools, self.images)


ProviderName = Literal["ollama", "openai", "embedded", "offline", "scripted"]


class Settings(ConfigTable):
    """All settings; None means: find out or leave it to the server."""

    provider: ProviderName | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    num_ctx: Annotated[int, Field(gt=0)] | None = None
    mode: Mode = Mode.ASK
    ui: UiSettings = Field(default_factory=UiSettings)
    keys: dict[str, str] = Field(default_factory=dict[str, str])
    confirm: ConfirmSettings = Field(default_factory=ConfirmSettings)
    limits: LimitSettings = LimitSettings.model_validate({})
    tools: ToolSettings = Field(default_factory=ToolSettings)
    shell: ShellSettings = Field(default_factory=ShellSettings)
    terminal: TerminalSettings = Field(default_factory=TerminalSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    memory: MemorySettings = MemorySettings.model_validate({})
    agent: AgentSettings = AgentSettings.model_validate({})
    models: dict[str, ModelSettings] = Field(default_factory=dict[str, ModelSettings])

    @property
    def model_options(self) -> dict[str, ModelOptions]:
        """What is set for single models, by their names."""
        return {name: table.options for name, table in self.models.items()}


@dataclass(frozen=True)
class ConfigError:
    """What is wrong in a file or variable: where, what, and what to do."""

    source: str
    message: str
    remedy: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.message}. {self.remedy}"


@dataclass(frozen=True)
class ConfigFile:
    """A config file as read: text for positions, tables for values."""

    path: Path
    text: str
    tables: Mapping[str, JsonValue]


@dataclass
class LoadedConfig:
    """The effective settings, the source of each by dotted key, and all errors."""

    settings: Settings
    sources: dict[str, str]
    errors: list[ConfigError] = field(default_factory=list[ConfigError])
    user_file: ConfigFile | None = None
    repository_file: ConfigFile | None = None
    unreadable: ConfigError | None = None
    """A config file that could not be read: its policy is unknown, so everything is denied."""


def user_config_path(options: Options) -> Path:
    """Return the user's config file, or the one named by `--config`."""
    return options.config_file or config_dir() / "config.toml"


def load_settings(
    options: Options, trusted: RepositoryConfig | None, environ: Mapping[str, str] | None = None
) -> LoadedConfig:
    """Merge defaults, the user's file, the trusted repository's, `OLLM_*` variables and flags.

    What is invalid is left out and described in `errors`; nothing is raised.
    """
    layers = _Layers(LoadedConfig(Settings(), {}))
    loaded = layers.loaded
    path = user_config_path(options)
    if options.config_file is not None or may_be_there(path):
        loaded.user_file = layers.read(path)
        if loaded.user_file is not None:
            layers.add(loaded.user_file.tables, str(path), loaded.user_file.text)
    if trusted is not None:
        loaded.repository_file = layers.read(trusted.path, trusted.content)
        if loaded.repository_file is not None:
            layers.add_repository(loaded.repository_file)
    for name, table in _from_environment(os.environ if environ is None else environ):
        layers.add(table, name)
    layers.add(_from_flags(options), "command line")
    loaded.settings = Settings.model_validate(layers.values)
    return loaded


@dataclass
class _Layers:
    """Settings as they are merged, each layer over those before it."""

    loaded: LoadedConfig
    values: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def read(self, path: Path, content: bytes | None = None) -> ConfigFile | None:
        """Read the file at `path`, or `content` where only that may count."""
        try:
            text = path.read_text("utf-8") if content is None else content.decode("utf-8")
            return ConfigFile(path, text, tomllib.loads(text))
        except OSError as failure:
            error = ConfigError(str(path), failure.strerror or str(failure), "Check the path and its permissions.")
        except UnicodeDecodeError as failure:
            error = ConfigError(str(path), f"not UTF-8 at byte {failure.start}", "Save it as UTF-8.")
        except tomllib.TOMLDecodeError as failure:
            found = re.search(r"\(at line (\d+), column \d+\)", str(failure))
            message, remedy = str(failure).split(" (at ")[0], "Correct it; until then nothing is allowed."
            error = ConfigError(str(path), message, remedy, int(found[1]) if found else None)
        self.loaded.errors.append(error)
        self.loaded.unreadable = self.loaded.unreadable or error
        return None

    def add(self, tables: Mapping[str, JsonValue], source: str, text: str = "") -> None:
        """Merge the keys that are valid by themselves; the others become errors."""
        for key, value in tables.items():
            if key in ("policy", "hooks", "mcp"):
                continue  # read by themselves: an error in the policy denies everything, one in a hook is its own
            if not isinstance(value, dict) or key not in Settings.model_fields or key == "keys":
                if self._is_valid({key: value}, source, text):
                    self._set(key, value, source)
                continue
            parts: dict[str, JsonValue] = {}
            for name, part in value.items():
                if key == "models" and isinstance(part, dict):
                    valid = (one for one in part if self._is_valid({key: {name: {one: part[one]}}}, source, text))
                    parts[name] = {one: part[one] for one in valid}
                elif self._is_valid({key: {name: part}}, source, text):
                    parts[name] = part
            self._set(key, parts, source)

    def add_repository(self, file: ConfigFile) -> None:
        """Merge what a repository may set; the last pattern wins, so its protected files go before the person's."""
        allowed = dict(file.tables)
        for key in [key for key in allowed if key in NOT_FOR_REPOSITORIES]:
            del allowed[key]
            remedy = "Set it in your own config file instead; here it is ignored."
            line = line_of_key(file.text, [key])
            self.loaded.errors.append(ConfigError(str(file.path), f"a repository may not set {key}", remedy, line))
        own = self._protected()
        self.add(allowed, str(file.path), file.text)
        tools, both = self.values.get("tools"), self._protected()
        if own and both is not own and isinstance(tools, dict):
            tools["protected"] = [*both, *own]

    def _protected(self) -> list[JsonValue]:
        tools = self.values.get("tools")
        given = tools.get("protected") if isinstance(tools, dict) else None
        return given if isinstance(given, list) else []

    def _is_valid(self, one: dict[str, JsonValue], source: str, text: str) -> bool:
        try:
            Settings.model_validate(one)
        except ValidationError as error:
            first = error.errors()[0]
            keys = [str(part) for part in first["loc"]]
            dotted = ".".join(keys)
            message, remedy = f"{dotted}: {first['msg']}", "Correct it; the dashboard uses the default."
            if first["type"] == "extra_forbidden":
                message = f"unknown key {dotted}"
                remedy = "Remove it or correct its spelling; the dashboard ignores it."
            self.loaded.errors.append(ConfigError(source, message, remedy, line_of_key(text, keys)))
            return False
        return True

    def _set(self, key: str, value: JsonValue, source: str) -> None:
        if not isinstance(value, dict):
            self.values[key] = value
            self.loaded.sources[key] = source
            return
        current = self.values.get(key)
        self.values[key] = {**(current if isinstance(current, dict) else {}), **value}
        self.loaded.sources.update({f"{key}.{name}": source for name in value})


def effective_toml(loaded: LoadedConfig) -> str:
    """Return the settings as TOML, each with its source; secrets are masked."""
    lines: list[str] = []
    tables: list[str] = []
    for name in Settings.model_fields:
        value = getattr(loaded.settings, name)
        if name == "models":
            for model, own in loaded.settings.models.items():
                rows = own.model_dump(mode="json", exclude_none=True).items()
                dotted = f"models.{model}"
                tables += ["", f"[models.{json.dumps(model)}]", *(_shown(*row, dotted, loaded) for row in rows)]
        elif isinstance(value, ConfigTable | dict):
            rows = list(value) if isinstance(value, ConfigTable) else sorted(loaded.settings.keys.items())
            tables += ["", f"[{name}]", *(_shown(key, part, f"{name}.{key}", loaded) for key, part in rows)]
        else:
            lines.append(_shown(name, value, name, loaded))
    return "\n".join((*lines, *tables)) + "\n"


def _shown(key: str, value: JsonValue | SecretStr, dotted: str, loaded: LoadedConfig) -> str:
    import tomlkit  # takes tens of milliseconds that only this command needs

    name, source = tomlkit.key(key).as_string(), loaded.sources.get(dotted, "default")
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, SecretStr):
        return f'{name} = "********"  # {source}'
    text = tomlkit.item(mask(value) if isinstance(value, str) else value).as_string()
    return f"{name} = {text}  # {source}"


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, dict[str, JsonValue]]]:
    found: list[tuple[str, dict[str, JsonValue]]] = []
    for name, raw in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS:
            continue
        value: JsonValue = _environment_value(raw)
        for part in reversed(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")):
            value = {part: value}
        if isinstance(value, dict):
            found.append((name, value))
    return found


def _environment_value(raw: str) -> JsonValue:
    try:
        parsed: dict[str, JsonValue] = tomllib.loads(f"value = {raw}")
    except tomllib.TOMLDecodeError:
        return raw
    value = parsed.get("value")
    return value if len(parsed) == 1 and isinstance(value, bool | int | float | str | list) else raw


def _from_flags(options: Options) -> dict[str, JsonValue]:
    flags = _given(options, "provider", "model", "base_url", "mode")
    ui = _given(options, "theme", "mouse", "reduced_motion")
    agent = _given(options, "max_rounds")
    return {**flags, **({"ui": ui} if ui else {}), **({"agent": agent} if agent else {})}


def _given(options: Options, *names: str) -> dict[str, JsonValue]:
    return {name: value for name in names if (value := getattr(options, name)) is not None}
