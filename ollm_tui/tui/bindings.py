"""The registry of keys: panes and screens register theirs; help, footer and the check of `[keys]` read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

if TYPE_CHECKING:
    from ollm_tui.config import ConfigError

KEY_NAMES = {
    "esc": "Esc",
    "escape": "Esc",
    "⏎": "Enter",
    "enter": "Enter",
    "right_square_bracket": "]",
    "pgup": "PgUp",
    "pgdn": "PgDn",
    "end": "End",
    "home": "Home",
    "tab": "Tab",
    "space": "Space",
    "↑": "Up",
    "↓": "Down",
    "←": "Left",
    "→": "Right",
    "slash": "/",
}


class KeyGroup(Enum):
    """Where keys hold, in the order of the help."""

    EVERYWHERE = "Everywhere"
    PROMPT = "Prompt"
    CHAT = "Chat"
    CONFIRMATION = "Confirmation"
    GROUP = "Similar questions"
    LISTS = "Queue and todos"
    MEMORY = "Memory"
    SESSIONS = "Sessions"
    POLICY = "Policy"
    MODELS = "Models"
    PREFIX = "In the terminal after ctrl+]"
    TERMINAL = "Terminal tabs"
    READING = "Reading the terminal (F5)"
    JOBS = "Jobs"
    UNDO = "Undo"
    DIALOGS = "Dialogues"


def key_bindings(*rows: tuple[str, str, str, str, str], priority: bool = False, show: bool = True) -> list[BindingType]:
    """Return bindings from rows of key, action, name, id and tooltip."""
    return [
        Binding(key, action, name, id=binding_id, tooltip=tooltip, priority=priority, show=show)
        for key, action, name, binding_id, tooltip in rows
    ]


Owner = TypeVar("Owner", bound=type[DOMNode])

_owners: dict[KeyGroup, dict[int, type[DOMNode]]] = {}
_loaders: list[Callable[[], object]] = []


def register_keys(group: KeyGroup, place: int = 0) -> Callable[[Owner], Owner]:
    """Return a decorator that adds a class's BINDINGS to a group, at `place` in it."""

    def register(owner: Owner) -> Owner:
        _owners.setdefault(group, {})[place] = owner
        return owner

    return register


def register_loader(load: Callable[[], object]) -> None:
    """Call `load` before the registry is read; it imports what registers keys and is not loaded yet."""
    _loaders.append(load)


def key_groups() -> list[tuple[str, list[Binding]]]:
    """Return every binding with an id, by group. Imports all screens: not for the start."""
    for load in _loaders:
        load()
    return [
        (group.value, [binding for _, owner in sorted(_owners.get(group, {}).items()) for binding in _with_id(owner)])
        for group in KeyGroup
    ]


def key_errors(keys: Mapping[str, str], source: str) -> tuple[ConfigError, ...]:
    """Return what is wrong with `[keys]`: unknown ids, and ids without a key."""
    if not keys:
        return ()  # without loading every screen at the start
    from ollm_tui.config import ConfigError  # its models load after the first frame

    known = {binding.id for _, bindings in key_groups() for binding in bindings}
    errors: list[ConfigError] = []
    for name, key in keys.items():
        if name not in known:
            errors.append(ConfigError(source, f"[keys] knows no {name!r}", "`ollm-tui help keys` lists all ids."))
        elif not key or any(not part.strip() for part in key.split(",")):
            errors.append(ConfigError(source, f"[keys] {name!r} has no key", 'Write one like "f9" or "ctrl+b".'))
    return tuple(errors)


def display_key(key: str) -> str:
    """Return a key as people read it, in plain letters: `F8`, `^P`, `Esc`, `Shift+F6`."""
    if key.startswith("^") and len(key) > 1:
        return f"^{KEY_NAMES.get(key[1:].lower(), key[1:].upper())}"
    if key.lower().startswith("shift+"):
        return f"Shift+{display_key(key[6:])}"
    name = KEY_NAMES.get(key.lower())
    if name is not None:
        return name
    return key.upper() if key[:1] == "f" and key[1:].isdigit() else key


def _with_id(owner: type[DOMNode]) -> list[Binding]:
    return [binding for binding in owner.BINDINGS if isinstance(binding, Binding) and binding.id]
