"""`onboard`: from nothing to an agent that answers, at a terminal and by a script."""

import json
import stat
from collections.abc import Callable, Generator
from typing import NamedTuple

import pyjson5
import pytest

from crossclaw.cli.exits import Exit
from crossclaw.cli.main import main
from crossclaw.cli.offers import custom, find_local
from crossclaw.display.languages import speak
from crossclaw.testing.fake_models import FakeModelServer, Refuse
from tests.cli.person import Person, free_port
from tests.cli.terminal import at_a_terminal

pytestmark = pytest.mark.spec("C2")


@pytest.fixture
def models() -> Generator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def nothing_local() -> dict[str, str]:
    """Ports where nobody listens, whatever runs on this machine."""
    return {"OLLAMA_HOST": f"127.0.0.1:{free_port()}", "LLAMA_ARG_PORT": str(free_port())}


@pytest.fixture
def types(
    person: Person, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Generator[Callable[..., Done]]:
    """The command in this process, which is ten times as fast; nobody is at its terminal."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)

    def work(*words: str, **environ: str) -> Done:
        for name, value in (person.environ | environ).items():
            monkeypatch.setenv(name, value)
        code = main(list(words))
        return Done(code, *capsys.readouterr())

    yield work
    speak("en")


def written(person: Person) -> dict[str, object]:
    value: dict[str, object] = pyjson5.decode(person.config_path.read_text("utf-8"))
    return value


def test_somebody_who_reads_spanish_gets_two_agents_on_a_local_model(
    person: Person, models: FakeModelServer
) -> None:
    ollama = {"OLLAMA_HOST": models.url.removeprefix("http://"), "LC_ALL": "es_ES.UTF-8"}
    nobody = {"LLAMA_ARG_PORT": str(free_port())}
    with at_a_terminal(person, "onboard", columns=100, **ollama, **nobody) as terminal:
        terminal.waits_for("Número [2]:")
        terminal.types("\r")
        terminal.waits_for("Modelo [qwen3:8b]:")
        terminal.types("\r")
        terminal.waits_for("¿Cómo se llama tu agente?")
        terminal.types("Ana\r")
        terminal.waits_for("¿Para qué sirve?…")
        terminal.types("Lleva mi agenda\r")
        terminal.waits_for("Nombre de un segundo agente…")
        terminal.types("Bibliotecario\r")
        terminal.waits_for("¿Para qué sirve? Una línea, que leerán los demás agentes:")
        terminal.types("Conoce los libros\r")
        terminal.waits_for("Número [1]:")
        terminal.types("\r")
        terminal.waits_for("¿Instalar el gateway como un servicio tuyo?…")
        terminal.types("n\r")
        ended = terminal.waits_for_the_end()

    assert ended == Exit.OK
    assert "  2  Ollama en esta máquina: qwen3:8b, gemma3:4b, llama3.2" in terminal.lines
    assert "ollama/qwen3:8b dice: Hello from the fake model." in terminal.lines
    assert any(line.endswith("tokens leídos, 5 escritos; gratis") for line in terminal.lines)
    assert "  2  Telegram" in terminal.lines
    assert "  crossclaw run" in terminal.lines
    agents = written(person)["agents"]
    assert isinstance(agents, dict)
    assert agents["list"][0] == {
        "id": "main", "default": True, "name": "Ana", "description": "Lleva mi agenda",
    }  # fmt: skip
    assert agents["list"][1]["id"] == "bibliotecario"
    assert agents["defaults"] == {"model": "ollama/qwen3:8b"}


def test_a_refused_key_is_told_and_asked_for_again_and_a_good_one_goes_to_the_credentials(
    person: Person, models: FakeModelServer
) -> None:
    models.queue(Refuse("unauthorized"))
    environ = nothing_local() | {"ANTHROPIC_BASE_URL": models.url}
    with at_a_terminal(person, "onboard", columns=100, **environ) as terminal:
        for key in ("sk-wrong", "sk-right"):
            terminal.waits_for("Number [1]:")
            terminal.types("2\r")
            terminal.waits_for("Key of Anthropic (it is not shown):")
            terminal.types(f"{key}\r")
            terminal.waits_for("Model [claude-opus-5-5]:")
            terminal.types("\r")
            if key == "sk-wrong":
                terminal.waits_for("Keep it all the same? [y/N]")
                terminal.types("\r")
                terminal._screen.reset()
        terminal.waits_for("What is your agent called?")
        terminal.types("\x04")
        ended = terminal.waits_for_the_end()

    assert ended == Exit.FAILED
    assert "crossclaw: No answer; what was not confirmed was not changed." in terminal.lines
    assert "sk-right" not in "\n".join(terminal.lines)
    kept = person.state / "credentials" / "auth-profiles.json"
    assert json.loads(kept.read_text())["profiles"]["anthropic:default"]["key"] == "sk-right"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "sk-" not in person.config_path.read_text("utf-8")
    assert models.requests[-1].headers["x-api-key"] == "sk-right"
    agents = written(person)["agents"]
    assert isinstance(agents, dict)
    assert agents["defaults"]["model"] == "anthropic/claude-opus-5-5"


def test_a_script_with_openclaw_s_flags_sets_all_up_and_a_second_run_changes_nothing(
    person: Person, models: FakeModelServer, types: Callable[..., Done]
) -> None:
    flags = (
        *("onboard", "--non-interactive", "--mode", "local", "--auth-choice", "custom-api-key"),
        *("--custom-base-url", models.openai_url, "--custom-model-id", "gpt-4o"),
        *("--custom-provider-id", "mine", "--custom-api-key", "sk-custom"),
        *("--agent-name", "Ada", "--agent-description", "counts", "--gateway-port", "18999"),
        *("--skip-skills", "--skip-channels", "--accept-risk", "--json"),
    )
    first = types(*flags)
    config = person.config_path.read_text("utf-8")
    key = types("onboard", "--non-interactive", "--json")
    again = types(*flags)

    told = json.loads(first.stdout)
    assert (told["model"], told["agents"]) == ("mine/gpt-4o", ["main"])
    assert told["test"]["ok"] is True
    assert told["test"]["text"] == "Hello from the fake model."
    value = written(person)
    assert value["models"] == {
        "providers": {"mine": {"baseUrl": models.openai_url, "api": "openai-completions"}}
    }
    assert value["gateway"] == {"port": 18999}
    assert "sk-custom" not in config
    assert "changed" not in json.loads(key.stdout)
    kept = person.state / "credentials" / "auth-profiles.json"
    assert "sk-custom" in kept.read_text()
    assert str(person.config_path) not in json.loads(again.stdout)["changed"]
    assert person.config_path.read_text("utf-8") == config


def test_a_model_that_does_not_answer_changes_nothing_unless_the_test_is_left_out(
    person: Person, models: FakeModelServer, types: Callable[..., Done]
) -> None:
    models.queue(Refuse("unauthorized"))
    flags = ("onboard", "--non-interactive", "--openai-api-key", "sk-no")
    environ = {"OPENAI_BASE_URL": models.openai_url}

    refused = types(*flags, **environ)
    there = person.config_path.exists()
    untried = types(*flags, "--skip-health", **environ)

    assert refused.returncode == Exit.FAILED
    assert "openai/gpt-6-astra does not answer:" in refused.stderr
    assert "sk-no" not in refused.stderr
    assert not there
    assert untried.returncode == Exit.OK
    assert "gpt-6-astra" in person.config_path.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--auth-choice", "telepathy"], "--auth-choice telepathy is not known here"),
        (["--auth-choice", "custom-api-key"], "--custom-base-url is missing"),
        (["--anthropic-api-key", "a", "--openai-api-key", "b"], "--auth-choice says which"),
        (["--auth-choice", "apiKey", "--secret-input-mode", "ref"], "needs ANTHROPIC_API_KEY"),
        (["--auth-choice", "llamacpp"], "No llamacpp was found on this machine."),
        (["--model", "gpt-4o"], "--auth-choice says it"),
        (["--mode", "remote"], "crossclaw config set gateway.mode remote"),
    ],
)
def test_what_the_options_leave_open_is_said(
    types: Callable[..., Done], words: list[str], told: str
) -> None:
    done = types("onboard", "--non-interactive", *words, **nothing_local())

    assert done.returncode in (Exit.USAGE, Exit.FAILED)
    assert told in done.stderr


def test_without_a_terminal_nobody_is_asked(person: Person, types: Callable[..., Done]) -> None:
    done = types("onboard", LANG="it_IT.UTF-8")

    assert done.returncode == Exit.USAGE
    assert "non c'è nessuno a un terminale a cui chiedere" in done.stderr
    assert not person.config_path.exists()


def test_servers_of_this_machine_are_found_where_their_own_variables_say(
    models: FakeModelServer,
) -> None:
    port = models.url.rpartition(":")[2]
    ollama, llama = find_local({"OLLAMA_HOST": f"0.0.0.0:{port}", "LLAMA_ARG_PORT": port})

    assert (ollama.provider, ollama.base_url) == ("ollama", models.url)
    assert "llama3.2" in ollama.models
    assert (llama.provider, llama.base_url) == ("llamacpp", models.openai_url)
    assert find_local(nothing_local()) == []


def test_a_service_by_its_address_is_named_after_its_host() -> None:
    assert custom("https://llm.example.com/v1/").provider == "llm-example-com"
    assert custom("http://u:secret@127.0.0.1:1234/v1").provider == "127-0-0-1-1234"


def test_a_key_does_not_follow_to_another_address(
    person: Person, types: Callable[..., Done]
) -> None:
    flags = ("onboard", "--non-interactive", "--skip-health", "--custom-provider-id", "mine")
    here, there = ("--custom-base-url", "http://127.0.0.1:1/v1"), ("http://127.0.0.1:2/v1",)
    types(*flags, *here, "--model", "m", "--custom-api-key", "sk-here")
    kept = person.state / "credentials" / "auth-profiles.json"
    again = types(*flags, *here, "--model", "n")
    same = kept.read_text()
    moved = types(*flags, here[0], *there, "--model", "m")

    assert (again.returncode, moved.returncode) == (Exit.OK, Exit.OK), moved.stderr
    assert "sk-here" in same
    assert "sk-here" not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_where_nobody_is_asked_the_way_for_scripts_is_said_in_the_persons_language(
    person: Person,
) -> None:
    done = person.types("onboard", LANG="es_ES.UTF-8")

    assert done.returncode == Exit.USAGE
    assert "no hay nadie en una terminal" in done.stderr
    assert "para scripts: crossclaw onboard --non-interactive" in done.stderr
