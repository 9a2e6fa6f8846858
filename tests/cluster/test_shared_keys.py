"""Keys of model services that are given on one gateway: all of them use them, and the ledger has them only encrypted."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from crossclaw.app import Gateway
from crossclaw.config.ledger_key import KEY_VARIABLE
from crossclaw.config.profiles import kept_path
from crossclaw.domain.errors import Invalid
from crossclaw.testing import ScriptedProvider
from tests.cluster.test_gateways import ask
from tests.cluster.test_two_gateways import Open, _is, one_gateway, until
from tests.databases import databases
from tests.flows.talking import call

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
KEY, OTHER = "k" * 44, "o" * 44
MODEL = "anthropic/claude-sonnet-4-5"
ADDRESS = "https://mine.example/v1"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return databases().url(tmp_path / "ledger")


@pytest.fixture
async def opened(tmp_path: Path, url: str) -> AsyncGenerator[Open]:
    async with AsyncExitStack() as closing:

        async def open_as(name: str, key: str = KEY) -> Gateway:
            environ = {KEY_VARIABLE: key} if key else {}
            model = ScriptedProvider([])
            opening = one_gateway(tmp_path, url, name, model, environ=environ)
            return await closing.enter_async_context(opening)

        yield open_as


def fault(gateway: Gateway) -> str | None:
    """Why a model of this service cannot be asked."""
    return gateway.about._models.key_fault(MODEL)


def why_not(gateway: Gateway) -> str:
    return (gateway.claiming and gateway.claiming.why_not) or ""


async def test_a_key_that_is_given_on_one_gateway_is_used_by_all_and_removed_from_all(
    opened: Open, url: str, tmp_path: Path
) -> None:
    a, b = await opened("a"), await opened("b")
    assert fault(a) is not None
    await call(a, "models.key.set", provider="anthropic", key="sk-ant-s3cret")
    assert fault(a) is None, "from the next call on"
    await until(lambda: _is(fault(b) is None))
    assert "s3cret" not in str(ask(url, "SELECT * FROM model_keys"))
    for name in "ab":
        assert not kept_path(tmp_path / name / "state").exists(), "in clear nowhere on a disk"
    c = await opened("c")
    assert fault(c) is None, "also one that comes later"
    assert (await call(b, "models.key.remove", provider="anthropic"))["removed"]
    assert fault(b) is not None
    await until(lambda: _is(fault(a) is not None and fault(c) is not None))
    assert not (await call(a, "models.key.remove", provider="anthropic"))["removed"]


async def test_without_a_ledger_key_nothing_is_kept_and_the_error_says_what_to_do(
    opened: Open, url: str, tmp_path: Path
) -> None:
    a = await opened("a", key="")
    with pytest.raises(Invalid, match=KEY_VARIABLE):
        await call(a, "models.key.set", provider="anthropic", key="sk-ant-s3cret")
    assert ask(url, "SELECT * FROM model_keys") == []
    assert not kept_path(tmp_path / "a" / "state").exists()


@pytest.mark.parametrize("key", ["", OTHER], ids=["no key", "another key"])
async def test_a_gateway_that_cannot_read_the_keys_takes_no_runs_and_says_why(
    opened: Open, key: str
) -> None:
    a, b = await opened("a"), await opened("b", key)
    await until(lambda: _is(why_not(a) == why_not(b) == ""))
    await call(a, "models.key.set", provider="anthropic", key="sk-ant-s3cret")
    await until(lambda: _is(KEY_VARIABLE in why_not(b)))
    assert "anthropic" in why_not(b)
    assert why_not(a) == ""
    await call(a, "models.key.remove", provider="anthropic")
    await until(lambda: _is(why_not(b) == ""))


async def test_a_row_that_is_moved_to_another_service_opens_nothing(opened: Open, url: str) -> None:
    """Whoever can write in the ledger cannot have a key sent to an address of his own."""
    a = await opened("a")
    await call(a, "models.key.set", provider="anthropic", key="sk-ant-s3cret")
    ask(url, "UPDATE model_keys SET provider = 'openai', base_url = $1", ADDRESS)
    await until(lambda: _is("openai" in why_not(a)))
    assert fault(a) is not None
