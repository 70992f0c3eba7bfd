"""Names that are asked about even inside the workspace: credentials, and files that make other programs run code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


OWN_SETTINGS_NAME = ".ollm"
"""The directory in a workspace that holds settings for this program."""


@dataclass(frozen=True)
class Sensitivity:
    """Why a path needs a person's word (`ask`), or is out of reach (`deny`)."""

    decision: Literal["ask", "deny"]
    reason: str
    """Reads after "it": "holds credentials"."""


CREDENTIALS = Sensitivity("ask", "holds credentials")
GIT_INTERNALS = Sensitivity("ask", "is git's own data, where hooks and configuration run programs")
CI = Sensitivity("ask", "tells a build server what to run")
EDITOR = Sensitivity("ask", "tells an editor what to run")
INSTRUCTIONS = Sensitivity("ask", "instructs coding agents")
MCP = Sensitivity("ask", "names programs that agents start")
SHELL_START = Sensitivity("ask", "is run when a shell or session starts")
TOOL_START = Sensitivity("ask", "tells development tools what to load or run")
OWN_SETTINGS_READ = Sensitivity("ask", "holds this program's settings")
OWN_SETTINGS_WRITE = Sensitivity("deny", "holds this program's settings, which no tool may change")

_NO_SECRETS = ".env.example .env.sample .env.template .env.dist .env.defaults *.pub"

_CREDENTIALS = """
    .env .env.* secrets.yml secrets.yaml secrets.json secrets.toml credentials.json
    id_rsa* id_dsa* id_ecdsa* id_ed25519* *.pem *.key *.p12 *.pfx *.ppk *.jks *.keystore *.kdbx
    .ssh .gnupg .password-store .netrc _netrc .git-credentials .htpasswd .vault-token
    .pgpass .my.cnf .npmrc .pypirc .cargo/credentials .cargo/credentials.toml .gem/credentials
    .aws .azure .kube .boto .s3cfg .databrickscfg rclone.conf .dockercfg .docker/config.json
    .config/gcloud .config/gh .config/hub .terraformrc .terraform.d/credentials.tfrc.json
    client_secret*.json service-account*.json service_account*.json
"""

DEEPER_CREDENTIALS = tuple(pattern for pattern in _CREDENTIALS.split() if "/" in pattern)
"""Those of more than one component, relative to whatever directory they stand in."""

_WRITES = {
    GIT_INTERNALS: ".git .gitconfig .gitmodules .config/git .githooks .husky",
    CI: """
        .github/workflows .github/actions .gitlab-ci.yml .gitlab-ci.yaml .gitlab/ci .gitea/workflows .forgejo/workflows
        .circleci .buildkite .woodpecker .woodpecker.y*ml .drone.y*ml .cirrus.y*ml .travis.y*ml .semaphore .teamcity
        appveyor.yml .appveyor.yml azure-pipelines*.y*ml bitbucket-pipelines.yml jenkinsfile
    """,
    MCP: ".mcp.json mcp.json mcp_servers.json claude_desktop_config.json .vscode/mcp.json",
    EDITOR: """
        .vscode/tasks.json .vscode/settings.json .vscode/launch.json *.code-workspace .idea .fleet .zed
        .devcontainer .devcontainer.json .nvim.lua .nvimrc .exrc .vimrc .gvimrc .config/nvim
        .dir-locals.el .emacs .emacs.d
    """,
    INSTRUCTIONS: """
        agents.md agents.override.md claude.md claude.local.md gemini.md qwen.md .cursorrules .cursor .windsurfrules
        .windsurf .clinerules .roorules .roo .claude .gemini .codex .continue .opencode .aider.conf.yml
        .github/copilot-instructions.md .github/instructions .github/prompts
    """,
    SHELL_START: """
        .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
        .kshrc .cshrc .tcshrc .login .inputrc .envrc .direnvrc .direnv .xinitrc .xprofile .xsession .xsessionrc
        .pam_environment .tmux.conf .config/fish .config/direnv .config/environment.d .config/autostart .config/systemd
    """,
    TOOL_START: """
        .gitattributes .gdbinit .gdbearlyinit .lldbinit .pdbrc .pdbrc.py .irbrc .pryrc .rvmrc .rprofile .iex.exs .ghci
        .pnpmfile.cjs .pnpmfile.mjs .yarnrc .yarnrc.yml .yarn/releases .yarn/plugins bunfig.toml .bundle/config
        .cargo/config .cargo/config.toml .mvn .bazelrc .sbtopts .jvmopts .pylintrc .tool-versions
        mise.toml .mise.toml mise.*.toml .mise.*.toml mise/config.toml .mise/config.toml .config/mise .config/mise.toml
        .pre-commit-config.yaml lefthook.yml .lefthook.yml sitecustomize.py usercustomize.py *.pth
    """,
}

_IDENTIFIED = """
    .git .git/config .git/hooks .ollm .env .envrc .netrc .npmrc .pypirc .mcp.json .vscode/tasks.json .github/workflows
    .bashrc .profile .zshrc .ssh .gnupg .aws .kube
"""
"""Paths also recognised by device and inode, whatever name they are reached by."""


