"""The files in deploy/, as far as they can be looked at without a cluster: what they name exists and is understood."""

import re
import shlex
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from crossclaw.app.leaving import DRAIN_S
from crossclaw.cli.commands import Chosen, choose
from crossclaw.cli.main import _parser
from crossclaw.config import load
from crossclaw.gateway.http import health

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE, SERVICE, KUBERNETES = (
    (DEPLOY / name).read_text("utf-8")
    for name in ("compose.yaml", "crossclaw.service", "kubernetes.yaml")
)
CONFIG = DEPLOY / "openclaw.json"
OWN = re.compile(r"\b(?:OPENCLAW|CROSSCLAW)_[A-Z_]+\b")


PIN = re.compile(r"^([a-z0-9][\w.-]*)==", re.MULTILINE)


def used() -> set[str]:
    return set(OWN.findall(COMPOSE + SERVICE + KUBERNETES + CONFIG.read_text("utf-8")))


def test_every_variable_is_one_that_the_program_or_the_config_reads() -> None:
    source = "".join(each.read_text("utf-8") for each in (ROOT / "src").rglob("*.py"))
    in_config = set(re.findall(r"\$\{([A-Z_]+)\}", CONFIG.read_text("utf-8")))

    assert {"CROSSCLAW_LEDGER_URL", "OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_CONFIG_PATH"} <= used()
    assert sorted(name for name in used() if f'"{name}"' not in source) == sorted(
        in_config - {"OPENCLAW_GATEWAY_TOKEN"}
    )


def test_each_file_gives_every_variable_that_the_config_asks_for() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+)\}", CONFIG.read_text("utf-8")))

    for text in (COMPOSE, SERVICE, KUBERNETES):
        assert asked <= set(OWN.findall(text))


def test_the_config_is_read_without_a_warning() -> None:
    given = {"OPENCLAW_GATEWAY_TOKEN": "t" * 32, "CROSSCLAW_ADDRESS": "http://a:18789"}
    loaded = load(CONFIG, given)

    assert not loaded.all_warnings
    assert (loaded.config.ledger.shared, loaded.config.ledger.address) == (True, "http://a:18789")


def test_the_service_starts_a_command_that_there_is_and_waits_until_it_has_drained() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", SERVICE, re.MULTILINE)
    chosen = choose(shlex.split(line)[1:])

    assert isinstance(chosen, Chosen)
    command = import_module(f"crossclaw.cli.{chosen.leaf.module}").COMMANDS[chosen.words[-1]]
    _parser(chosen, command).read(chosen.rest)
    for text, pattern in (
        (SERVICE, r"TimeoutStopSec=(\d+)"),
        (COMPOSE, r"stop_grace_period: (\d+)s"),
        (KUBERNETES, r"terminationGracePeriodSeconds: (\d+)"),
    ):
        assert float(re.findall(pattern, text)[0]) > DRAIN_S


def test_the_probes_ask_where_the_gateway_answers() -> None:
    paths = re.findall(r"path: (/health/\w+)", KUBERNETES)

    assert sorted(paths) == ["/health/live", "/health/ready"]
    source = Path(health.__file__).read_text("utf-8")
    assert all(path in source for path in paths)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_understands_the_service(tmp_path: Path) -> None:
    """With another program in its place: ours is not at that path here."""
    unit = tmp_path / "crossclaw.service"
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", SERVICE))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )

    told = [line for line in done.stderr.splitlines() if "crossclaw.service" in line]
    assert (done.returncode, told) == (0, [])


def test_what_is_no_program_of_ours_is_read_by_a_reader_of_yaml() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    kinds = [each["kind"] for each in yaml.safe_load_all(KUBERNETES)]

    assert set(services) == {"db", "a", "b"}
    assert (
        services["a"]["environment"] | {"CROSSCLAW_ADDRESS": "http://b:18789"}
        == (services["b"]["environment"])
    )
    assert kinds == ["Service", "Service", "StatefulSet"]


def test_the_image_of_the_two_files_for_containers_has_the_driver_of_their_database() -> None:
    """What it installs is locked; beside it is only the program itself, without what that asks for."""
    image = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text("utf-8"))
    locks = re.findall(r"-r (\S+)", image)
    installed = {name for lock in locks for name in PIN.findall((ROOT / lock).read_text("utf-8"))}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.split(r"[\[>]", each)[0] for each in project["optional-dependencies"]["postgres"]}

    assert "CROSSCLAW_LEDGER_URL" in COMPOSE
    assert "CROSSCLAW_LEDGER_URL" in KUBERNETES
    assert needed | {"psycopg-binary"} <= installed
