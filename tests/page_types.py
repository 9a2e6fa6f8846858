"""The types of the page's JavaScript are those of the wire: a misspelt field is found, and what the gateway really answers
is of its declared type. Run by `make check-web`, which brings tsc."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from dev.check_web import PAGE, ROOT, TESTS, check_types, scripts

from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import call, say, two_agents

Output = pytest.CaptureFixture[str]

READ: list[tuple[str, dict[str, Any]]] = [
    ("agents.files.list", {"agentId": "main"}),
    ("agents.list", {}),
    ("attention.list", {}),
    ("channels.status", {}),
    ("chat.pairing.list", {}),
    ("commands.list", {"scope": "text"}),
    ("config.get", {}),
    ("cron.list", {"includeDisabled": True, "includeMakers": True}),
    ("cron.runs", {"id": "{job}", "includeStanding": True}),
    ("exchanges.list", {}),
    ("exchanges.trace", {"id": "{exchange}"}),
    ("exec.approval.list", {}),
    ("figures.get", {}),
    ("gateways.list", {}),
    ("health", {}),
    ("map.get", {}),
    ("models.list", {}),
    ("rehearsals.list", {}),
    ("runs.trace", {"runId": "first"}),
    ("sessions.describe", {"key": "agent:main:main"}),
    ("sessions.entries", {"key": "agent:main:main", "exchanges": True}),
    ("sessions.list", {}),
    ("sessions.preview", {"keys": ["agent:main:main"]}),
    ("sessions.table", {}),
    ("status", {}),
    ("system-presence", {}),
    ("trace.get", {"id": "first"}),
]
"""What the page reads of a gateway where one agent has asked another, a run has failed and a job is set."""

MISSPELT = [
    ("attention.js", "row.helps", "row.help"),
    ("beside.js", "row.standing", "row.standng"),
    ("channels.js", "lastInboundAt", "lastInbound"),
    ("chat.js", "detail.reason)", "detail.cause)"),
    ("chat.js", "detail.message.role", "detail.message.roll"),
    ("chat.js", '"runs.retry"', '"run.retry"'),
    ("exchange.js", "trace.turnsMax", "trace.maxTurns"),
    ("operations.js", 'wire, "presence"', 'wire, "presense"'),
    ("sessions.js", "this.asked.agentId", "this.asked.agent"),
    ("trace.js", "tree.failed", "tree.failures"),
]
"""In which file what is written wrongly: fields of answers, of what stands inside them, of events and of parameters, a
method and an event."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what tsc looks at."""
    for name in ("src/crossclaw/web", "dev/web"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def test_no_script_is_left_out(capfd: Output) -> None:
    for project in (PAGE, TESTS):
        assert check_types(ROOT, project, "--listFilesOnly") == 0
    seen = {Path(line) for line in capfd.readouterr().out.splitlines()}

    assert scripts()
    assert set(scripts()) <= seen


def test_misspelt_words_of_the_wire_are_found(tree: Path, capfd: Output) -> None:
    for file, right, wrong in MISSPELT:
        path = tree / "src" / "crossclaw" / "web" / file
        text = path.read_text("utf-8")
        assert right in text, (file, right)
        path.write_text(text.replace(right, wrong), "utf-8")

    assert check_types(tree) != 0
    found = re.split(r"\n(?=\S)", capfd.readouterr().out)  # an error may have more lines
    for file, _right, wrong in MISSPELT:
        word = re.findall(r"\w+", wrong)[-1]
        assert any(f"web/{file}(" in each and word in each for each in found), (file, wrong)


async def test_what_the_gateway_answers_is_of_its_declared_type(
    tree: Path, tmp_path: Path, capfd: Output
) -> None:
    lines = [
        "declare function holds<M extends Api.Method, T extends Api.Answer<M>>(method: M, answer: T): void;"
    ]
    async with open_gateway(
        tmp_path / "state", RehearsalProvider(), config=two_agents()
    ) as gateway:
        await say(gateway, "agent:main:main", "ask: librarian Which atlas do we have?", "first")
        await say(gateway, "agent:main:main", "fail: no power", "second")
        schedule = {"kind": "cron", "expr": "0 7 * * *"}
        payload = {"kind": "agentTurn", "message": "say: news"}
        job = await call(gateway, "cron.add", name="news", schedule=schedule, payload=payload)
        exchanges = (await call(gateway, "exchanges.list"))["exchanges"]
        named = {"{job}": job["id"], "{exchange}": exchanges[0]["id"]}
        for method, params in READ:
            asked = {key: named.get(str(value), value) for key, value in params.items()}
            answer = await call(gateway, method, **asked)
            lines.append(f"holds({json.dumps(method)}, {json.dumps(answer)});")
    (tree / "dev" / "web" / "answers.ts").write_text("\n".join(lines), "utf-8")
    config = tree / "dev" / "web" / "tsconfig.json"
    config.write_text(
        config.read_text("utf-8").replace('"*-types.d.ts"', '"*-types.d.ts", "answers.ts"'), "utf-8"
    )

    assert check_types(tree) == 0, capfd.readouterr().out
