"""Models: what the servers offer, and taking another one for the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.app_dirs import short_path
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.escape import visible
from ollm_tui.runtime.models import OfferedModel
from ollm_tui.runtime.runtime import Runtime
from ollm_tui.tui.protocol import PostUpdate
from ollm_tui.tui.protocol.intents import ChooseModel, ModelIntent, PullModel
from ollm_tui.tui.protocol.models import ListModels, ModelRow, ModelsUpdate
from ollm_tui.tui.protocol.updates import ConversationUpdate, ToastUpdate
from ollm_tui.tui.values import EntriesChanged, NoteEntry, NoteKind


class ModelsController:
    """Handler of `/model` and `/connect`; the servers are asked each time."""

    def __init__(
        self, runtime: Runtime, post: PostUpdate, switched: Callable[[], None], rates: Mapping[str, float]
    ) -> None:
        """`switched` is called once another model is in use; `rates` are tokens a second by model."""
        self._rates = rates
        self._runtime = runtime
        self._post = post
        self._switched = switched
        self._pulling: AbortController | None = None
        self._pulls = 0

    async def handle(self, intent: ModelIntent) -> None:
        """Do what the intent asks for."""
        match intent:
            case ListModels():
                await self.list()
            case ChooseModel(name, server):
                await self.choose(name, server)
            case PullModel(name):
                await self.pull(name)
            case _:
                await self.connect()

    async def greet(self) -> None:
        """Name the model in use before anything is asked of it, with what to do next, or what is wrong with it."""
        from ollm_tui.agent.providers.provider import ProviderError, ServerProvider
        from ollm_tui.runtime.models import find_model

        provider = self._runtime.agent.provider
        if not isinstance(provider, ServerProvider):
            return
        try:
            notices = await find_model(provider)
        except ProviderError as error:
            self._note("greeting", str(error), NoteKind.ERROR)
            return
        if provider is not self._runtime.agent.provider:
            return  # another one was taken meanwhile, which said so
        self._switched()
        for at, notice in enumerate(notices):
            self._note(f"model-{at}", notice, NoteKind.NOTICE)
        if len(self._runtime.agent.history) == 1:  # nothing was said yet
            self._note("greeting", _greeting(self._runtime), NoteKind.GREETING)

    async def list(self) -> None:
        """Show what the servers have; slow ones are waited for."""
        from ollm_tui.runtime.models import offered_models

        models = await offered_models(self._runtime.core.configuration.settings)
        self._post(ModelsUpdate(tuple(map(self._row, models))))

    def _row(self, model: OfferedModel) -> ModelRow:
        name, rate = model.info.name, self._rates.get(model.info.name)
        facts = model.short if rate is None else f"{model.short}  {rate:.0f} tok/s".strip()
        current = self._runtime.agent.provider.model == name
        return ModelRow(name, model.server.base_url, facts, "\n".join(_facts(model, rate)), current)

    async def choose(self, name: str, server: str = "") -> None:
        """Take the model of that name."""
        from ollm_tui.runtime.models import ModelNotFoundError, choose, offered_models, switch_model

        models = await offered_models(self._runtime.core.configuration.settings)
        models = [model for model in models if server in ("", model.server.base_url)]
        try:
            await switch_model(self._runtime, choose(models, name))
        except ModelNotFoundError as error:
            self._post(ToastUpdate(f"{error} /pull {visible(name)} has Ollama load it.", failed=True))
            return
        except RuntimeError as error:
            self._post(ToastUpdate(str(error), failed=True))
            return
        self._switched()

    async def pull(self, name: str) -> None:
        """Have Ollama load a model, its progress a line of the conversation; without a name stop that."""
        from ollm_tui.agent.providers.provider import ProviderError
        from ollm_tui.agent.providers.server_address import ServerAddressError
        from ollm_tui.runtime.pulling import pull_model

        if self._pulling is not None:
            if name:
                self._post(ToastUpdate("A model is being loaded. /pull alone stops that.", failed=True))
            else:
                self._pulling.abort()
            return
        if not name:
            self._post(ToastUpdate("Which model? /pull NAME, such as /pull qwen3:8b.", failed=True))
            return
        self._pulling, shown = AbortController(), visible(name)
        self._pulls += 1
        try:
            self._tell(f"Loading {shown}. /pull alone stops it.")
            settings, signal = self._runtime.core.configuration.settings, self._pulling.signal
            async with aclosing(pull_model(settings, name, signal)) as steps:
                async for progress in steps:
                    self._tell(f"Loading {shown}: {progress}. /pull alone stops it.")
            self._tell(f"{shown} is there. /model {shown} takes it.")
        except OperationCancelled:
            self._tell(f"Loading {shown} was stopped. What came stays on the server; /pull {shown} goes on there.")
        except (ProviderError, ServerAddressError) as error:
            self._tell(str(error), NoteKind.ERROR)
        finally:
            self._pulling = None

    def _tell(self, text: str, kind: NoteKind = NoteKind.NOTICE) -> None:
        """Show where the pull is, in the one line that it has."""
        self._note(f"pull-{self._pulls}", text, kind)

    def _note(self, id_: str, text: str, kind: NoteKind) -> None:
        self._post(ConversationUpdate(EntriesChanged((NoteEntry(id_, text, kind),))))

    async def connect(self) -> None:
        """Look for servers again, and take the first model where none is in use."""
        from ollm_tui.runtime.model_provider import ServerKind
        from ollm_tui.runtime.models import offered_models, switch_model

        offered = await offered_models(self._runtime.core.configuration.settings)
        # a file is run because the person wants that: it may take all memory there is
        models = [model for model in offered if model.server.kind is not ServerKind.EMBEDDED]
        if not models:
            words = (
                "No model server answers. Start one (`ollama serve`, `llama-server -m FILE --jinja`), then /connect."
            )
            self._post(ToastUpdate(words, failed=True))
        elif self._runtime.agent.provider.name != "offline":
            self._post(ToastUpdate("A model is in use already. /model shows what else there is."))
        else:
            able = [model for model in models if model.calls_tools is not False]
            try:
                await switch_model(self._runtime, (able or list(models))[0])
            except RuntimeError as error:
                self._post(ToastUpdate(str(error), failed=True))
                return
            self._switched()


def _greeting(runtime: Runtime) -> str:
    described, folder = runtime.agent.provider.describe(), short_path(runtime.core.configuration.workspace.root)
    window = f", with a window of {described.context_window:,} tokens" if described.context_window else ""
    return (
        f"{visible(described.model or described.provider)} works in {visible(folder)}{window}. "
        f"Policy: {runtime.core.executor.mode.value} (F4 changes it, /policy shows what runs unasked).\n"
        "Try: `What is in this folder, and how do I run it?`"
    )


def _facts(model: OfferedModel, rate: float | None) -> Iterator[str]:
    """Yield what is known of a model, a line each."""
    info, details = model.info, model.details
    yield f"{model.server.label} at {model.server.base_url}"
    if rate is not None:
        yield f"{rate:.0f} tokens a second, measured at its last answer here"
    size = "" if info.size is None else f"{info.size / 1e9:.1f} GB"
    kind = "  ".join(filter(None, (info.family, info.parameter_size, info.quantization, size)))
    if kind:
        yield kind
    if info.context_window is not None:
        longest = details.longest_window if details is not None else None
        more = f", at most {longest:,}" if longest is not None and longest > info.context_window else ""
        yield f"A window of {info.context_window:,} tokens{more}"
    match model.calls_tools:
        case True:
            yield "It can call tools"
        case False:
            yield "It cannot call tools: it can talk, but do nothing"
        case None:
            yield "Its server does not tell whether it can call tools"
    abilities = sorted((details.capabilities or frozenset()) - {"tools"}) if details is not None else []
    if abilities:
        yield f"Also said of it: {', '.join(abilities)}"
    if model.loaded:
        yield "It is in memory now"
