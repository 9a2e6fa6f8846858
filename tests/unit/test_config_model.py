"""The config's types: complete without a file, and helpful to whoever asks them."""

from typing import Any

import msgspec
import pytest

from crossclaw.config import Config, default_model
from crossclaw.config.agents import AgentConfig, Agents, ModelChoice, thinking_level
from crossclaw.config.lint import lint
from crossclaw.config.section import Loose, Secrets
from crossclaw.domain.errors import NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.secret import Secret
from crossclaw.domain.sessions import Session
from crossclaw.sessions.queueing import queueing_for


def config_of(raw: object) -> Config:
    def hook(kind: type, value: object) -> object:
        return kind(value)

    return msgspec.convert(raw, Config, dec_hook=hook)


def test_a_config_without_a_file_is_complete() -> None:
    config = Config()
    assert config.gateway.port == 18789
    assert config.gateway.bind == "loopback"
    assert config.agents.ids() == ("main",)
    assert config.agents.default_id == "main"
    assert config.agents.defaults.timeout_seconds == 600
    assert config.messages.queue.mode == "collect"
    assert config.hooks.max_body_bytes == 262_144


@pytest.mark.spec("S6", "B4")
def test_exchanges_end_after_five_turns_and_cascades_after_twelve_hops() -> None:
    assert Config().session.agent_to_agent.max_ping_pong_turns == 5
    assert Config().session.agent_to_agent.max_hops == 12


@pytest.mark.spec("S8", "V2")
def test_agents_may_reach_each_other_unless_somebody_says_otherwise() -> None:
    tools = Config().tools
    assert tools.agent_to_agent.enabled
    assert tools.agent_to_agent.allow == ("*",)
    assert tools.sessions.visibility == "all"


@pytest.mark.spec("V1", "V4")
def test_the_sandbox_is_off_and_shows_only_spawned_sessions() -> None:
    sandbox = Config().agents.defaults.sandbox
    assert sandbox.mode == "off"
    assert sandbox.session_tools_visibility == "spawned"
    assert not sandbox.allows_network


@pytest.mark.spec("P7")
def test_children_are_archived_after_an_hour_and_do_not_wake_their_parent() -> None:
    subagents = Config().agents.defaults.subagents
    assert subagents.archive_after_minutes == 60
    assert not subagents.wake_parent


@pytest.mark.spec("G3")
def test_the_openai_endpoints_are_served_by_default() -> None:
    endpoints = Config().gateway.http.endpoints
    assert endpoints.chat_completions.enabled
    assert endpoints.responses.enabled


@pytest.mark.spec("Y1")
def test_without_a_send_policy_sending_is_allowed() -> None:
    assert Config().session.send_policy.default == "allow"
    assert Config().session.send_policy.rules == ()


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Config().gateway.port = 1  # type: ignore[misc]


def test_agents_are_found_by_any_spelling_of_their_id() -> None:
    agents = Agents(listed=(AgentConfig(id="Home Office"), AgentConfig(id="work")))
    assert agents.ids() == ("home-office", "work")
    assert agents.get(" WORK ").id == "work"


def test_an_unknown_agent_is_refused_with_the_known_ones_and_the_way_to_add_it() -> None:
    agents = Agents(listed=(AgentConfig(id="home"), AgentConfig(id="work")))
    with pytest.raises(NotFound, match=r'no agent "garden"; configured: home, work.*agents\.list'):
        agents.get("Garden")


def test_the_default_agent_is_the_marked_one_else_the_first() -> None:
    home, work = AgentConfig(id="home"), AgentConfig(id="work", default=True)
    assert Agents(listed=(home, work)).default_id == "work"
    assert Agents(listed=(home,)).default_id == "home"


def test_agents_may_also_be_written_as_a_map() -> None:
    agents = config_of({"agents": {"entries": {"Ops": {"name": "Operations"}}}}).agents
    assert agents.ids() == ("ops",)
    assert agents.get("ops").name == "Operations"


def test_an_agent_inherits_what_its_sandbox_does_not_set() -> None:
    agents = config_of(
        {
            "agents": {
                "defaults": {"sandbox": {"mode": "all", "workspaceAccess": "ro"}},
                "list": [{"id": "a", "sandbox": {"network": "host"}}],
            }
        }
    ).agents
    sandbox = agents.sandbox_for("a")
    assert (sandbox.mode, sandbox.workspace_access, sandbox.network) == ("all", "ro", "host")


def test_a_docker_network_counts_as_leave_to_use_the_network() -> None:
    config = config_of({"agents": {"defaults": {"sandbox": {"docker": {"network": "bridge"}}}}})
    assert config.agents.defaults.sandbox.allows_network


