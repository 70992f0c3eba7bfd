"""What the dashboard's tests share: no wait longer than the app works, style sheets parsed once, no unseen frames."""

from __future__ import annotations

from textual.css.model import RuleSet
from textual.css.stylesheet import CSSLocation, Stylesheet

from tests.tui import frames, idle

_parse_rules = Stylesheet._parse_rules
_parsed: dict[object, list[RuleSet]] = {}


def _rules_of(
    self: Stylesheet,
    css: str,
    read_from: CSSLocation,
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    """As Textual does within one app, over all of them: parsing was an eighth of an app's start.

    Its own cache belongs to a `Stylesheet`, of which each app makes one, and no option hands one over. The rules may be
    shared, since nothing writes to them once they are parsed.
    """
    key = (css, read_from, is_default_rules, tie_breaker, scope, tuple(self._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse_rules(self, css, read_from, is_default_rules, tie_breaker, scope)
    return _parsed[key]


Stylesheet._parse_rules = _rules_of  # type: ignore[method-assign]  # apps make their style sheets themselves
idle.install()
frames.install()
