"""Changes of the config file of a gateway that shares its ledger: the others have their own files, and with
another config this gateway would take no more runs."""

from collections.abc import Mapping
from typing import Any

from crossclaw.cli.exits import CommandFailed
from crossclaw.cli.grammar import Parser
from crossclaw.cli.place import StateLocation
from crossclaw.config.agreeing import differing, shared_keys
from crossclaw.config.file import ConfigFile

COUNTS = "ledger.configEpoch"  # raised in one file, it makes that file count for all
PATCH = """crossclaw gateway call config.patch --params '{raw: "{…}", baseHash: "…"}' (config.get answers the hash)"""
THIS_FILE = "change only this file, also where several gateways share a ledger and so one config"


def this_file_option(parser: Parser) -> None:
    parser.add_argument("--this-file", action="store_true", help=THIS_FILE)


def differs_for_all(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether something has changed that all gateways have in common."""
    return any(key != COUNTS for key in differing(shared_keys(before), shared_keys(after)))


def hold_to_all(
    place: StateLocation, before: Mapping[str, Any], file: ConfigFile, for_all: str
) -> None:
    """Refuses a change that would make this file differ from those of the other gateways; `for_all` is the
    command that changes all."""
    if place.config.ledger.shared and differs_for_all(before, file.value):
        raise CommandFailed(
            "several gateways share this ledger and have one config (ledger.shared): changed in "
            f"{file.path} alone, this gateway would take no more runs; nothing was changed",
            hint=f"For all of them: {for_all}, or the page (Operations).\n"
            f"Only in this file, as when each is changed by hand: --this-file (then raise {COUNTS}; docs/cluster.md).",
        )
