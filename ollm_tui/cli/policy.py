"""`ollm-tui policy check | show | lint | test | log`: look at the policy. Nothing runs."""

from __future__ import annotations

import argparse

from ollm_tui.cli.arguments import command_parser, options_of, parse
from ollm_tui.core.policy.policy_file import PRESETS

_LINT = """\
Looks for names that nothing bears, rules that never decide or contradict an earlier one, patterns that can never match,
and patterns that say more than they seem to. Findings go to stdout, one JSON object a line.
Exit codes: 0 nothing found, 1 something found, 2 the policy cannot be used at all."""

_TEST = """\
Runs a table of calls against the policy. FILE holds TOML, [[case]] tables with tool, arguments and expect ("allow",
"ask" or "deny"), or JSON lines with the same keys; also compared where given: risk, and reason (words it contains);
mode sets the mode for one row. Rows that differ go to stdout, one JSON object a line.
Exit codes: 0 all as expected, 1 some differ, 2 the table or the policy cannot be used."""


def run_command(argv: list[str]) -> int:
    parser = command_parser("policy", "Look at the policy.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|show|lint|test|log")
    check = actions.add_parser("check", help="judge a call without running it", allow_abbrev=False)
    check.add_argument("tool", nargs="?", help="the tool")
    check.add_argument("arguments", nargs="?", help="its arguments as JSON; - reads them from stdin")
    check.add_argument("--batch", metavar="FILE", help="one call a line; - reads them from stdin")
    show = actions.add_parser("show", help="the policy in force as TOML, with its sources", allow_abbrev=False)
    show.add_argument("preset", nargs="?", choices=PRESETS, help="a shipped preset instead of what is in force")
    actions.add_parser("lint", help="find mistakes", description=_LINT, formatter_class=_RAW, allow_abbrev=False)
    test = actions.add_parser(
        "test", help="run a table of decisions", description=_TEST, formatter_class=_RAW, allow_abbrev=False
    )
    test.add_argument("file", metavar="FILE", help="the table; - reads it from stdin")
    log = actions.add_parser("log", help="what was decided so far", allow_abbrev=False)
    form = log.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line")
    form.add_argument("--verify", action="store_true", help="whether the log is as it was written; exit 1 if not")
    log.add_argument("--last", metavar="N", type=int, help="only the last N lines")
    given = parse(parser, argv)
    options = options_of(given)
    match given.action:
        case "check":
            from ollm_tui.cli.policy_check import check_batch, check_one

            if (given.batch is None) == (given.arguments is None):
                parser.error("policy check takes TOOL and JSON, or --batch FILE")
            if given.batch is not None:
                return check_batch(options, given.batch)
            return check_one(options, given.tool, given.arguments)
        case "show":
            from ollm_tui.cli.policy_show import show_policy, show_preset

            return show_policy(options) if given.preset is None else show_preset(given.preset)
        case "lint":
            from ollm_tui.cli.policy_lint import lint_policy

            return lint_policy(options)
        case "test":
            from ollm_tui.cli.policy_table import run_decision_table

            return run_decision_table(options, given.file)
        case _:
            from ollm_tui.cli.policy_log import show_log, verify_log

            return verify_log() if given.verify else show_log(as_json=given.json, last=given.last)


_RAW = argparse.RawDescriptionHelpFormatter
