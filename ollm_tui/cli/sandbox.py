"""`ollm-tui sandbox check`: which cages work on this machine, and what each of them holds."""

from __future__ import annotations

from ollm_tui.cli.command_line import ExitCode, command_parser, parse
from ollm_tui.cli.streams import print_json

_HELD_BY = {
    "look": "what runs because it only reads",
    "work": "run_code, and with [sandbox] mode what was allowed",
}


def run_command(argv: list[str]) -> int:
    """Print each engine with its version and limits; exit 1 where none works."""
    from ollm_tui.core.sandbox.engines import engines

    parser = command_parser("sandbox", "Where commands run.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser("check", help="the engines, tried now, and what they hold", allow_abbrev=False)
    check.add_argument("--json", action="store_true", help="one JSON object")
    given = parse(parser, argv)
    found = engines()
    working = [engine for engine in found if not engine.problem]
    if given.json:
        print_json(
            {
                "engines": [
                    {
                        "name": engine.name,
                        "cage": engine.cage,
                        "version": engine.version,
                        "limits": {name: held.value for name, held in engine.limits.items()},
                    }
                    for engine in working
                ]
            }
        )
    else:
        for engine in found:
            print(f"{engine.name} {engine.version}".rstrip() + f" ({engine.cage}: {_HELD_BY[engine.cage]})")
            if engine.problem:
                print(f"  does not work: {engine.problem}")
            for name, held in () if engine.problem else engine.limits.items():
                print(f"  {name:<10} {held.value}")
    return ExitCode.DONE if working else ExitCode.FAILED
