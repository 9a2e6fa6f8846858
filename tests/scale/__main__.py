"""`make scale`: prints what the simulation found (docs/scaling.md has its last figures)."""

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

import anyio
import msgspec

from crossclaw.testing import VirtualLoop
from tests.scale.simulation import Found, Phase, Simulation, Sizes


def main() -> int:
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    defaults = Sizes()
    for name in Sizes.__struct_fields__:
        value = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    sizes = Sizes(**vars(parser.parse_args()))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crossclaw-scale-") as folder:
        options = {"loop_factory": VirtualLoop}
        found = anyio.run(Simulation(sizes, Path(folder)).run, backend_options=options)
    _show(sizes, found, time.monotonic() - began)
    return 0 if found.ended == found.accepted and found.begun_twice <= found.left_by_dead else 1


def _show(sizes: Sizes, found: Found, took_s: float) -> None:
    print(msgspec.json.encode(sizes).decode(), f"simulated in {took_s:.0f} s\n")
    for phase in (found.start, found.steady, found.deaths):
        _show_phase(phase)
    print(
        f"{found.accepted:,} runs accepted, {found.ended:,} ended; {found.left_by_dead:,} were under way on gateways that "
        f"died, {found.begun_twice:,} were begun twice"
    )


def _show_phase(phase: Phase) -> None:
    spread = phase.spread
    print(f"{phase.name}: {phase.seconds:.2f} s, {phase.claims:,} runs begun")
    print(
        f"  on each gateway {spread[0]:,} to {spread[-1]:,}, half of them up to {spread[len(spread) // 2]:,}"
    )
    each = ", ".join(f"{name} {count:,.0f}" for name, count in sorted(phase.statements_s.items()))
    print(
        f"  statements a second: {phase.all_statements_s:,.0f} ({each}); {phase.cores_busy:.1f} cores busy\n"
    )


if __name__ == "__main__":
    sys.exit(main())
