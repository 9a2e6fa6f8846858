"""Offers: the model services that could be chosen: those with a key, and servers found on this machine."""

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import msgspec

from crossclaw.config.providers import KNOWN_AT
from crossclaw.domain import untrusted
from crossclaw.domain.secret import Secret

PROBE_S = 0.5  # a port of this machine answers at once, or nobody is there
ANSWER_BYTES_MAX = 1_000_000  # a list of models; what says more is no model server

OLLAMA, LLAMA_CPP = ("127.0.0.1", 11434), ("127.0.0.1", 8080)


class ServiceOffer(msgspec.Struct, frozen=True):
    """A provider that can be chosen, with what is known of it before it is asked."""

    provider: str
    title: str
    api: str | None = None
    base_url: str | None = None
    """The address; unset: where the provider is known to be."""
    variable: str | None = None
    """The environment variable that its key is usually in."""
    model: str | None = None
    """The usual model."""
    models: tuple[str, ...] = ()
    window: int | None = None
    """The window in tokens, if the server itself says so."""
    is_local: bool = False
    key: Secret | None = None


SERVICES: tuple[ServiceOffer, ...] = (
    ServiceOffer("anthropic", "Anthropic", variable="ANTHROPIC_API_KEY", model="claude-opus-5-5"),
    ServiceOffer("openai", "OpenAI", variable="OPENAI_API_KEY", model="gpt-6-astra"),
    ServiceOffer("google", "Google Gemini", variable="GEMINI_API_KEY"),
    ServiceOffer(
        "openrouter",
        "OpenRouter",
        api="openai-completions",
        base_url=KNOWN_AT["openrouter"],
        variable="OPENROUTER_API_KEY",
    ),
)


def find_service(provider: str) -> ServiceOffer | None:
    return next((each for each in SERVICES if each.provider == provider), None)


def find_local(environ: Mapping[str, str]) -> list[ServiceOffer]:
    """Ollama and llama.cpp at their usual addresses, or at those in their own variables."""
    found = [_ollama(*_address(environ.get("OLLAMA_HOST", ""), OLLAMA))]
    host = environ.get("LLAMA_ARG_HOST") or LLAMA_CPP[0]
    number = environ.get("LLAMA_ARG_PORT", "")
    found.append(_llama_cpp(_reachable(host), int(number) if number.isdecimal() else LLAMA_CPP[1]))
    return [each for each in found if each is not None]


def custom(base_url: str, *, provider: str | None = None, api: str | None = None) -> ServiceOffer:
    """An offer for any server that speaks one of the known protocols, by its address."""
    host = urlsplit(base_url).netloc.rpartition("@")[2]
    name = provider or "".join(sign if sign.isalnum() else "-" for sign in host.lower())
    api = api or "openai-completions"
    return ServiceOffer(name.strip("-") or "custom", host, api, base_url.rstrip("/"))


def ollama_at(base_url: str) -> ServiceOffer:
    return ServiceOffer("ollama", "Ollama", base_url=base_url.rstrip("/"), is_local=True)


def _address(written: str, usual: tuple[str, int]) -> tuple[str, int]:
    """The host and port in `OLLAMA_HOST`, as Ollama reads it: a host, a port, both, or an address."""
    text = written.strip()
    if not text:
        return usual
    parts = urlsplit(text if "//" in text else f"//{text}")
    try:
        return _reachable(parts.hostname or usual[0]), parts.port or usual[1]
    except ValueError:
        return usual


def _reachable(host: str) -> str:
    """The host to ask: a server that listens everywhere is asked on this machine."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host


def _ollama(host: str, port: int) -> ServiceOffer | None:
    answer = _get(host, port, "/api/tags")
    if not isinstance(answer, dict) or not isinstance(answer.get("models"), list):
        return None
    names = _names(answer["models"], "name")
    elsewhere = None if (host, port) == OLLAMA else f"http://{host}:{port}"
    offer = ServiceOffer("ollama", "Ollama", base_url=elsewhere, models=names, is_local=True)
    return msgspec.structs.replace(offer, model=names[0] if names else None)


def _llama_cpp(host: str, port: int) -> ServiceOffer | None:
    answer = _get(host, port, "/v1/models")
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        return None
    names = _names(answer["data"], "id")
    if not names:
        return None
    return ServiceOffer(
        "llamacpp",
        "llama.cpp",
        api="openai-completions",
        base_url=f"http://{host}:{port}/v1",
        model=names[0],
        models=names,
        window=_window(_get(host, port, "/props")),
        is_local=True,
    )


def _window(props: Any) -> int | None:
    """The window that the server was started with; its list has only the one that the model was made for."""
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    size = settings.get("n_ctx") if isinstance(settings, dict) else None
    return size if isinstance(size, int) and size > 0 else None


def _names(rows: list[Any], field: str) -> tuple[str, ...]:
    found = [row.get(field) for row in rows if isinstance(row, dict)]
    return tuple(name for name in found if isinstance(name, str) and name)


def _get(host: str, port: int, path: str) -> Any:
    """A JSON answer, or None if there is none."""
    connection = HTTPConnection(host, port, timeout=PROBE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        data = answer.read(ANSWER_BYTES_MAX)
        return untrusted.decode(data) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError, untrusted.TooHeavy):
        return None
    finally:
        connection.close()
