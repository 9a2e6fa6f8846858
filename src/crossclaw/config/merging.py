"""Merging: what a text that a client sent means for the config file, place by place.

A client was shown the config without its secrets. What it sends back unchanged stays as the file has it, and
`(hidden)` is never written.
"""

from collections.abc import Iterator
from typing import Any

from crossclaw.config.amending import twin
from crossclaw.config.hiding import HIDDEN
from crossclaw.config.source import child_of, dotted
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import Invalid


def kept(sent: Any, shown: Any, written: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """What came back as it was shown, and is written otherwise: secrets, variables. That stays."""
    if isinstance(sent, dict):
        for name, child in sent.items():
            yield from kept(child, child_of(shown, name), child_of(written, name), (*path, name))
    elif isinstance(sent, list):
        for index, child in enumerate(sent):
            was = twin(shown, sent, index) if isinstance(shown, list) else None
            before = (None, None) if was is None else (child_of(shown, was), child_of(written, was))
            yield from kept(child, before[0], before[1], (*path, index))
    elif written is not None and sent == shown and sent != written:
        yield path, written
    elif sent == HIDDEN and written is None:
        raise Invalid(
            f"{dotted(path)}: {HIDDEN} stands for a secret, and it is not clear which; write it itself"
        )


def merged(
    changes: dict[str, Any], before: Any, replaced: frozenset[str], path: KeyPath = ()
) -> Iterator[tuple[KeyPath, Any]]:
    """Each place that changes with its new value; None: nothing is to be there."""
    for name, value in changes.items():
        here, old = (*path, name), child_of(before, name)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from merged(value, old, replaced, here)
        elif _by_id(value) and _by_id(old) and dotted(here) not in replaced:
            yield here, _joined(old, value)
        else:
            _refuse_hidden(value, here)
            yield here, _without_null(value)


def _joined(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Things with an id are changed by their id; those that are not named stay."""
    changed = {each["id"]: dict(each) for each in old}
    for each in new:
        mine = changed.setdefault(each["id"], {})
        for path, value in merged(each, mine, frozenset()):
            _put(mine, path, value)
    return list(changed.values())


def _put(target: dict[str, Any], path: KeyPath, value: Any) -> None:
    for step in path[:-1]:
        target = target[step]  # type: ignore[index]
    if value is None:
        target.pop(str(path[-1]), None)
    else:
        target[str(path[-1])] = value


def _by_id(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(e, dict) and e.get("id") for e in value)


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(child) for name, child in value.items() if child is not None}
    return value


def _refuse_hidden(value: Any, path: KeyPath) -> None:
    for place, found in _leaves(value, path):
        if found == HIDDEN:
            raise Invalid(f"{dotted(place)}: {HIDDEN} is not a value; leave the key out to keep it")


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else None
    )
    if steps is None:
        yield path, value
        return
    for step, child in steps:
        yield from _leaves(child, (*path, step))
