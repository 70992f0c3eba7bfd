"""What the policy is asked about a call: where it reaches, and what a person has to be asked whatever a rule says."""

from __future__ import annotations

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.confirmation import Origin
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.engine import Call, Floor
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import AnyInvocation, Effect


async def call_to_judge(invocation: AnyInvocation, workspace: Workspace, origin: Origin, signal: AbortSignal) -> Call:
    """The call with its floors. Raises InvalidPath for a path outside, and what `should_confirm_execute` raises."""
    floors: list[Floor] = []
    inside = True
    for touched in invocation.touched_paths():
        location = workspace.resolve(touched.path, touched.access, follow=touched.follow)
        inside = inside and location.real.is_relative_to(workspace.root)
        sensitivity = workspace.sensitivity(location, touched.access)
        if sensitivity is not None:
            reason = f"{location.shown} {sensitivity.reason}"
            floors.append(Floor(Decision(sensitivity.decision), reason))
    tool = invocation.tool
    if await invocation.should_confirm_execute(signal):
        floors.append(Floor(Decision.ASK, f"{tool.name} always asks for a call like this"))
    if origin is Origin.SALVAGED and invocation.effect() not in (Effect.READS, Effect.PLANS):
        floors.append(Floor(Decision.ASK, "the call was read out of the model's plain text"))
    return Call(
        tool=tool,
        arguments=invocation.params.on_the_wire(),
        effect=invocation.effect(),
        origin=Origin.PLUGIN if tool.plugin else origin,
        virtual=invocation.virtual_parameters(),
        inside_workspace=inside,
        floors=tuple(floors),
    )