@pytest.mark.parametrize(
    ("docker", "memory_mb", "processes"),
    [
        ({"memory": "512m", "pidsLimit": 64}, 512, 64),
        ({"memory": "1g"}, 1_024, 512),
        ({"memory": 268_435_456, "pidsLimit": 0}, 256, 512),
        ({"memory": "64g", "pidsLimit": 9_999}, 4_096, 512),
        ({"memory": "much"}, 4_096, 512),
    ],
)
def test_docker_limits_count_where_they_are_less(
    docker: dict[str, Any], memory_mb: int, processes: int
) -> None:
    config = config_of({"agents": {"defaults": {"sandbox": {"docker": docker}}}})
    bounds = config.agents.defaults.sandbox.bounds
    assert (bounds.memory_mb, bounds.processes) == (memory_mb, processes)


@pytest.mark.spec("P3")
def test_an_agent_may_spawn_only_itself_unless_it_is_allowed_others() -> None:
    raw = {"agents": {"list": [{"id": "a"}, {"id": "b", "subagents": {"allowAgents": ["*", "A"]}}]}}
    agents = config_of(raw).agents
    assert agents.spawn_allowed("a") == ()
    assert agents.spawn_allowed("b") == ("*", "a")


def test_an_agents_model_comes_before_the_shared_one() -> None:
    raw = {
        "agents": {
            "defaults": {"model": {"primary": "p/shared", "fallbacks": ["p/second"]}},
            "list": [
                {"id": "plain"},
                {"id": "text", "model": "p/own"},
                {"id": "alone", "model": {"primary": "p/own", "fallbacks": []}},
            ],
        }
    }
    config = config_of(raw)
    assert config.model_for("plain", {}) == ("p/shared", ("p/second",))
    assert config.model_for("text", {}) == ("p/own", ("p/second",))
    assert config.model_for("alone", {}) == ("p/own", ())


def test_children_use_the_model_meant_for_them() -> None:
    raw = {
        "agents": {
            "defaults": {"subagents": {"model": "p/small"}},
            "list": [{"id": "a"}, {"id": "b", "subagents": {"model": {"primary": "p/tiny"}}}],
        }
    }
    config = config_of(raw)
    assert config.subagent_model_for("a") == "p/small"
    assert config.subagent_model_for("b") == "p/tiny"
    assert Config().subagent_model_for("main") is None


def test_the_default_model_is_the_first_that_can_answer() -> None:
    both = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}
    chosen = Config(agents=config_of({"agents": {"defaults": {"model": "x/y"}}}).agents)
    assert default_model(chosen, both) == "x/y"
    assert default_model(Config(), both).startswith("anthropic/claude-")
    assert default_model(Config(), {"OPENAI_API_KEY": "o"}).startswith("openai/")
    assert default_model(Config(), {"ANTHROPIC_API_KEY": ""}) == "rehearsal/rehearsal"
    assert default_model(Config(), {}) == "rehearsal/rehearsal"


def test_a_key_in_the_config_counts_like_one_in_the_environment() -> None:
    by_variable = config_of({"env": {"vars": {}}})
    by_variable.env.vars["OPENAI_API_KEY"] = Secret("o")
    by_provider = config_of({"models": {"providers": {"anthropic": {"apiKey": "a"}}}})
    assert default_model(by_variable, {}).startswith("openai/")
    assert default_model(by_provider, {}).startswith("anthropic/")


def test_an_empty_model_choice_falls_back_to_the_default() -> None:
    agents = Agents(listed=(AgentConfig(id="a", model=ModelChoice()),))
    assert Config(agents=agents).model_for("a", {}).primary == "rehearsal/rehearsal"


def test_a_model_that_calls_no_tools_is_known_or_says_so() -> None:
    models = [{"id": "tiny", "compat": {"supportsTools": False}}, {"id": "large"}]
    config = config_of({"models": {"providers": {"ollama": {"models": models}}}})
    takes = {
        model: config.takes_tools(model)
        for model in ("local/smollm2", "ollama/tiny", "ollama/large", "ollama/new", "openai/gpt-5")
    }
    assert [model for model, does in takes.items() if not does] == ["local/smollm2", "ollama/tiny"]
    own = config_of({"models": {"providers": {"local": {"baseUrl": "http://127.0.0.1:1"}}}})
    assert own.takes_tools("local/llama-3")


def test_aliases_lead_to_model_references() -> None:
    raw = {"agents": {"defaults": {"models": {"p/big": {"alias": "Big"}, "p/other": {}}}}}
    assert config_of(raw).agents.aliases() == {"big": "p/big"}


def test_the_rehearsal_needs_no_second_half_of_its_name() -> None:
    config = config_of({"agents": {"defaults": {"model": "rehearsal"}}})

    assert config.model_for("main", {}).primary == "rehearsal/rehearsal"
    assert list(lint(config)) == []


