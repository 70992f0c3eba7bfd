"""`propose_plan`: put a plan before the person; approved, it is the todo list and the limit of what runs unasked."""

from __future__ import annotations

import posixpath

from pydantic import Field, model_validator

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.todos.todo_list import Todo, TodoDraft
from ollm_tui.core.tools.base import Effect, Parameters, Question, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.context import PATH_TOOLS, PlanGrant

SHELL = "shell"


class PlanStep(Parameters):
    """One step, and all that it will need."""

    task: str = Field(min_length=1)
    tools: list[str] | None = None
    paths: list[str] | None = Field(None, description="Files, or folders with / at the end")
    commands: list[str] | None = Field(None, description="Command patterns like: pytest *")

    def grants(self) -> list[PlanGrant]:
        """Return what approving this step allows."""
        paths = [_plain(path) for path in self.paths or ()]
        tools = [tool for tool in self.tools or () if tool != SHELL] or ([*PATH_TOOLS] if paths else [])
        granted = [PlanGrant(tool, path) for tool in tools for path in paths or [""]]
        return granted + [PlanGrant(SHELL, command=command.strip()) for command in self.commands or ()]


class ProposePlanParameters(Parameters):
    """The steps, in order."""

    steps: list[PlanStep] = Field(min_length=1, max_length=50)

    @model_validator(mode="after")
    def _names_something(self) -> ProposePlanParameters:
        for step in self.steps:
            if any(not command.strip(" *") for command in step.commands or ()):
                raise ValueError("a command pattern needs a program, for example: pytest *")
            if any(_plain(path) in ("", ".", "./", "/") or ".." in path.split("/") for path in step.paths or ()):
                raise ValueError("a path names a file or a folder below the workspace, without ..")
        return self

    def grants(self) -> tuple[PlanGrant, ...]:
        """Return what approving the plan allows, each once."""
        return tuple(dict.fromkeys(grant for step in self.steps for grant in step.grants()))


class PlanData(ToolData):
    """The todo list that the plan became, and what it allows."""

    todos: tuple[Todo, ...]
    grants: tuple[str, ...]


class ProposePlanInvocation(ToolInvocation[ProposePlanParameters]):
    """Asks, and on a yes writes the todos and lets the plan bind."""

    def get_description(self) -> str:
        count, grants = len(self.params.steps), len(self.params.grants())
        allowed = f"{grants} thing{'' if grants == 1 else 's'}"
        return f"Plan of {count} step{'' if count == 1 else 's'}; {allowed} may then run unasked"

    async def question(self) -> Question:
        """Return each step with what it grants."""

        async def preview() -> Preview:
            lines: list[str] = []
            for number, step in enumerate(self.params.steps, 1):
                lines.append(f"{number}. {visible(step.task)}")
                lines += [f"   allows: {visible(str(grant))}" for grant in step.grants()]
            lines += ["", "What is not named asks. e strikes or changes what is allowed."]
            return TextPreview(text="\n".join(lines))

        return Question(preview=preview)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Write the todos and adopt the plan. Raises TodoFailed, StorageFailed."""
        todos = self.context.todo_list
        drafts = [TodoDraft(step.task, None, None) for step in self.params.steps]
        await signal.in_thread(todos.replace, drafts)
        listed = await signal.in_thread(todos.list)
        grants = self.params.grants()
        if self.context.adopt_plan is not None:
            self.context.adopt_plan(grants)
        named = tuple(map(str, grants))
        allowed = "\n".join(f"- {each}" for each in named) or "- nothing: every change asks"
        text = f"The plan is approved, plan mode is over. You may now do unasked:\n{allowed}\nBegin with the first."
        return ToolResult.of_text(text, "The plan is approved", data=PlanData(todos=listed, grants=named))


def _plain(path: str) -> str:
    """Return a path as calls are compared with it, a folder with its `/`."""
    plain = posixpath.normpath(path.strip())
    return f"{plain}/" if path.strip().endswith("/") and plain != "." else plain


PROPOSE_PLAN = Tool(
    name="propose_plan",
    display_name="Propose Plan",
    description="Put a plan before the person; what its steps name then runs unasked.",
    group=ToolGroup.MEMORY,
    effect=Effect.PLANS,
    parameters=ProposePlanParameters,
    invocation=ProposePlanInvocation,
    risk=Risk.LOW,
    returns=PlanData,
    requires_approval=True,
)
