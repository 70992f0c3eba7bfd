"""What a suite comes to: checks passed of those made, which failed, and which of these are meant to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Counts:
    """The outcome of one suite; `otherwise` tells for the beginning of a check's name why it is not met."""

    otherwise: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    by_choice: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def made(self) -> int:
        return self.passed + len(self.by_choice) + len(self.failures)

    @property
    def share(self) -> float:
        """Of all checks, those included that are not met by choice."""
        return self.passed / max(self.made, 1)

    def check(self, about: str, expected: object, actual: object) -> None:
        if expected == actual:
            self.passed += 1
            return
        reason = next((reason for begin, reason in self.otherwise.items() if about.startswith(begin)), None)
        said = f"{about}: expected {expected!r}, shown {actual!r}"
        if reason is None:
            self.failures.append(said)
        else:
            self.by_choice.append(f"{said} ({reason})")