def test_newer_thinking_names_fall_on_the_nearest_level() -> None:
    assert thinking_level("max") == "xhigh"
    assert thinking_level("low") == "low"
    agents = config_of({"agents": {"defaults": {"thinkingDefault": "adaptive"}}}).agents
    assert agents.thinking_for("main") == "medium"


def test_nothing_is_reset_by_itself() -> None:
    assert Config().session.reset_rule("direct", "telegram") is None


def test_a_reset_is_honoured_by_channel_then_type_then_for_all() -> None:
    session = config_of(
        {
            "session": {
                "reset": {"mode": "daily", "atHour": 6},
                "resetByType": {"thread": {"idleMinutes": 30}, "dm": {"mode": "idle"}},
                "resetByChannel": {"discord": {"mode": "idle", "idleMinutes": 9}},
            }
        }
    ).session

    def rule(kind: str, channel: str | None) -> tuple[int | None, int | None]:
        chosen = session.reset_rule(kind, channel)  # type: ignore[arg-type]
        assert chosen is not None
        return chosen.at_hour, chosen.idle_minutes

    assert rule("group", "discord") == (None, 9)
    assert rule("group", None) == (6, None)
    assert rule("thread", None) == (6, 30)
    assert rule("direct", None) == (None, 60)


def test_the_old_idle_minutes_alone_mean_a_reset_after_idling() -> None:
    rule = config_of({"session": {"idleMinutes": 45}}).session.reset_rule("direct", None)
    assert rule is not None
    assert (rule.at_hour, rule.idle_minutes) == (None, 45)


def test_a_channel_may_queue_in_its_own_way() -> None:
    raw = {
        "messages": {
            "queue": {"byChannel": {"discord": "steer"}, "debounceMsByChannel": {"discord": 5}}
        }
    }
    queue, key = config_of(raw).messages.queue, SessionKey.main("main")
    there = queueing_for(queue, key, None, "discord")
    elsewhere = queueing_for(queue, key, None, "telegram")
    assert there is not None
    assert elsewhere is not None
    assert (there.mode, there.debounce_ms) == ("steer", 5)
    assert (elsewhere.mode, elsewhere.debounce_ms) == ("collect", 1000)


@pytest.mark.parametrize(("stored", "used"), [(0, 0), (-5, 0), (10**9, 3_600_000)])
def test_a_pause_that_a_session_has_of_its_own_is_at_least_none_and_at_most_an_hour(
    stored: int, used: int
) -> None:
    key = SessionKey.main("main")
    session = Session(key, "s", 0, 0, queue_debounce_ms=stored, queue_cap=0)
    own = queueing_for(Config().messages.queue, key, session, "telegram")
    assert own is not None
    assert (own.debounce_ms, own.cap) == (used, 1)


def test_secrets_never_show_themselves() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {[secret]} {Secrets(a=secret)}"
    assert secret.reveal() == "hunter2"
    assert secret not in ["hunter2", Secret("hunter2")]
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


def test_tokens_in_sections_without_types_are_secrets_too() -> None:
    channels = Loose.of({"telegram": {"botToken": "t0p", "accounts": [{"apiKey": "k3y"}], "x": 1}})
    assert "t0p" not in repr(channels)
    assert "k3y" not in repr(channels)
    assert channels["telegram"]["botToken"].reveal() == "t0p"
    assert channels["telegram"]["x"] == 1


def test_a_redacted_config_is_fit_to_be_shown() -> None:
    config = config_of({"gateway": {"auth": {"token": "t0p"}}})
    shown = msgspec.json.encode(config.redacted()).decode()
    assert "t0p" not in shown
    assert '"token":"(hidden)"' in shown
    assert '"maxPingPongTurns":5' in shown


def test_provider_models_are_found_by_id() -> None:
    raw = {"models": {"providers": {"p": {"models": [{"id": "m"}]}}}}
    config = config_of(raw)
    provider = config.models.providers["p"]
    model = provider.find_model("m")
    assert model is not None
    assert (model.context_window, model.max_tokens) == (None, None)
    assert config.facts_for("p/m").window == 200_000
    assert provider.find_model("other") is None


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("http://10.0.0.5:18789", "http://10.0.0.5:18789"),
        ("ws://10.0.0.5:18789", "http://10.0.0.5:18789"),
        ("WSS://a.example", "https://a.example"),
        (None, ""),
    ],
)
def test_gateways_reach_each_other_over_http_however_the_address_was_written(
    written: str | None, used: str
) -> None:
    assert config_of({"ledger": {"address": written}}).ledger.reached_at == used
