"""Measures the page in a real Chromium and prints what it found: `python -m tests.browser.figures`.

Weight, first paint, the map with a thousand sessions, the table with a hundred thousand. Nothing here is
asserted: a time is measured on a machine, not promised by a test.
"""

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.conftest import CHROMIUM
from tests.browser.visiting import MAIN, Place, Visitor, ask_script, furnish, open_place, route

VIEWS = (
    "sessions",
    "map",
    "attention",
    "exchanges",
    "exchange/x",
    "trace/x",
    "run/x",
    "rehearsal",
    "operations",
    "operations/figures",
    "operations/agents",
    "operations/channels",
    "operations/jobs",
    "operations/budgets",
    "operations/config",
    "operations/log",
)
NODES = 1_000
ROWS = 100_000
SECONDS = 4


def main() -> None:
    program = next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with open_place(Path(folder)) as place:
            print(
                f"first paint      {first_paint(chromium, place):7.0f} ms, median of seven visits"
            )
            print(f"weight           {weight(chromium, place) / 1000:7.1f} kB travel for all views")
            furnish(place, NODES)
            print(f"map, {NODES:,} nodes {frames(chromium, place):6.0f} frames/s, all of it moving")
            furnish(place, ROWS)
            print(f"table, {ROWS:,}  {table(chromium, place):7.0f} ms to a page in the middle")
        chromium.close()


def first_paint(chromium: Any, place: Place) -> float:
    times: list[float] = []
    for _ in range(7):
        visitor = Visitor(chromium, place)
        visitor.come_in()
        script = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
        times.append(visitor.page.evaluate(script))
        visitor.leave()
    return statistics.median(times)


def weight(chromium: Any, place: Place) -> int:
    visitor = Visitor(chromium, place)
    visitor.come_in()
    for view in VIEWS:
        visitor.go(f"#/{view}")
        visitor.page.wait_for_load_state("networkidle")
    script = (
        "() => performance.getEntriesByType('resource').concat(performance.getEntriesByType("
        "'navigation')).reduce((sum, each) => sum + each.encodedBodySize, 0)"
    )
    size: int = visitor.page.evaluate(script)
    visitor.leave()
    return size


def frames(chromium: Any, place: Place) -> float:
    visitor = Visitor(chromium, place)
    visitor.come_in()
    visitor.go(route("map"))
    text = ask_script("librarian", "And?", "wait: 60\nsay: so.", "so.")
    place.client.submit(text, MAIN, key="moving")
    visitor.see(".side .state[data-state=waiting]")
    drawn = "() => document.querySelector('cc-map').drawn"
    before = visitor.page.evaluate(drawn)
    visitor.page.wait_for_timeout(SECONDS * 1000)
    after = visitor.page.evaluate(drawn)
    place.client.call("chat.abort", {"sessionKey": "agent:librarian:main"})
    visitor.leave()
    return float(after - before) / SECONDS


def table(chromium: Any, place: Place) -> float:
    visitor = Visitor(chromium, place)
    visitor.come_in()
    visitor.go(route("sessions"))
    visitor.see(".tbody .tr .state")
    script = """async () => {
      const began = performance.now(), table = document.querySelector('.table');
      table.scrollTop = 46 * 50000;
      while (!document.querySelector(".tbody .tr[aria-rowindex='50005']:not(.blank)"))
        await new Promise(requestAnimationFrame);
      return performance.now() - began;
    }"""
    took: float = visitor.page.evaluate(script)
    visitor.leave()
    return took


if __name__ == "__main__":
    main()
