"""The metrics page and the Grafana dashboard name what /metrics really has, and all of it."""

import json
import re
from pathlib import Path
from typing import Any

from crossclaw.gateway.http.metrics import EventCounter, _exposition, _samples
from crossclaw.gateway.watchdog import Watchdog
from crossclaw.runs.feed import Feed

DOCS = Path(__file__).parents[2] / "docs"
HEALTH = {
    "sessions": {"count": 3},
    "disk": {"ledgerBytes": 4096, "walBytes": 12, "freeBytes": 10**9},
}


def exposed() -> dict[str, set[str]]:
    """Every metric with the names of its labels, as a scraper sees them."""
    counter = EventCounter(Feed(), lambda: 1, lambda: 2, Watchdog(), lambda: {"entries": 1})
    counter.ended["chat", "ok", "ok"] = counter.tools["ok"] = counter.seconds["chat"] = 1
    counter.watchdog.stalls["busy"] = 1
    body, _ = _exposition(_samples(counter, HEALTH, [], []))
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*?)\})? ", body.decode(), re.M):
        if not name.endswith("_created"):
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def test_the_dashboard_asks_only_for_metrics_and_labels_that_exist() -> None:
    there = exposed()
    panels: list[dict[str, Any]] = json.loads((DOCS / "grafana.json").read_text("utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]

    assert len(asked) >= len(panels)
    for expression in asked:
        names = re.findall(r"\b(?:crossclaw|process|python)_[a-z_]+", expression)
        assert names
        assert [name for name in names if name not in there] == []
        labels = set(re.findall(r"by \((\w+)\)", expression))
        labels |= set(re.findall(r"\{(\w+)!?=", expression))
        assert all(labels <= there[name] for name in names), expression
    for panel in panels:
        for target in panel["targets"]:
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            named = set(re.findall(r"by \((\w+)\)", target["expr"]))
            assert legend <= (named or {"part"})


def test_the_page_names_every_metric_of_ours() -> None:
    page = (DOCS / "operations.md").read_text("utf-8")
    rows = re.findall(r"^\| (`crossclaw_.+?) \| (.*?) \|", page, re.M)
    told = {name for names, _ in rows for name in re.findall(r"crossclaw_\w+", names)}

    assert told == {name for name in exposed() if name.startswith("crossclaw_")}
