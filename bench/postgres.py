"""The whole gateway on a PostgreSQL of its own, beside the same turns on SQLite: only their ratio is meaningful."""

import anyio
from tests.cluster.server import NoServer, find_programs, serving

from bench.guests import PLAIN, Echo, keys, talk
from bench.in_process import WARM, turns
from bench.stores import Stores
from bench.work import Row, Spent, Stopwatch, Work
from crossclaw.app import GatewayInputs, open_gateway
from crossclaw.config import Config, Paths
from crossclaw.config.ledger import URL_VARIABLE

SESSIONS, TURNS, PASSES = 64, 1_280, 3


async def _talk(paths: Paths, url: str) -> Spent:
    outside = GatewayInputs(environ={URL_VARIABLE: url}, tools=(Echo(),))
    async with open_gateway(Config(), paths, outside) as gateway:
        await talk(gateway, WARM, 5, PLAIN)
        watch = Stopwatch()
        await talk(gateway, keys(SESSIONS), TURNS // SESSIONS, PLAIN, watch.piece)
        return watch.stop()


def beside_sqlite(stores: Stores) -> Spent:
    """The best of three passes of each, one after the other, so that a busy minute meets both."""
    served, filed = list[Spent](), list[Spent]()
    with serving({"fsync": "on", "full_page_writes": "on"}) as server:
        for number in range(PASSES):
            server.make_database(f"pass{number}")
            filed.append(turns(SESSIONS, TURNS, PLAIN, stores))
            url = f"{server.url}/pass{number}"
            served.append(anyio.run(_talk, stores.fresh(), url))
    best, other = (min(several, key=_wall) for several in (served, filed))
    slower = _wall(best) / _wall(other)
    return Spent({**best.figures, "slower": slower}, best.wall_ms, best.cpu_ms)


def _wall(spent: Spent) -> float:
    return spent.wall_ms or 0.0


def works() -> tuple[Work, ...]:
    """The benchmarks on PostgreSQL; none if it is not installed."""
    try:
        find_programs()
    except NoServer:
        return ()
    rows = (
        Row("in process on PostgreSQL: turns, 64 at once", "rate", "turns/s"),
        Row("in process on PostgreSQL: times what SQLite takes", "slower", "×", bar=2.5),
    )
    return (Work(beside_sqlite, None, rows),)
