"""The query of tools that search by a person's words."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator


def _says_something(query: str) -> str:
    if not query.strip():
        raise ValueError("give at least one word")
    # Half of a surrogate pair can be neither sent nor looked up.
    return query.encode("utf-8", "replace").decode("utf-8")


Query: TypeAlias = Annotated[str, AfterValidator(_says_something)]
"""Text with at least one visible character, and valid Unicode."""
