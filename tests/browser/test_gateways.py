"""Gateways that share a ledger, on the page: each with its state, and the way to let one leave. Needs PostgreSQL's programs."""

import json
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import Place, route, serve_place
from tests.cluster.server import NoServer, find_programs, serving
from tests.process.program import Folder
from tests.wire.served_gateway import TOKEN

pytestmark = pytest.mark.spec("N1", "B6")
LIST = "section[aria-label='Gateways on this ledger']"


def has_server() -> bool:
    try:
        find_programs()
    except NoServer:
        return False
    return True


needs_server = pytest.mark.skipif(not has_server(), reason="PostgreSQL's programs are not here")


def gateway(path: Path, url: str, name: str, **more: object) -> Folder:
    path.mkdir()
    config = json.dumps({"ledger": {"shared": True, "gateway": name}, **more})
    environ = {"CROSSCLAW_LEDGER_URL": url, "OPENCLAW_GATEWAY_TOKEN": TOKEN}
    folder = Folder(path, config, **environ)
    folder.token_file.parent.mkdir(mode=0o700)
    folder.token_file.write_text(TOKEN)
    return folder


@pytest.fixture
def places(tmp_path: Path) -> Generator[list[Place]]:
    """Two that agree, and one whose file differs."""
    with ExitStack() as stack:
        server = stack.enter_context(serving())
        server.make_database("page")
        url = f"{server.url}/page"
        folders = [gateway(tmp_path / name, url, name) for name in "ab"]
        folders.append(gateway(tmp_path / "c", url, "c", session={"idleMinutes": 7}))
        yield [stack.enter_context(serve_place(folder)) for folder in folders]


@needs_server
def test_gateways_are_shown_with_their_state_and_one_is_drained_after_a_second_press(
    places: list[Place], visit: Visit
) -> None:
    visitor = visit(route("operations"), place=places[0])
    visitor.see("[role=tab]", has_text="Gateways")
    visitor.go(route("operations", "gateways"))
    row = "[data-gateway={}]".format
    visitor.see(f"{LIST} {row('a')}", has_text="(this one)")
    visitor.see(f"{LIST} {row('a')} .state", has_text="live")
    visitor.see(f"{LIST} {row('a')}", has_text="cron")
    visitor.see(f"{LIST} {row('b')}", has_text="0 runs under way")
    assert f":{places[1].program.port}" in visitor.find(f"{LIST} {row('b')}").inner_text()

    visitor.page.click("text=Drain >> nth=1")
    visitor.see(f"{LIST} {row('b')}", has_text="Press again to drain it")
    visitor.page.click("text=Drain, really")
    visitor.see("#toasts", has_text="b begins nothing more")
    visitor.find(f"{LIST} {row('b')}").wait_for(state="detached")


@needs_server
def test_the_gateway_whose_config_differs_names_the_setting(
    places: list[Place], visit: Visit
) -> None:
    visitor = visit(route("operations", "gateways"), place=places[2])
    visitor.see(f"{LIST} [data-gateway=c] .state", has_text="takes no runs")
    visitor.see(f"{LIST} [data-gateway=c]", has_text="session.idleMinutes")


def test_a_gateway_that_has_its_ledger_for_itself_has_no_such_tab(visit: Visit) -> None:
    visitor = visit(route("operations"))
    visitor.see("section[aria-label=Gateway] .state", has_text="ok")
    visitor.page.wait_for_function("() => document.querySelector('cc-operations').shared === false")
    assert "Gateways" not in visitor.find("[role=tab]:visible").all_inner_texts()
