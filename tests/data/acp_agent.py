"""An agent that speaks the Agent Client Protocol and behaves as its one argument says; without the package."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
COUNT = iter(range(1, 10_000))


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def messages() -> Iterator[dict[str, object]]:
    for line in sys.stdin:
        yield json.loads(line)


INCOMING = messages()
WAITING: list[dict[str, object]] = []
CANCELLED: list[bool] = []
PROMPTS: list[str] = []


def request(method: str, **params: object) -> dict[str, object]:
    """Ask the client, and return its whole answer; what else comes meanwhile waits."""
    number = next(COUNT)
    send(id=number, method=method, params={"sessionId": "s1", **params})
    for message in INCOMING:
        if message.get("id") == number and "method" not in message:
            return message
        if message.get("method") == "session/cancel":
            CANCELLED.append(True)
        else:
            WAITING.append(message)
    sys.exit(0)


def update(what: str, /, **fields: object) -> None:
    send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": what, **fields}})


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def ask(call: dict[str, object], options: list[dict[str, str]] = OPTIONS) -> str:
    outcome = request("session/request_permission", toolCall=call, options=options)["result"]["outcome"]  # type: ignore[index]
    return str(outcome.get("optionId", outcome["outcome"]))


def turn(text: str) -> str:
    """Do what the mode says, and return why it stopped."""
    match MODE:
        case "crash":
            sys.stderr.write("no licence\x1b[2J\n")
            sys.stderr.flush()
            os._exit(4)
        case "files":
            read = request("fs/read_text_file", path=os.path.abspath("a.txt"), line=2, limit=1)
            say(f"read {read.get('result', read.get('error'))} ")
            wrote = request("fs/write_text_file", path=os.path.abspath("b.txt"), content="from the agent\n")
            say(f"wrote {json.dumps(wrote.get('result', wrote.get('error')))} ")
            outside = request("fs/read_text_file", path="/etc/hostname")
            say(f"outside {json.dumps(outside.get('error'))}")
        case "terminal":
            made = request("terminal/create", command="sh", args=["-c", "echo from $X; exit 3"], env=[{"name": "X", "value": "a b"}])
            number = made["result"]["terminalId"]  # type: ignore[index]
            ended = request("terminal/wait_for_exit", terminalId=number)
            output = request("terminal/output", terminalId=number)
            request("terminal/release", terminalId=number)
            say(json.dumps([ended.get("result"), output.get("result")]))
        case "untold":
            say(ask({"toolCallId": "never-told"}))
        case "twice":
            call = {"toolCallId": "t1", "title": "Twice", "kind": "fetch", "rawInput": {"url": "http://x"}}
            update("tool_call", **call)
            say(f"{ask(call)} {ask(call)}")
            update("tool_call", **call)
            for _ in range(2):
                update("tool_call_update", toolCallId="t1", status="completed")
        case "noreject":
            say(ask({"toolCallId": "t1", "title": "Go", "kind": "other"}, OPTIONS[:2]))
        case "denied":
            say(ask({"toolCallId": "t1", "title": "Write", "kind": "edit", "content": [
                {"type": "diff", "path": os.path.abspath("secret.txt"), "oldText": None, "newText": "x"}]}))
        case "stuck":
            say("I am busy. ")
            outcome = ask({"toolCallId": "t1", "title": "Wait", "kind": "other"})
            say(f"{outcome} {bool(CANCELLED)}")
            return "cancelled"
        case "deaf":
            say("I hear nothing. ")
            time.sleep(600)
        case "refuses":
            return "refusal"
        case "hostile":
            say("\x1b]0;owned\x07 [b]bold[/b] \u202eevil")
            update("tool_call", toolCallId="\x1b[2J", title="\x1b[2J\u202e[red]", kind="nonsense")
            update("nonsense", x=1)
            send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": "tool_call"}})
            sys.stdout.write("no json\n")
        case "count":
            PROMPTS.append(text)
            say(f"{len(PROMPTS)} {sorted(name for name in os.environ if name.startswith('OLLM_'))}")
        case "echo":
            say(f"heard: {text}")
        case _:
            update("agent_thought_chunk", content={"type": "text", "text": "Let me see."})
            update("plan", entries=[
                {"content": "Look", "priority": "high", "status": "in_progress"},
                {"content": "Act", "priority": "low", "status": "in_progress"},
            ])
            say("I will run it. ")
            call = {"toolCallId": "c1", "title": "Run make", "kind": "execute", "status": "pending", "rawInput": {"command": "make all"}}
            update("tool_call", **call)
            answer = ask({"toolCallId": "c1"})
            done = "completed" if answer == "yes" else "failed"
            update("tool_call_update", toolCallId="c1", status=done, content=[{"type": "content", "content": {"type": "text", "text": f"make said {answer}"}}])
            say("That was it.")
    return "end_turn"


def main() -> None:
    if MODE == "exit":
        sys.exit("not logged in")
    if MODE == "mute":
        time.sleep(600)
    while True:
        message = WAITING.pop(0) if WAITING else next(INCOMING, None)
        if message is None:
            return
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        match method:
            case "initialize":
                send(id=number, result={"protocolVersion": 9 if MODE == "newer" else 1, "agentCapabilities": {}})
            case "session/new" if MODE == "login":
                send(id=number, error={"code": -32000, "message": "Authentication required"})
            case "session/new":
                send(id=number, result={"sessionId": "s1"})
            case "session/prompt":
                text = "\n".join(one["text"] for one in params["prompt"])  # type: ignore[index]
                stopped = turn(text)
                send(id=number, result={"stopReason": stopped})
            case _:
                pass


main()
