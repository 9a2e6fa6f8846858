"""How services say that a conversation does not fit, in their own words: status and body.

Collected 2026-11-15 from their documentation, issue trackers and SDKs. `LIMITS` are texts that speak of tokens too and
are about something else: a rate limit passes, and nothing is compacted for it.
"""

from typing import Any

OVERFLOWS: dict[str, tuple[int, Any]] = {
    "anthropic": (
        400,
        {"error": {"message": "prompt is too long: 213462 tokens > 200000 maximum"}},
    ),
    "anthropic, with the answer": (
        400,
        {
            "error": {
                "message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000,"
                " decrease input length or `max_tokens` and try again"
            }
        },
    ),
    "anthropic, too many bytes": (413, {"error": {"type": "request_too_large", "message": "no"}}),
    "openai": (
        400,
        {
            "error": {
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window",
            }
        },
    ),
    "openai, above the limit a minute": (
        429,
        {
            "error": {
                "code": "rate_limit_exceeded",
                "message": "Request too large for gpt-5.6 in organization org-x on tokens per min (TPM):"
                " Limit 30000, Requested 45000. The input or output tokens must be reduced",
            }
        },
    ),
    "gemini": (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "status": "INVALID_ARGUMENT",
                    "message": "The input token count (1196265) exceeds the maximum number of tokens"
                    " allowed (1048576).",
                }
            }
        ],
    ),
    "xai": (
        400,
        {
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
        },
    ),
    "groq": (
        400,
        {"error": {"message": "Please reduce the length of the messages or completion."}},
    ),
    "openrouter": (
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. However, you"
                " requested about 132463 tokens. Please reduce the length of either one."
            }
        },
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "type": "exceed_context_size_error",
                "message": "the request exceeds the available context size. try increasing it",
            }
        },
    ),
    "lm studio": (
        400,
        {
            "error": "Trying to keep the first 5120 tokens when context the overflows. However, the model is"
            " loaded with context length of only 4096 tokens, which is not enough."
        },
    ),
    "lm studio, older": (
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length"
        },
    ),
    "vllm": (
        400,
        {
            "message": "This model's maximum context length is 4096 tokens. However, you requested 9000"
            " tokens (808 in the messages, 8192 in the completion).",
            "type": "BadRequestError",
        },
    ),
    "kimi": (
        400,
        {
            "error": {
                "message": "Invalid request: Your request exceeded model token limit: 262144 (requested:"
                " 300112)"
            }
        },
    ),
    "minimax": (400, {"error": {"message": "invalid params, context window exceeds limit (2013)"}}),
    "qwen": (
        400,
        {
            "error": {
                "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be"
                " [1, 129024]"
            }
        },
    ),
    "glm": (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    "mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768"
            " maximum context length",
        },
    ),
    "copilot": (
        400,
        {"error": {"message": "prompt token count of 150000 exceeds the limit of 128000"}},
    ),
    "together": (
        422,
        {
            "error": {
                "message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097."
            }
        },
    ),
    "bedrock": (400, {"message": "Input is too long for requested model."}),
    "ollama": (400, {"error": "the input length exceeds the context length"}),
}

LIMITS: dict[str, tuple[int, Any]] = {
    "anthropic": (
        429,
        {
            "error": {
                "type": "rate_limit_error",
                "message": "This request would exceed your organization's rate limit of 30,000 input"
                " tokens per minute. Reduce the prompt length or the maximum tokens requested",
            }
        },
    ),
    "openai": (
        429,
        {
            "error": {
                "code": "rate_limit_exceeded",
                "message": "Rate limit reached for gpt-5.6 on tokens per min (TPM): Limit 30000, Used"
                " 29000, Requested 2000. Please try again in 2s.",
            }
        },
    ),
    "gemini": (
        429,
        {
            "error": {
                "status": "RESOURCE_EXHAUSTED",
                "message": "Quota exceeded for metric: generate_content_free_tier_input_token_count,"
                " limit: 250000",
            }
        },
    ),
}
