"""Where a key stands in a TOML file."""

from __future__ import annotations

import pytest

from ollm_tui.core.base.app_dirs import line_of_key

TEXT = """\
theme = 3
[ui]
theme = "x"
"quoted key" = 1
[policy]
mode = "nonsense"
exec.mode = "full"
[[policy.rules]]
tool = "ls"
"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["theme"], 1),
        (["ui", "theme"], 3),
        (["ui", "quoted key"], 4),
        (["policy", "mode"], 6),
        (["policy", "exec", "mode"], 7),
        (["policy", "exec"], 7),
        (["policy", "rules"], 8),
        (["ui", "missing"], 2),
        (["nowhere"], None),
        ([], None),
    ],
)
def test_a_key_is_found_in_its_own_table(keys: list[str], line: int | None) -> None:
    assert line_of_key(TEXT, keys) == line
