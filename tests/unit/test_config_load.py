"""Loading openclaw.json: what is accepted, what is refused, and how the refusal reads."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from crossclaw.config import Loaded, load
from crossclaw.config.agents import ModelChoice
from crossclaw.config.file import ConfigFile
from crossclaw.config.load import Unloadable, load_gateway
from crossclaw.config.source import dotted
from crossclaw.domain.errors import ConfigInvalid

BIG_FILE = Path(__file__).parent / "grown_openclaw.json5"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "openclaw.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path: Path, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        load(path, environ or {})
    return str(caught.value)


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    loaded = load(tmp_path / "openclaw.json", {})
    assert not loaded.exists
    assert loaded.config.gateway.port == 18789
    assert loaded.files == ()


def test_json5_is_read_with_comments_and_bare_keys(write: Write) -> None:
    path = write("// mine\n{ gateway: { port: 0x50, }, /* end */ }\n")
    loaded = load(path, {})
    assert loaded.exists
    assert loaded.config.gateway.port == 80
    assert loaded.files == (path,)
    assert loaded.warnings == ()


def test_what_is_loaded_does_not_print_its_secrets(write: Write) -> None:
    loaded = load(write('{ gateway: { auth: { token: "hunter2" } } }'), {})
    assert "hunter2" not in f"{loaded!r} {loaded.config!r}"


# What cannot be parsed


def test_a_broken_file_is_refused_with_line_and_column(write: Write) -> None:
    path = write('{\n  gateway: {\n    port: 1 mode: "local"\n  }\n}')
    text = refusal(path)
    assert text == f"{path}:3:12: this is not JSON5: a comma is missing here"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ("  \n", ""),
        ("// only words\n", ":2:1: this is not JSON5"),
        ("[1]", "must hold one object"),
        ("[" * 40 + "]" * 40, "nested deeper than 32"),
        ('{ a: "\\ud800" }', ":1:6: this is not JSON5"),
        ('{\n a: "open', ":2:5: this is not JSON5"),
    ],
)
def test_whatever_is_no_config_is_refused_in_words(write: Write, content: str, told: str) -> None:
    path = write(content)
    text = refusal(path)
    assert text.startswith(str(path))
    assert told in text


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_bytes(b'{"a": "\xff"}')
    assert "not UTF-8 text: byte 7" in refusal(path)


def test_a_folder_in_the_files_place_is_refused(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in refusal(tmp_path)


def test_a_link_to_nowhere_is_not_taken_for_no_file(tmp_path: Path) -> None:
    link = tmp_path / "openclaw.json"
    link.symlink_to(tmp_path / "gone.json")
    assert refusal(link) == f"{link} cannot be read: No such file or directory"


def test_a_file_in_the_folders_place_is_not_taken_for_no_file(write: Write) -> None:
    path = write("{}", "folder") / "openclaw.json"
    assert refusal(path) == f"{path} cannot be read: Not a directory"


# Values


def test_a_wrong_type_is_refused_with_key_line_and_what_would_work(write: Write) -> None:
    path = write('{\n  gateway: {\n    port: "18789",\n  },\n}')
    told = f'{path}:3: gateway.port: found "18789"; expected a whole number from 0 to 65535'
    assert refusal(path) == told


@pytest.mark.spec("S6")
@pytest.mark.parametrize("turns", ["-1", "6", "2.5", '"3"', "true", "null"])
def test_ping_pong_turns_outside_zero_to_five_are_refused(write: Write, turns: str) -> None:
    path = write(f"{{ session: {{ agentToAgent: {{ maxPingPongTurns: {turns} }} }} }}")
    told = refusal(path)
    assert "session.agentToAgent.maxPingPongTurns: found " + turns.strip() in told
    assert "expected a whole number from 0 to 5" in told


@pytest.mark.parametrize("turns", [0, 5])
def test_ping_pong_turns_at_the_limits_are_accepted(write: Write, turns: int) -> None:
    path = write(f"{{ session: {{ agentToAgent: {{ maxPingPongTurns: {turns} }} }} }}")
    assert load(path, {}).config.session.agent_to_agent.max_ping_pong_turns == turns


@pytest.mark.spec("P7")
def test_fractions_of_minutes_are_accepted(write: Write) -> None:
    path = write("{ agents: { defaults: { subagents: { archiveAfterMinutes: 0.05 } } } }")
    assert load(path, {}).config.agents.defaults.subagents.archive_after_minutes == 0.05


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            '{ tools: { sessions: { visibility: "everybody" } } }',
            'found "everybody"; expected one of "self", "tree", "agent", "all"',
        ),
        (
            "{ agents: { defaults: { model: 5 } } }",
            "agents.defaults.model: found 5; expected text or an object",
        ),
        (
            "{ agents: { defaults: { model: { primary: 5 } } } }",
            "agents.defaults.model.primary: found 5; expected text",
        ),
        ("{ agents: { list: {} } }", "agents.list: found an object; expected a list, each item"),
        ("{ session: { identityLinks: { bob: 'x' } } }", "session.identityLinks.bob: found "),
        (
            "{ tools: { agentToAgent: { allow: ['a', 2] } } }",
            "tools.agentToAgent.allow[1]: found 2",
        ),
        (
            "{ agents: { defaults: { budget: { tokens: -5 } } } }",
            "budget.tokens: found -5; expected a whole number of at least 1",
        ),
        (
            "{ agents: { defaults: { budget: { minutes: 'ten' } } } }",
            'budget.minutes: found "ten"; expected a number of more than 0',
        ),
        (
            "{ tools: { profile: 'codingg' } }",
            'found "codingg"; expected one of "minimal", "coding"',
        ),
        (
            "{ agents: { defaults: { thinkingDefault: 'hard' } } }",
            'found "hard"; expected one of "off", "minimal"',
        ),
        (
            "{ agents: { defaults: { maxConcurrent: 0 } } }",
            "found 0; expected a whole number of at least 1",
        ),
        (
            "{ cron: { maxConcurrentRuns: 'x' } }",
            'found "x"; expected a whole number of at least 1',
        ),
        ("{ hooks: [] }", "hooks: found a list; expected an object"),
        ("{ channels: 1 }", "channels: found a number; expected an object"),
        ("{ gateway: null }", "gateway: found null; expected an object"),
        (
            "{ session: { sendPolicy: { rules: [{}] } } }",
            'session.sendPolicy.rules[0]: "action" is missing; it must be one of "allow", "deny"',
        ),
        ("{ cron: { enabled: 'yes' } }", 'cron.enabled: found "yes"; expected true or false'),
        ("{ agents: { list: [{ name: 'x' }] } }", 'agents.list[0]: "id" is missing'),
        (
            "{ gateway: { bind: 'custom' } }",
            'gateway.bind: with "custom", gateway.customBindHost must be set',
        ),
        (
            '{ models: { providers: { "my.own": { models: [{}] } } } }',
            'models.providers."my.own".models[0]: "id" is missing; it must be text, not empty',
        ),
        (
            "{ models: { providers: { x: { api: 'antropic-messages' } } } }",
            'models.providers.x.api: unknown; did you mean "anthropic-messages"?',
        ),
    ],
)
def test_a_refusal_names_the_key_and_what_would_be_accepted(
    write: Write, content: str, told: str
) -> None:
    assert told in refusal(write(content))


def test_all_problems_are_told_at_once(write: Write) -> None:
    path = write(
        '{\n  gateway: { prot: 1 },\n  session: {\n    scope: "all",\n'
        '    dmScope: "${NOWHERE}",\n  },\n  cron: { enabled: 1 },\n}'
    )
    text = refusal(path)
    assert text.startswith(f"{path} has 5 problems:\n")
    assert f'{path}:2: gateway.prot: unknown key; did you mean "port"?' in text
    assert f"{path}:4: session.scope" in text
    assert f"{path}:5: session.dmScope: the variable NOWHERE is not set" in text
    assert f"{path}:7: cron.enabled" in text


def test_a_long_value_is_not_repeated_in_full(write: Write) -> None:
    assert len(refusal(write(f'{{ session: {{ scope: "{"x" * 5000}" }} }}'))) < 300


def test_a_secret_is_never_told_in_a_refusal(write: Write) -> None:
    text = refusal(
        write("{ gateway: { auth: { token: 99887766, password: ['hunter2'] }, port: '${P}' } }"),
        {"P": "s3cret"},
    )
    assert "gateway.auth.token: found a number; expected text" in text
    assert 'gateway.port: found "${P}"' in text
    assert not any(secret in text for secret in ("99887766", "hunter2", "s3cret"))


def test_two_spellings_of_one_agent_are_refused(write: Write) -> None:
    path = write('{ agents: { list: [\n{ id: "Work" },\n{ id: "work" },\n] } }')
    told = f'{path}:3: agents.list[1].id: the agent "work" is already there as agents.list[0]'
    assert refusal(path) == told


def test_an_agent_in_list_and_map_is_refused(write: Write) -> None:
    path = write('{ agents: { list: [{ id: "work" }], entries: { Work: {} } } }')
    assert 'agents.entries.Work: the agent "work" is already there as agents.list[0]' in refusal(
        path
    )


def test_several_default_agents_are_warned_about_and_the_first_is_used(write: Write) -> None:
    loaded = load(
        write(
            '{ agents: { list: [{ id: "a" }, { id: "b", default: true }, { id: "c", default: true }] } }'
        ),
        {},
    )
    assert loaded.config.agents.default_id == "b"
    assert "several agents are the default (b, c)" in loaded.warnings[0]


def test_a_binding_to_nobody_is_warned_about(write: Write) -> None:
    loaded = load(write("{ bindings: [{ agentId: 'x', match: { channel: 'signal' } }] }"), {})
    assert loaded.warnings == (
        'bindings[0].agentId: no agent "x" is configured (main); the binding is not used',
    )


# Keys


@pytest.mark.parametrize(
    ("content", "key", "meant"),
    [
        ("{ gateway: { prot: 1 } }", "gateway.prot", "port"),
        ("{ gateway: { Port: 1 } }", "gateway.Port", "port"),
        ("{ agent: {} }", "agent", "agents"),
        ("{ session: { dm_scope: 'main' } }", "session.dm_scope", "dmScope"),
        ("{ tools: { agentToAgents: {} } }", "tools.agentToAgents", "agentToAgent"),
        ("{ agents: { list: [{ id: 'a', modle: 'x' }] } }", "agents.list[0].modle", "model"),
        (
            "{ session: { agentToAgent: { maxPingPongTurn: 1 } } }",
            "session.agentToAgent.maxPingPongTurn",
            "maxPingPongTurns",
        ),
        (
            "{ models: { providers: { x: { baseURL: '' } } } }",
            "models.providers.x.baseURL",
            "baseUrl",
        ),
        ("{ env: { var: {} } }", "env.var", "vars"),
        ("{ chanels: {} }", "chanels", "channels"),
        ("{ skils: {} }", "skils", "skills"),
    ],
)
def test_a_typo_is_refused_with_the_key_that_was_meant(
    write: Write, content: str, key: str, meant: str
) -> None:
    path = write("\n" + content)
    assert refusal(path) == f'{path}:2: {key}: unknown key; did you mean "{meant}"?'


def test_an_unknown_key_is_warned_about_once_with_its_path(write: Write) -> None:
    loaded = load(write("{ gateway: { hovercraft: { eels: { full: 1 } } }, zzz: 1 }"), {})
    assert loaded.warnings == (
        "gateway.hovercraft: unknown key, ignored",
        "zzz: unknown key, ignored",
    )


def test_keys_of_openclaw_that_we_do_not_use_are_no_typos(write: Write) -> None:
    loaded = load(write("{ agents: { defaults: { pdfModel: 'x', models: {} } }, ui: {} }"), {})
    assert loaded.warnings == ()
    assert [str(each) for each in loaded.no_effect] == ["agents.defaults.pdfModel"]


def test_free_names_are_not_unknown_keys(write: Write) -> None:
    loaded = load(
        write(
            """{
              session: { identityLinks: { scop: ["telegram:1"] }, resetByChannel: { dms: {} } },
              models: { providers: { mod: {} } },
              agents: { defaults: { models: { "p/alia": {} } } },
              channels: { whatsap: { sesion: 1 } },
              mcp: { servers: { comand: { env: { KEY: 1, FLAG: true } } } },
              env: { var_one: "1", vars: { prot: "2" } },
            }"""
        ),
        {},
    )
    assert loaded.warnings == ()
    assert loaded.config.mcp.servers["comand"].env["FLAG"].reveal() == "true"
    assert loaded.config.environment({}) == {"var_one": "1", "prot": "2"}


# Variables


def test_variables_are_put_into_texts(write: Write) -> None:
    path = write('{ gateway: { customBindHost: "${HOST}.${NET}", remote: { url: "$${HOST}" } } }')
    loaded = load(path, {"HOST": "me", "NET": "lan"})
    assert loaded.config.gateway.custom_bind_host == "me.lan"
    assert loaded.config.gateway.remote.url == "${HOST}"
    assert loaded.raw["gateway"]["customBindHost"] == "${HOST}.${NET}"


def test_what_is_not_an_upper_case_name_stays_as_it_is(write: Write) -> None:
    path = write('{ gateway: { customBindHost: "${host} $HOST ${1A} ${}" } }')
    assert load(path, {}).config.gateway.custom_bind_host == "${host} $HOST ${1A} ${}"


@pytest.mark.parametrize("environ", [{}, {"TOKEN": ""}])
def test_a_missing_variable_is_refused_with_key_and_name(
    write: Write, environ: dict[str, str]
) -> None:
    path = write('{\n gateway: { auth: {\n  token: "${TOKEN}" } } }')
    told = refusal(path, environ)
    assert told.startswith(f"{path}:3: gateway.auth.token: the variable TOKEN is not set")
    assert "env.vars" in told
    assert "$${TOKEN}" in told


def test_variables_of_the_config_count_where_the_environment_has_none(write: Write) -> None:
    path = write(
        '{ env: { DIRECT: "d", vars: { A: "file", B: "file ${E}" } },'
        ' gateway: { customBindHost: "${A} ${B} ${DIRECT}" } }'
    )
    loaded = load(path, {"A": "environ", "E": "e"})
    assert loaded.config.gateway.custom_bind_host == "environ file e d"
    assert loaded.config.environment({"A": "environ"})["B"] == "file e"


def test_a_secret_may_be_a_reference_to_a_variable(write: Write) -> None:
    path = write(
        '{ gateway: { auth: { token: { source: "env", provider: "default", id: "T" } } } }'
    )
    token = load(path, {"T": "tok"}).config.gateway.auth.token
    assert token is not None
    assert token.reveal() == "tok"
    assert "gateway.auth.token: the variable T is not set" in refusal(path)


def test_a_reference_to_another_kind_of_vault_says_what_works(write: Write) -> None:
    path = write('{ models: { providers: { x: { apiKey: { source: "exec", id: "op" } } } } }')
    told = refusal(path)
    assert 'models.providers.x.apiKey: Crossclaw cannot read secrets from "exec"' in told
    assert '"${NAME}"' in told


# The whole


def test_a_grown_openclaw_file_loads_with_warnings_only() -> None:
    loaded: Loaded = load(
        BIG_FILE, {"TELEGRAM_TOKEN": "t", "GATEWAY_TOKEN": "g", "ZAI_API_KEY": "z"}
    )
    config = loaded.config
    assert config.agents.ids() == ("main", "work", "family")
    assert config.agents.default_id == "main"
    assert config.channels["telegram"]["botToken"].reveal() == "t"
    assert config.tools.agent_to_agent.allow == ("main", "work")
    assert config.models.providers["zai"].models[0].cost is not None
    assert config.session.dm_scope == "per-channel-peer"
    named = {dotted(each.path) for each in loaded.no_effect}
    assert {"plugins", "skills", "browser", "agents.defaults.memorySearch"} <= named
    assert "meta" not in named
    assert len(loaded.no_effect) == len(named)
    assert len(loaded.warnings) == len(set(loaded.warnings))


@pytest.mark.parametrize(
    "text",
    [
        '{models: {providers: {openai: "sk-hush"}}}',
        '{gateway: {auth: "sk-hush"}}',
        '{mcp: {servers: {x: "sk-hush"}}}',
    ],
)
def test_a_secret_in_place_of_its_section_is_not_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(text)
    with pytest.raises(ConfigInvalid, match="expected an object") as refused:
        load(path, {})
    assert "sk-hush" not in str(refused.value)


# Variables that are set only where the gateway runs

ELSEWHERE = """{
  gateway: { auth: { token: "t" } },
  models: { providers: { mine: { apiKey: "${MINE}", baseUrl: "http://x/v1" } } },
  mcp: { servers: { files: { command: "x", env: { KEY: { source: "env", id: "FILES" } } } } },
}"""


def token_in(loaded: Loaded) -> str:
    assert loaded.config.gateway.auth.token is not None
    return loaded.config.gateway.auth.token.reveal()


def test_whoever_only_asks_a_gateway_needs_the_variables_of_its_section_alone(write: Write) -> None:
    path = write(ELSEWHERE)

    loaded = load(path, {}, to_serve=False)
    assert loaded.lacking == ("MINE", "FILES")
    assert token_in(loaded) == "t"
    assert "the variable MINE is not set" in refusal(path)
    assert load(path, {"MINE": "a", "FILES": "b"}).lacking == ()

    own = write('{ gateway: { auth: { token: "${OWN}" } } }')
    for to_serve in (True, False):
        with pytest.raises(Unloadable, match="the variable OWN is not set") as caught:
            load(own, {}, to_serve=to_serve)
        assert caught.value.variables == ("OWN",)


def test_the_gateways_section_is_found_in_a_file_with_faults_elsewhere(write: Write) -> None:
    path = write('{ env: { P: "p" }, gateway: { auth: { token: "${P}" } }, session: { scope: 7 } }')
    assert token_in(load_gateway(path, {})) == "p"


@pytest.mark.parametrize(
    "section",
    [
        'talk: { apiKey: "${NOWHERE}" }',
        'hooks: { gmail: { topic: "${NOWHERE}" } }',
        'hooks: { enabled: false, token: "${NOWHERE}" }',
        'mcp: { servers: { a: { command: "x", disabled: true, env: { K: "${NOWHERE}" } } } }',
        'meta: { by: "${NOWHERE}" }',
        'unheardOfSection: "${NOWHERE}"',
    ],
)
def test_a_variable_in_what_has_no_effect_does_not_stop_the_start(
    write: Write, section: str
) -> None:
    assert load(write(f"{{ {section} }}"), {}).exists


def test_a_file_can_be_changed_where_a_variable_of_it_was_missing_before(write: Write) -> None:
    file = ConfigFile(write(ELSEWHERE), {})
    file.put(("agents", "list"), [{"id": "main"}])
    file.save()
    assert '"main"' in file.path.read_text("utf-8")

    file.put(("cron", "store"), "${ANOTHER}")
    file.save()  # nobody reads it
    file.put(("session", "mainKey"), "x")
    file.put(("logging", "file"), "${ANOTHER}")
    with pytest.raises(ConfigInvalid, match="ANOTHER"):
        file.save()


def test_the_old_spelling_agent_is_read_as_the_defaults_of_all(write: Write) -> None:
    path = write(
        '{\n  agent: { workspace: "~/w", model: { primary: "a/b", fallbacks: ["a/c"] },\n'
        '    modle: 1 },\n  agents: { defaults: { model: { primary: "x/y" } } },\n}'
    )
    text = refusal(path)
    assert text == f'{path}:3: agents.defaults.modle: unknown key; did you mean "model"?'

    path.write_text(path.read_text("utf-8").replace("modle: 1", ""), "utf-8")
    loaded = load(path, {})
    defaults = loaded.config.agents.defaults
    assert defaults.workspace == "~/w"
    assert defaults.model == ModelChoice("x/y", ("a/c",))
    assert "agent: the old spelling of agents.defaults, and read as that" in loaded.warnings


def test_a_lock_under_the_old_spelling_is_refused_as_under_the_new(write: Write) -> None:
    assert "write it as tools" in refusal(write("{ agent: { tools: { deny: ['exec'] } } }"))


def test_a_transform_of_a_hook_is_a_warning(write: Write) -> None:
    mapping = '{ match: { path: "x" }, transform: { module: "./x.js" } }'
    loaded = load(
        write(f'{{ hooks: {{ enabled: true, token: "{"t" * 32}", mappings: [{mapping}] }} }}'), {}
    )
    assert "hooks.mappings[0].transform: names a module of Node.js" in loaded.warnings[0]
