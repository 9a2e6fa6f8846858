"""Model services over the wire: a key counts at once, goes to the address that it was given for and to no other, and
never comes back."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app.model_settings import make_providers, renew_keys, trial_provider
from crossclaw.app.parts import GatewayInputs
from crossclaw.app.shared_keys import LocalKeyStore
from crossclaw.config import find_paths
from crossclaw.config.changing import ConfigChanges
from crossclaw.config.load import load
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Caller
from crossclaw.gateway.methods.model_service import (
    ModelTrials,
    RemoveKeyParams,
    SetKeyParams,
    SetServiceParams,
)
from crossclaw.gateway.methods.model_service import (
    TestModelParams as TrialParams,
)
from crossclaw.providers.registry import NO_KEY, Providers
from tests.flows.talking import OWNER

pytestmark = pytest.mark.spec("B3")
CALLER = Caller(principal=OWNER)
ENVIRON = {"SHED_API_KEY": "sk-of-the-environment"}
HERE, THERE = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"


class Gateway:
    """As one opens: the config in force is the one that it began with."""

    def __init__(self, folder: Path) -> None:
        file = folder / "openclaw.json"
        if not file.exists():
            file.write_text('{"agents": {"list": [{"id": "main"}]}}', "utf-8")
            file.chmod(0o600)
        loaded = load(file, ENVIRON)
        paths = find_paths({"OPENCLAW_STATE_DIR": str(folder)}, folder)
        outside = GatewayInputs(environ=ENVIRON, clock=SystemClock())
        self.file = file
        self.providers: Providers = make_providers(loaded.config, paths, outside)
        renew = partial(renew_keys, self.providers, loaded.config, paths, {})
        self.methods = ModelTrials(
            self.providers,
            partial(trial_provider, loaded.config, ENVIRON),
            LocalKeyStore(paths.state_dir, renew),
            ConfigChanges(loaded, ENVIRON),
            SystemClock(),
        )

    def keys(self, name: str) -> list[str]:
        """What the provider would show to its address now."""
        return [key for _label, key in self.providers._keys(self.providers._settings[name], "")]

    async def set_key(self, **params: Any) -> Any:
        return await self.methods.set_key(CALLER, msgspec.convert(params, SetKeyParams))

    async def set_service(self, **params: Any) -> Any:
        return await self.methods.set_service(CALLER, msgspec.convert(params, SetServiceParams))


async def test_a_key_that_is_removed_is_not_used_any_more(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    await gateway.set_key(provider="openai", key="sk-the-first-one")
    for removed in (True, False):
        params = RemoveKeyParams(provider="openai")
        assert (await gateway.methods.remove_key(CALLER, params)).removed == removed
        assert gateway.providers.key_fault("openai/gpt-5") is not None
    assert Gateway(tmp_path).providers.key_fault("openai/gpt-5") is not None, "nor after a start"


async def test_a_key_that_is_kept_counts_at_once_and_replaces_the_one_before(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    assert gateway.providers.key_fault("openai/gpt-5") is not None

    first = await gateway.set_key(provider="openai", key="sk-the-first-one")
    assert gateway.keys("openai") == ["sk-the-first-one"]
    before, _ = gateway.providers.get("openai/gpt-5")
    await gateway.set_key(provider="openai", key="sk-the-second-one")
    after, _ = gateway.providers.get("openai/gpt-5")

    assert first.counts == "from the next call on"
    assert gateway.providers.key_fault("openai/gpt-5") is None
    assert gateway.keys("openai") == ["sk-the-second-one"]
    assert before is not after
    await gateway.providers.close()
    with pytest.raises(Invalid, match="give its address too"):
        await gateway.set_key(provider="nobody", key="sk-the-third-one")


async def test_a_service_gets_the_key_that_was_given_for_its_address_and_no_other(
    tmp_path: Path,
) -> None:
    made = await Gateway(tmp_path).set_service(
        provider="shed", baseUrl=HERE, key="sk-for-the-shed", api="openai-completions"
    )
    gateway = Gateway(tmp_path)
    text = gateway.file.read_text("utf-8")
    assert made.counts == "when no run is under way"
    assert HERE in text
    assert "sk-for-the-shed" not in text
    assert gateway.keys("shed") == ["sk-for-the-shed"]

    await gateway.set_service(provider="shed", baseUrl=THERE)  # by whoever has only the token
    moved = Gateway(tmp_path)
    assert moved.keys("shed") == [NO_KEY]  # neither the old one nor the environment's

    await moved.set_key(provider="shed", key="sk-for-the-new-place")
    assert moved.keys("shed") == ["sk-for-the-new-place"]
    assert Gateway(tmp_path).keys("shed") == ["sk-for-the-new-place"]


@pytest.mark.parametrize("name", ["openai", "anthropic", "rehearsal"])
async def test_a_service_that_has_an_address_is_not_moved(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="another name"):
        await Gateway(tmp_path).set_service(provider=name, baseUrl=HERE)


@pytest.mark.parametrize("address", ["ftp://shed", "http://me:secret@shed", "http://shed/v1?x=1"])
def test_an_address_is_a_plain_one(address: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"provider": "shed", "baseUrl": address}, SetServiceParams)


async def test_a_trial_at_another_address_takes_no_kept_key_there(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    await Gateway(tmp_path).set_service(provider="shed", baseUrl=HERE, key="sk-for-the-shed")
    gateway = Gateway(tmp_path)
    trial = gateway.methods._trial

    def looked_at(*which: Any) -> Providers:
        providers = trial(*which)
        seen.append([key for _label, key in providers._keys(providers._settings["shed"], "")])
        return providers

    gateway.methods._trial = looked_at
    for given in ({}, {"key": "sk-only-tried"}):
        params = {"model": "shed/any", "baseUrl": THERE, **given}
        answer = await gateway.methods.test(CALLER, msgspec.convert(params, TrialParams))
        assert answer.ok is False  # nobody is there
    assert seen == [[NO_KEY], ["sk-only-tried"]]
    assert gateway.keys("shed") == ["sk-for-the-shed"]
