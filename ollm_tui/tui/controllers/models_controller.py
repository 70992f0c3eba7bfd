"""Models: what the servers offer, and taking another one for the session."""

from __future__ import annotations

from collections.abc import Callable

from ollm_tui.agent.events import NoticeEvent
from ollm_tui.runtime.runtime import Runtime
from ollm_tui.tui.protocol import PostUpdate
from ollm_tui.tui.protocol.intents import ChooseModel, ModelIntent
from ollm_tui.tui.protocol.updates import ToastUpdate


class ModelsController:
    """Handler of `/model` and `/connect`; the servers are asked each time."""

    def __init__(self, runtime: Runtime, post: PostUpdate, switched: Callable[[], None]) -> None:
        """`switched` is called once another model is in use."""
        self._runtime = runtime
        self._post = post
        self._switched = switched

    async def handle(self, intent: ModelIntent) -> None:
        """Do what the intent asks for."""
        match intent:
            case ChooseModel(name):
                await self.choose(name)
            case _:
                await self.connect()

    async def choose(self, name: str) -> None:
        """Take the model of that name; without a name list what there is."""
        from ollm_tui.runtime.models import ModelNotFoundError, choose, offered_models, switch_model

        models = await offered_models(self._runtime.core.configuration.settings)
        if not name and models:
            lines = ["Models; /model NAME takes one:", *map(str, models)]
            self._runtime.stream.publish(NoticeEvent(text="\n".join(lines)))
            return
        try:
            await switch_model(self._runtime, choose(models, name))
        except (ModelNotFoundError, RuntimeError) as error:
            self._post(ToastUpdate(str(error), failed=True))
            return
        self._switched()

    async def connect(self) -> None:
        """Look for servers again, and take the first model where none is in use."""
        from ollm_tui.runtime.models import offered_models, switch_model

        models = await offered_models(self._runtime.core.configuration.settings)
        if not models:
            words = (
                "No model server answers. Start one (`ollama serve`, `llama-server -m FILE --jinja`), then /connect."
            )
            self._post(ToastUpdate(words, failed=True))
        elif self._runtime.agent.provider.name != "offline":
            await self.choose("")
        else:
            able = [model for model in models if model.calls_tools is not False]
            try:
                await switch_model(self._runtime, (able or list(models))[0])
            except RuntimeError as error:
                self._post(ToastUpdate(str(error), failed=True))
                return
            self._switched()
