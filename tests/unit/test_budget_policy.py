"""May a model be called? Decided from the accounts, with the reason."""

import pytest

from crossclaw.domain.budgets import Account, Amount
from crossclaw.domain.messages import Usage
from crossclaw.policy.budget import OUTPUT_TOKENS_MIN, decide_call
from crossclaw.providers.registry import Providers


def account(tokens: int | None = None, cost: float | None = None, **more: object) -> Account:
    fields = {"account_id": "a", "agent_id": "main", "tokens_max": tokens, "cost_max": cost, **more}
    return Account(**fields)  # type: ignore[arg-type]


@pytest.mark.spec("B5")
@pytest.mark.parametrize(
    ("tokens", "granted"),
    [(1_600, 500), (1_500, 500), (1_499, 499), (1_000 + OUTPUT_TOKENS_MIN, 256)],
)
def test_an_answer_is_as_long_as_the_account_can_pay(tokens: int, granted: int) -> None:
    grant = decide_call([account(tokens)], Amount(1_000), Amount(500), now_ms=0)

    assert grant.allowed
    assert (grant.output_tokens, grant.reserved.tokens) == (granted, 1_000 + granted)


@pytest.mark.spec("B5")
def test_an_answer_of_a_few_words_is_not_worth_a_call() -> None:
    grant = decide_call(
        [account(1_000 + OUTPUT_TOKENS_MIN - 1)], Amount(1_000), Amount(500), now_ms=0
    )

    assert not grant.allowed
    assert "the next model call takes about 1,256" in grant.reason


@pytest.mark.spec("B5")
def test_a_model_that_says_little_anyway_is_asked_to_the_last_token() -> None:
    assert decide_call([account(1_010)], Amount(1_000), Amount(10), now_ms=0).allowed
    assert not decide_call([account(1_009)], Amount(1_000), Amount(10), now_ms=0).allowed


@pytest.mark.spec("B5")
def test_what_others_have_reserved_is_not_there() -> None:
    mine = account(5_000, spent=Amount(1_000), reserved=Amount(3_000))
    grant = decide_call([mine], Amount(900), Amount(500), now_ms=0)

    assert not grant.allowed
    assert "1,000 of 5,000 tokens are spent, 3,000 are reserved for calls under way" in grant.reason
    assert grant.held
    assert not decide_call([mine], Amount(3_900), Amount(500), now_ms=0).held


@pytest.mark.spec("B5")
def test_the_tightest_account_of_a_line_decides() -> None:
    line = [account(9_000), account(1_300, agent_id="outer"), account(None, 5.0)]
    grant = decide_call(line, Amount(1_000, 0.1), Amount(500, 0.1), now_ms=0)

    assert grant.output_tokens == 300
    assert grant.reserved.cost_usd == pytest.approx(0.1 + 0.06)


@pytest.mark.spec("B5")
def test_dollars_shorten_an_answer_as_tokens_do() -> None:
    grant = decide_call([account(None, 0.75)], Amount(1_000, 0.25), Amount(500, 0.625), now_ms=0)

    assert grant.output_tokens == 400
    assert grant.reserved.cost_usd == 0.75


@pytest.mark.spec("B5")
def test_a_free_model_is_asked_when_the_dollars_are_gone() -> None:
    spent = account(None, 0.30, spent=Amount(0, 0.30))

    assert decide_call([spent], Amount(1_000), Amount(500), now_ms=0).allowed
    assert not decide_call([spent], Amount(1_000, 0.01), Amount(500), now_ms=0).allowed


@pytest.mark.spec("B5")
def test_a_model_without_a_price_is_refused_only_where_dollars_are_limited() -> None:
    asked = {"now_ms": 0, "priced": False}
    refused = decide_call([account(None, 9.0)], Amount(10), Amount(5), **asked)  # type: ignore[arg-type]

    assert not refused.allowed
    assert "nobody knows what this model costs" in refused.reason
    assert "models.providers" in refused.reason
    assert decide_call([account(9_000)], Amount(10), Amount(5), **asked).allowed  # type: ignore[arg-type]


@pytest.mark.spec("B5")
def test_time_that_is_over_is_over() -> None:
    mine = account(9_000, ends_at_ms=100)

    assert decide_call([mine], Amount(10), Amount(5), now_ms=99).allowed
    refused = decide_call([mine], Amount(10), Amount(5), now_ms=100)
    assert not refused.allowed
    assert "budget.minutes of agent main" in refused.reason


@pytest.mark.spec("B5")
async def test_what_runs_on_this_machine_is_free() -> None:
    providers = Providers({}, {})

    assert await providers.price("local/smollm2", Usage(100, 100)) == 0.0
    assert await providers.price("rehearsal/any", Usage(100, 100)) == 0.0
