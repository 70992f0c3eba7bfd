"""`ollm-tui policy lint`: mistakes in the policy files, as JSON lines."""

from __future__ import annotations

from ollm_tui.cli.exits import ExitCode
from ollm_tui.cli.output import print_json, say
from ollm_tui.cli.reporting import sound_configuration
from ollm_tui.core.policy.lint import lint, lint_sources
from ollm_tui.options import Options
from ollm_tui.runtime.plugins import builtin_registry


def lint_policy(options: Options) -> int:
    """Exit 1 where there is a finding."""
    configuration = sound_configuration(options)
    files = configuration.files
    documents = [*files.documents, *([files.repository] if files.repository else []), files.preset]
    registry, _ = builtin_registry()
    findings = [*lint(documents, registry.list()), *lint_sources(configuration.sources)]
    for finding in findings:
        print_json(finding.model_dump(mode="json", by_alias=True, exclude_none=True))
    say(f"{len(findings)} findings" if findings else "nothing found")
    return ExitCode.FAILED if findings else ExitCode.DONE