def judge_reading(parts: Sequence[str]) -> Sensitivity | None:
    """Return why reading this path needs a question; None where it does not."""
    folded = tuple(map(fold, parts))
    if OWN_SETTINGS_NAME in folded:
        return OWN_SETTINGS_READ
    return CREDENTIALS if _holds_credentials(folded) else None


def judge_writing(parts: Sequence[str]) -> Sensitivity | None:
    """Return why creating, changing, moving or deleting this path needs a question or is denied."""
    folded = tuple(map(fold, parts))
    if OWN_SETTINGS_NAME in folded:
        return OWN_SETTINGS_WRITE
    if _holds_credentials(folded):
        return CREDENTIALS
    for sensitivity, patterns in _PATTERNS_TO_WRITE:
        if patterns.cover_or_hold(folded):
            return sensitivity
    return CREDENTIALS if _CREDENTIAL_PATTERNS.hold(folded) else None


def holds_credentials(parts: Sequence[str]) -> bool:
    """Return whether these path components name credentials; cheap enough for every entry."""
    return _holds_credentials(tuple(map(fold, parts)))


@lru_cache(maxsize=1)
def credential_examples() -> tuple[str, ...]:
    """Return names that files with credentials usually have, without their directories."""
    names = [
        pattern.rpartition("/")[2].replace("*", fill) for pattern in _CREDENTIALS.split() for fill in ("", "local")
    ]
    return tuple(dict.fromkeys((*names, ".env.production", ".env.development", ".env.test", "credentials", "config")))


@lru_cache(maxsize=16384)
def fold(name: str) -> str:
    """Return one spelling for all that some file system takes for the same name."""
    if name.isascii():
        return name.lower().rstrip(" .") or name
    kept = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", kept).casefold()).rstrip(" .") or name


_MOST_NAMES = 16384


class _Patterns:
    """Patterns, between blanks; a path fits when a run of its components does.

    Patterns of one component are one compiled expression, so that searches can ask for every entry they see.
    """

    def __init__(self, patterns: str) -> None:
        every = [tuple(pattern.split("/")) for pattern in patterns.split()]
        self._single = re.compile("|".join(translate(names[0]) for names in every if len(names) == 1))
        self._longer: dict[str, list[tuple[str, ...]]] = {}
        for names in every:
            if len(names) > 1:
                self._longer.setdefault(names[0], []).append(names)
        self._known: dict[str, bool] = {}

    def cover(self, folded: Sequence[str]) -> bool:
        """Return whether the path is named by a pattern, or lies in one that is."""
        if any(map(self._names, folded)):
            return True
        return any(
            tuple(folded[start : start + len(names)]) == names
            for start, first in enumerate(folded)
            for names in self._longer.get(first, ())
        )

    def cover_or_hold(self, folded: Sequence[str]) -> bool:
        """As `cover`, and where the path would hold one: putting `.github` in place puts its workflows there."""
        return self.cover(folded) or self.hold(folded)

    def hold(self, folded: Sequence[str]) -> bool:
        """Return whether a name in the path would be covered for the path's own name."""
        return bool(folded) and folded[-1] in self._longer

    def _names(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= _MOST_NAMES:
                self._known.clear()
            known = self._known[name] = self._single.fullmatch(name) is not None
        return known


_CREDENTIAL_PATTERNS = _Patterns(_CREDENTIALS)
_NO_SECRET_PATTERNS = _Patterns(_NO_SECRETS)
_PATTERNS_TO_WRITE = tuple((sensitivity, _Patterns(patterns)) for sensitivity, patterns in _WRITES.items())


def _holds_credentials(folded: Sequence[str]) -> bool:
    return _CREDENTIAL_PATTERNS.cover(folded) and not _NO_SECRET_PATTERNS.cover(folded[-1:])


IDENTIFIED_TO_READ = tuple((name, found) for name in _IDENTIFIED.split() if (found := judge_reading(name.split("/"))))
IDENTIFIED_TO_WRITE = tuple((name, found) for name in _IDENTIFIED.split() if (found := judge_writing(name.split("/"))))
"""Those of _IDENTIFIED that something stands against, with what that is."""

DECLARED = Sensitivity("ask", "is protected by your settings")


class ProtectedPatterns:
    """A person's own list of protected files, relative to the workspace; they ask for reading and for writing."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec  # a twentieth of a second that most people never need

        return GitIgnoreSpec.from_lines(self.patterns)

    def check(self) -> None:
        """Raise ValueError naming a pattern that cannot be read."""
        if self.patterns:
            try:
                _ = self._spec
            except ValueError as error:
                raise ValueError(f"tools.protected: {error}") from None

    def judge(self, relative: str) -> Sensitivity | None:
        """Return what the list says about a path; a directory's pattern covers everything in it."""
        if not self.patterns:
            return None
        return DECLARED if self._spec.match_file(relative) or self._spec.match_file(f"{relative}/") else None
