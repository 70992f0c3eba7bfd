"""Parameters that a stranger's JSON Schema describes (004: a tool may give a raw schema)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ollm_tui.core.tools.schema import compact_schema, parameters_in_words
from ollm_tui.core.tools.schema_parameters import MAX_SCHEMA_CHARACTERS, schema_parameters

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "search",
    "type": "object",
    "properties": {
        "title": {"type": "string", "title": "Title"},
        "limit": {"type": ["integer", "null"]},
        "sort": {"enum": ["new", "old"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    },
    "required": ["title"],
}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(["", "new", "old", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "title"]), inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(st.sampled_from([*SCHEMA["properties"], "else"]), values, max_size=5)


@given(arguments)
def test_what_passes_is_what_the_schema_allows(given_arguments: dict[str, Any]) -> None:
    parameters = schema_parameters("search", SCHEMA)
    try:
        jsonschema.validate(given_arguments, SCHEMA)
    except jsonschema.ValidationError:
        with pytest.raises(ValidationError):
            parameters.model_validate_json(json.dumps(given_arguments), strict=True)
    else:
        assert parameters.model_validate_json(json.dumps(given_arguments), strict=True).on_the_wire() == given_arguments


def test_a_model_sees_the_schema_without_what_only_repeats() -> None:
    shown = compact_schema(schema_parameters("search", SCHEMA))
    assert "$schema" not in shown and "title" not in shown
    assert shown["properties"]["title"] == {"type": "string"}  # type: ignore[index,call-overload]
    assert parameters_in_words(schema_parameters("search", SCHEMA)).startswith("title, limit?: ")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array"}, "no JSON object"),
        ({"properties": []}, "no JSON object"),
        ({"properties": {"a": {"description": "x" * MAX_SCHEMA_CHARACTERS}}}, "characters, over 16,000"),
    ],
)
def test_a_schema_that_no_call_could_follow_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        schema_parameters("bad", schema)


def test_patterns_references_and_depth_of_a_stranger_cannot_keep_it_busy() -> None:
    deep: dict[str, Any] = {"$ref": "https://example.com/schema"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    schema = {"properties": {"text": {"pattern": "^(a+)+$"}, "deep": deep, "far": {"$ref": "#/$defs/none"}}}
    parameters = schema_parameters("hostile", schema)
    nested: Any = []
    for _ in range(100):
        nested = [nested]
    hostile = {"text": "a" * 5_000 + "!", "deep": nested, "far": 1}
    assert parameters.model_validate_json(json.dumps(hostile), strict=True).on_the_wire() == hostile
