"""Several keys for one provider: one that is limited or refused rests, and the next is used at once."""

import json
from pathlib import Path

import anyio
import pytest

from crossclaw.config.profiles import profiles_path, read_profiles
from crossclaw.domain.errors import KeyRefused, ProviderOverloaded, RateLimited
from crossclaw.domain.messages import Text
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.providers.keys import REFUSED_S, Key, KeyRotation, keys_of
from crossclaw.testing.scripted import ScriptedProvider

REQUEST = ModelRequest(model="m", system="", turns=[UserTurn([], [Text("hi")])])


def ignore(_piece: object) -> None:
    pass


async def test_a_limited_key_rests_and_the_next_is_used() -> None:
    first = ScriptedProvider([RateLimited("slow down", 5.0), "first again"])
    second = ScriptedProvider(["second", "second again"])
    both = KeyRotation([Key("a", first), Key("b", second)])
    assert (await both.complete(REQUEST, ignore)).text == "second"
    assert (await both.complete(REQUEST, ignore)).text == "second again"
    await anyio.sleep(61)
    assert (await both.complete(REQUEST, ignore)).text == "first again"


async def test_a_refused_key_rests_for_hours() -> None:
    first = ScriptedProvider([KeyRefused("no credit"), "first again"])
    second = ScriptedProvider(["second"] * 3)
    both = KeyRotation([Key("a", first), Key("b", second)])
    await both.complete(REQUEST, ignore)
    await anyio.sleep(REFUSED_S / 2)
    assert (await both.complete(REQUEST, ignore)).text == "second"
    await anyio.sleep(REFUSED_S)
    assert (await both.complete(REQUEST, ignore)).text == "first again"


async def test_a_key_that_is_limited_again_and_again_rests_longer() -> None:
    first = ScriptedProvider([RateLimited("no"), RateLimited("no"), "first"])
    both = KeyRotation([Key("a", first), Key("b", ScriptedProvider(["second"] * 9))])
    await both.complete(REQUEST, ignore)
    await anyio.sleep(61)
    await both.complete(REQUEST, ignore)
    await anyio.sleep(61)
    assert (await both.complete(REQUEST, ignore)).text == "second"
    await anyio.sleep(300)
    assert (await both.complete(REQUEST, ignore)).text == "first"


async def test_an_outage_is_not_tried_with_every_key() -> None:
    first, second = ScriptedProvider([ProviderOverloaded("down")]), ScriptedProvider(["second"])
    with pytest.raises(ProviderOverloaded, match="down"):
        await KeyRotation([Key("a", first), Key("b", second)]).complete(REQUEST, ignore)
    assert second.left == 1


async def test_when_all_keys_rest_the_first_to_wake_is_tried() -> None:
    first = ScriptedProvider([RateLimited("no", 500.0)])
    second = ScriptedProvider([RateLimited("no"), "second"])
    both = KeyRotation([Key("a", first), Key("b", second)])
    with pytest.raises(RateLimited):
        await both.complete(REQUEST, ignore)
    assert (await both.complete(REQUEST, ignore)).text == "second"


def test_keys_come_from_the_config_and_the_environment_each_once() -> None:
    environ = {
        "ACME_API_KEY": "two",
        "ACME_API_KEYS": "three, four;one",
        "ACME_API_KEY_1": "five",
        "OTHER_API_KEY": "no",
    }
    found = keys_of("acme", [("apiKey", "one")], environ)
    assert [key for _label, key in found] == ["one", "two", "five", "three", "four"]
    assert all(key not in label for label, key in found)
    assert keys_of("google", [], {"GEMINI_API_KEY": "g"}) == [("GEMINI_API_KEY", "g")]


def test_openclaws_profiles_are_read_in_the_configs_order(tmp_path: Path) -> None:
    path = profiles_path(tmp_path, "main")
    path.parent.mkdir(parents=True)
    profiles = {
        "anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "k1"},
        "anthropic:work": {"type": "token", "provider": "anthropic", "token": "k2"},
        "anthropic:login": {"type": "oauth", "provider": "anthropic", "access": "a"},
        "broken": "what",
    }
    path.write_text(json.dumps({"version": 1, "profiles": profiles}))
    found = read_profiles(path, {"anthropic": ["anthropic:work"]})
    assert [each.key.reveal() for each in found["anthropic"]] == ["k2", "k1"]
    assert "k1" not in str(found)


def test_a_file_of_profiles_that_is_none_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "auth-profiles.json"
    assert read_profiles(path, {}) == {}
    path.write_text("{")
    assert read_profiles(path, {}) == {}
