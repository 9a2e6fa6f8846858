"""Real services, with your own keys: `make live`. Paid, under one cent each; not part of `make test`.

Each service that has a key in the environment is asked one small question with one tool, by its cheapest model: it calls
the tool, gets the result with its own thinking and state sent back, and answers. A service without a key is named and
left out. The most that one can cost is worked out before the first call, and what it did cost is said after the last.
"""

import os
import sys
from collections.abc import Mapping

import anyio

from crossclaw.domain.errors import ProviderError
from crossclaw.domain.messages import AssistantMessage, Text, Usage
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelPiece,
    ModelRequest,
    ToolReturn,
    ToolSpec,
    Turn,
    UserTurn,
)
from crossclaw.providers.keys import keys_of
from crossclaw.providers.registry import Providers

CHEAPEST = {
    "anthropic": "claude-haiku-5-5",
    "openai": "gpt-6-luna",
    "google": "gemini-3.8-flash",
}
COST_MAX_USD = 0.01
OUTPUT_TOKENS_MAX = 1_000
ROOM = Usage(input=600, output=OUTPUT_TOKENS_MAX)
"""What one call may take; it is asked not to think."""
LIMITS = {
    "google": {
        "generationConfig": {
            "maxOutputTokens": OUTPUT_TOKENS_MAX,
            "thinkingConfig": {"thinkingLevel": "MINIMAL"},
        }
    }
}
"""For who cannot stop thinking, and would get room for it."""
LOOK = ToolSpec(
    "look_up",
    "Returns the value that is stored under a name.",
    {"properties": {"name": {"type": "string"}}, "required": ["name"]},
)
QUESTION = "Look up the value of `crab` with the tool, then answer with that value alone."


NO_KEY = (
    "The self-test asks real services and needs a key of one of them: set ANTHROPIC_API_KEY, OPENAI_API_KEY or"
    " GEMINI_API_KEY. It costs less than one cent a service. Without a key nothing was asked."
)


def _ask(name: str, model: str, turns: list[Turn]) -> ModelRequest:
    return ModelRequest(
        model=model,
        system="You are brief.",
        turns=turns,
        tools=[LOOK],
        output_tokens_max=OUTPUT_TOKENS_MAX,
        params=LIMITS.get(name, {}),
    )


async def try_service(providers: Providers, address: str) -> Usage:
    """One round with a tool. What it has cost, or what was wrong as an error."""
    provider, model = providers.get(address)
    turns: list[Turn] = [UserTurn([], [Text(QUESTION)])]
    first = await provider.complete(_ask(provider.name, model, turns), _ignore)
    if not first.tool_calls:
        raise ProviderError(f"it called no tool but said {first.text[:80]!r}")
    results = [ToolReturn(call.id, [Text("seven-pincers")]) for call in first.tool_calls]
    turns += [AssistantTurn(first.blocks), UserTurn(results, [])]
    second = await provider.complete(_ask(provider.name, model, turns), _ignore)
    if "seven-pincers" not in second.text:
        raise ProviderError(f"it did not answer with the value but said {second.text[:80]!r}")
    return _spent(first) + _spent(second)


def _spent(answer: AssistantMessage) -> Usage:
    return answer.usage or Usage()


def _ignore(_piece: ModelPiece) -> None:
    pass


async def main(environ: Mapping[str, str] = os.environ) -> int:
    if not any(keys_of(name, [], environ) for name in CHEAPEST):
        print(NO_KEY)
        return 2
    providers = Providers({}, environ)
    failed, tried = False, 0
    try:
        for name, model in CHEAPEST.items():
            address = f"{name}/{model}"
            if not keys_of(name, [], environ):
                print(f"- {address}: no key, left out")
                continue
            most = await providers.price(address, ROOM)
            if most is None or 2 * most > COST_MAX_USD:
                print(f"- {address}: its price is not known or too high, left out")
                continue
            tried += 1
            try:
                usage = await try_service(providers, address)
            except ProviderError as error:
                failed = True
                print(f"✗ {address}: {error}")
                continue
            cost = f"${usage.cost:.5f}" if usage.cost is not None else "an unknown cost"
            print(f"✓ {address}: {usage.prompt} tokens in, {usage.output} out, {cost}")
    finally:
        await providers.close()
    if not tried:
        print("Nothing was asked.")
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main))
