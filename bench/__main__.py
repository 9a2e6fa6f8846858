"""make bench: measure, print beside the recorded run. A missed bar is shown and nothing more."""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import (
    busy,
    calls,
    channels,
    cost,
    gateway,
    importing,
    in_process,
    ledger,
    postgres,
    reads,
    record,
    start,
    table,
)
from bench.stores import Stores
from bench.work import Result, Work, measure


def works(stores: Stores) -> tuple[Work, ...]:
    """Everything there is to measure, subject by subject."""
    return (
        *ledger.WORKS,
        *importing.WORKS,
        *reads.works(stores.many),
        *in_process.WORKS,
        *postgres.works(),
        *calls.WORKS,
        *channels.WORKS,
        *cost.WORKS,
        *gateway.WORKS,
        *busy.WORKS,
        *start.WORKS,
    )


def main() -> None:
    options = parse_options()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="crossclaw-bench-") as folder:
        stores = Stores(Path(folder), quick=options.quick)
        results = run(chosen(works(stores), options.only), stores)
        took_s = time.perf_counter() - began
        print(f"\n{table.LEGEND}\n{took_s:.0f} s, {stores.building_s:.0f} of them to fill stores")
    if options.record:
        record.write(results, whole=not (options.only or options.quick))
        print(f"recorded in bench/{record.PATH.name}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="rows whose name contains this")
    parser.add_argument("--quick", action="store_true", help="100,000 sessions, not 1,000,000")
    parser.add_argument("--record", action="store_true", help="what later runs are compared with")
    return parser.parse_args()


def chosen(all_works: Sequence[Work], name: str | None) -> list[Work]:
    return [work for work in all_works if any((name or "") in row.name for row in work.rows)]


def run(chosen_works: Sequence[Work], stores: Stores) -> list[Result]:
    last = record.read().rows
    results: list[Result] = []
    print(table.title())
    for work in chosen_works:
        for result in measure(work, stores):
            print(table.line(result, last.get(result.row.name)), flush=True)
            results.append(result)
    return results


if __name__ == "__main__":
    main()
