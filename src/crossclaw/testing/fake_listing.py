"""The fake services' answers to plain questions: which models there are, and what one can do."""

from crossclaw.domain.aliases import Json
from crossclaw.testing.fake_facts import CLAUDES, GPTS
from crossclaw.testing.fake_ollama import CAN, WINDOWS


def listing(path: str, headers: dict[str, str]) -> Json | None:
    """The list of models at a path. Anthropic and OpenAI share one; Anthropic's clients say which version of
    it they know."""
    plain = path.partition("?")[0]
    match plain:
        case "/v1/models" if "anthropic-version" in headers:
            return {"data": [_claude(name) for name in CLAUDES], "has_more": False}
        case "/v1/models":
            return {"object": "list", "data": [{"id": name, "object": "model"} for name in GPTS]}
        case "/v1beta/models":
            return {"models": [_gemini("gemini-4-argon"), _gemini("gemini-3.8-flash")]}
        case "/api/tags":
            return {"models": [{"name": name} for name in CAN]}
    return None


def shown(model: str) -> Json | None:
    """The answer of Ollama's `/api/show`."""
    if model not in CAN:
        return None
    return {"capabilities": CAN[model], "model_info": {"arch.context_length": WINDOWS[model]}}


def _claude(name: str) -> Json:
    knows = CLAUDES[name]
    return {
        "type": "model", "id": name, "display_name": name, "max_input_tokens": 1_000_000,
        "max_tokens": knows.output,
    }  # fmt: skip


def _gemini(name: str) -> Json:
    return {
        "name": f"models/{name}", "displayName": name, "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536, "thinking": True,
        "supportedGenerationMethods": ["generateContent"],
    }  # fmt: skip
