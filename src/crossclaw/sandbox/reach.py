"""Reach: refuses what the gateway relies on if it is where an agent can write.

The config is applied as soon as it changes: whoever writes it decides who is sandboxed. A workspace
inside another one can be swapped by whoever works in the outer one, with every file in which the
owner instructs the agent.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from crossclaw.domain.errors import ConfigInvalid

LINKS_MAX = 40  # as many as Linux follows itself


def refuse_config_within(files: Iterable[Path], writable: Mapping[str, Path]) -> None:
    """Raises if a config file is in a folder in which agents can write. `writable` are these, by
    name."""
    resolved = {name: (root, root.resolve()) for name, root in writable.items()}
    for file in files:
        for folder in folders_on_the_way(file):
            for name, (root, real_root) in resolved.items():
                if folder.is_relative_to(real_root):
                    raise ConfigInvalid(
                        f"{file}, which only the gateway may change, lies in {name} ({root}), where agents can write: they "
                        "could let themselves out of the sandbox. Move it out of there (the config "
                        "by OPENCLAW_CONFIG_PATH, an included file by its $include, a key by ledger.keyFile), or choose "
                        "another workspace"
                    )


def refuse_nested(workspaces: Mapping[str, Path], boxed: Mapping[str, Path]) -> None:
    """Raises if a workspace is inside a folder in which sandboxed sessions can write. `boxed` are
    these, by name."""
    for agent_id, workspace in workspaces.items():
        for name, outer in boxed.items():
            root = outer.resolve()
            if any(folder.is_relative_to(root) for folder in folders_on_the_way(workspace)):
                raise ConfigInvalid(
                    f"the workspace {workspace} of agent {agent_id} lies inside {name} ({outer}), where "
                    "a sandboxed session could put another folder in its place; choose a workspace "
                    "beside it, or the same one for both"
                )


def folders_on_the_way(path: Path) -> Iterator[Path]:
    """Each folder in which a name is looked up until the path is found, those of links included:
    whoever can write one of them decides where the path leads."""
    folder, steps, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    while steps:
        step = steps.pop()
        if step in (".", ".."):
            folder = folder.parent if step == ".." else folder
            continue
        yield folder
        target = _link(folder / step)
        if target is None:
            folder = folder / step
            continue
        links += 1
        if links > LINKS_MAX:
            return  # nobody can open it either
        if target.is_absolute():
            folder, target = Path("/"), target.relative_to("/")
        steps += reversed(target.parts)


def _link(path: Path) -> Path | None:
    try:
        return Path(os.readlink(path))
    except OSError:
        return None
