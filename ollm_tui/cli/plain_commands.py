"""The commands of `--plain`: `/name words`, carried out by the dashboard's controllers and told in words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from ollm_tui.agent.events import AssistantMessageEvent, NoticeEvent
from ollm_tui.agent.session.history import plan_since
from ollm_tui.cli.plain_updates import lines_of_update
from ollm_tui.core.base.clock import SystemClock
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.log_file import unexpected
from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.runtime import Runtime
from ollm_tui.runtime.policy_text import policy_lines
from ollm_tui.tui.controllers.commands_controller import DetachedJobs
from ollm_tui.tui.controllers.jobs_controller import JobsController
from ollm_tui.tui.controllers.memory_controller import MemoryController
from ollm_tui.tui.controllers.models_controller import ModelsController
from ollm_tui.tui.controllers.policy_controller import PolicyController
from ollm_tui.tui.controllers.reports_controller import ReportsController
from ollm_tui.tui.controllers.sessions_controller import SessionsController
from ollm_tui.tui.controllers.status_controller import StatusController
from ollm_tui.tui.controllers.todos_controller import TodosController
from ollm_tui.tui.controllers.trust_controller import TrustController
from ollm_tui.tui.controllers.turns_controller import TurnsController
from ollm_tui.tui.controllers.undo_controller import UndoController
from ollm_tui.tui.protocol import command_intents, intents, undo, updates
from ollm_tui.tui.protocol.models import ListModels
from ollm_tui.tui.protocol.policy import JudgeCall, PolicyIntent
from ollm_tui.tui.screen_commands import MODES
from ollm_tui.tui.slash_commands import SlashCommand, SlashCommands, conversation_commands, message_command
from ollm_tui.tui.values import MemoryQuery, SessionRow

_OF_A_SCREEN = ("sources", "pull")
"""Commands of the conversation that show something while the person goes on."""

log = logging.getLogger(__name__)

Tell = Callable[[str], None]
Confirm = Callable[[str], Awaitable[bool]]


class PlainCommands:
    """Carries out one command after the other; `confirm` asks for a yes or a no."""

    def __init__(self, runtime: Runtime, tell: Tell, confirm: Confirm) -> None:
        self._runtime, self._tell, self._confirm = runtime, tell, confirm
        self._core = core = runtime.core
        clock = SystemClock()
        detached = DetachedJobs(core.jobs, clock)
        self._jobs = JobsController(core.hub, core.jobs, detached, self._post, clock)
        self._memory = MemoryController(core.memory, self._post, clock)
        self._policy_trust = TrustController(core, self._post, lambda _: None)
        self._policy = PolicyController(core, self._post, self._policy_trust)
        self._reports = ReportsController(core, self._post)
        self._status = StatusController(runtime, self._post, clock)
        self._models = ModelsController(runtime, self._post, self._status.model_switched, self._status.rates)
        self._turns = TurnsController(runtime.agent, self._post, clock.monotonic)
        self._undo = UndoController(
            core.undo,
            self._post,
            lambda text: runtime.stream.publish(NoticeEvent(text=text)),
            lambda message: plan_since(core.undo, runtime.log.folder, message),
        )
        self._sessions = SessionsController(runtime, self._post, clock, self._switched, self._undo.take_back)
        self._listed: tuple[SessionRow, ...] = ()
        """The sessions that were listed last, by whose numbers the person goes on with one."""
        self._shown: list[tuple[str, bytes]] = []
        """The files that a question about trust is about."""
        self._plans: list[undo.UndoPlan] = []
        """What undoing would do, for the question about it."""
        self._listed_jobs: tuple[CommandStatus, ...] = ()
        self.last_answer = ""
        """The last answer since the session was opened."""
        self._table = SlashCommands(*self._commands())

    async def begin(self) -> None:
        """Say what does not count yet, and learn the commands that are kept as files."""
        for note in self._policy_trust.first_notes():
            self._tell(visible_block(note.text))
        await self._policy_trust.post_prompt_files()

    async def run(self, text: str) -> bool:
        """Carry out `/name words`; False for what is a message, as `/etc/hosts` may well begin one."""
        try:
            return text.startswith("/") and await self._table.take(text, self._tell)
        except Exception as error:  # a bug of ours ends the command, not the conversation
            log.exception("a command failed")
            self._tell(f"Error: {unexpected(error)}")
        return True

    def _commands(self) -> Iterator[SlashCommand]:
        handle = self._handle
        yield from (command for command in conversation_commands(handle) if command.name not in _OF_A_SCREEN)
        yield SlashCommand("copy", "The last answer once more, alone", lambda _: self._print_answer())
        yield SlashCommand("help", "The commands there are", lambda _: self._help())
        yield SlashCommand("jobs", "Commands that run in the background", self._show_jobs, "[end NAME]")
        yield SlashCommand(
            "memory", "What is remembered", lambda words: handle(intents.ListMemories(MemoryQuery(words))), "[WORDS]"
        )
        yield SlashCommand("mode", "The policy mode, or another one", self._mode, f"[{'|'.join(MODES)}]")
        yield SlashCommand(
            "model",
            "The models there are; NAME takes that one",
            lambda name: handle(intents.ChooseModel(name) if name else ListModels()),
            "[NAME]",
        )
        yield SlashCommand("new", "Begin a new session; this one is kept", lambda _: handle(intents.OpenSession()))
        yield SlashCommand("policy", "What holds; of CALL, what would happen to it", self._show_policy, "[CALL]")
        yield SlashCommand("quit", "Leave", lambda _: None)
        yield SlashCommand("resume", "Earlier sessions; go on with one of them", self._resume, "[NUMBER|WORDS]")
        yield SlashCommand("todos", "The todo list", lambda _: TodosController(self._core.todos, self._post).load())
        yield SlashCommand(
            "trust",
            "Look at this folder's own config file and instructions, and let them count",
            lambda _: self._trust(),
        )
        yield SlashCommand("undo", "What calls changed, and the way back", self._take_back, "[NAME]")

    async def _handle(self, intent: intents.Intent) -> None:
        """Hand an intent to the controller of its subject."""
        match intent:
            case intents.CompactConversation(hint):
                if not await self._runtime.agent.compact(hint):
                    self._tell("There is nothing to sum up yet.")
            case intents.RetryTurn():
                await self._retry()
            case intents.TurnIntent():
                self._turns.handle(intent)
            case intents.SessionIntent():
                await self._sessions.handle(intent)
            case intents.ModelIntent():
                await self._models.handle(intent)
            case intents.MemoryIntent():
                await self._memory.handle(intent)
                await self._memory.handle(intents.CloseMemory())
            case intents.TrustIntent():
                await self._policy_trust.handle(intent)
            case intents.ShowReport():
                await self._reports.show(intent)
            case undo.UndoIntent():
                await self._undo.handle(intent)
            case PolicyIntent():
                await self._policy.handle(intent)
            case _:
                log.warning("no command of --plain means %s", type(intent).__name__)

    async def _retry(self) -> None:
        try:
            self._tell(f"The turn is {(await self._runtime.agent.retry()).value}.")
        except LookupError as error:
            self._tell(f"{error}")

    def _post(self, update: updates.Update) -> bool:
        """Tell what an update says; keep what a question is about."""
        match update:
            case updates.SessionsUpdate(rows=rows, complete=True):
                self._listed = rows
            case updates.PromptFilesUpdate(files=files):
                self._table.offer_messages(map(message_command, files))
            case updates.TrustQuestionUpdate(files=files):
                self._shown[:] = files
            case undo.UndoPlanUpdate(plan=plan):
                self._plans.append(plan)
            case updates.JobsUpdate(jobs=jobs):
                self._listed_jobs = jobs
            case _:
                pass
        for line in lines_of_update(update):
            self._tell(line)
        return True

    def _help(self) -> None:
        for line in self._table.help_lines():
            self._tell(line)
        self._tell("Everything else is a message. Ctrl+c stops a turn.")

    def _print_answer(self) -> None:
        events = self._runtime.session.now.earlier.events
        answers = [event.text for event in events if isinstance(event, AssistantMessageEvent) and event.task is None]
        text = self.last_answer or next((text for text in reversed(answers) if text), "")
        self._tell(visible_block(text) or "There is no answer yet.")

    async def _show_jobs(self, words: str) -> None:
        verb, _, name = words.partition(" ")
        if verb != "end":
            await self._jobs.show()
            return
        found = next((job for job in self._listed_jobs if job.name == name.strip()), None)
        if found is None:
            self._tell("Type /jobs end and a name from the list that /jobs shows first.")
        elif await self._confirm(f"End {found.name}, {visible(found.command)}, and all it started?"):
            await self._jobs.handle(command_intents.EndJob(found.id))

    async def _mode(self, name: str) -> None:
        if name and name not in MODES:
            self._tell(f"Type /mode and one of {', '.join(MODES)}.")
            return
        if name == "yolo" and not await self._confirm(
            "What the policy would ask about runs without a question. What is denied stays denied, and deletions ask."
        ):
            return
        if name:
            self._status.change_mode(name)
        self._tell(f"Policy: {self._core.executor.mode.value}.")

    async def _show_policy(self, call: str) -> None:
        if call:
            await self._handle(JudgeCall(call))
            return
        configuration = self._policy_trust.configuration
        lines = await asyncio.to_thread(lambda: list(policy_lines(configuration, self._tell)))
        self._tell(f"Policy: {self._core.executor.mode.value}.")
        for line in lines:
            self._tell(visible(line))

    async def _resume(self, words: str) -> None:
        if words.isdecimal() and 0 < int(words) <= len(self._listed):
            await self._handle(intents.OpenSession(self._listed[int(words) - 1].id))
        else:
            await self._handle(intents.ListSessions(words))

    async def _switched(self) -> None:
        """Begin the session that took the place of the one before."""
        opened = self._runtime.session.now
        self.last_answer = ""
        for notice in opened.notices:
            self._tell(visible_block(notice))
        count = sum(isinstance(event, AssistantMessageEvent) and event.task is None for event in opened.earlier.events)
        self._tell(f"Session {self._runtime.session_id}, {f'{count} answers so far' if count else 'new'}.")
        self._runtime.begin()
        if opened.history.waiting:
            self._tell("Its last message was not answered: /retry asks again.")

    async def _take_back(self, name: str) -> None:
        if not name:
            await self._handle(undo.ListChanges())
            return
        self._plans.clear()
        await self._handle(undo.PlanUndo(name))
        if any(plan.works for plan in self._plans) and await self._confirm("Undo this?"):
            await self._handle(undo.ApplyUndo(name))

    async def _trust(self) -> None:
        self._shown.clear()
        await self._handle(intents.AskForTrust())
        if not self._shown:
            return
        for name, content in self._shown:
            self._tell(f"{visible(name)}:\n{visible_block(content.decode('utf-8', 'backslashreplace'))}")
        if await self._confirm(f"Trust {', '.join(visible(name) for name, _ in self._shown)} as shown?"):
            await self._handle(intents.TrustFiles(tuple(self._shown)))
