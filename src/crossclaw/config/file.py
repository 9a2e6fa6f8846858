"""The config file, to be changed: read, edited as text, checked, then replaced in one step.

A change that cannot be made in the text (it stands in an included file) is refused, with the lines to write by
hand.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crossclaw.config.load import Loaded, Unloadable, load
from crossclaw.config.model import Config
from crossclaw.config.positions import spans_of
from crossclaw.config.remote import local_in_channels, local_only, stale_secrets
from crossclaw.config.source import INCLUDE, Source, dotted, parse, read_text, with_new_names
from crossclaw.config.textedit import insert_last, remove_member, replace_value, written
from crossclaw.disk.private import draft_of, make_folder, put_in_place
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import ConfigInvalid

EMPTY = "{\n}\n"
SECRET_ELSEWHERE = "it stands in an included file and would be sent to another address; change that address in the file itself"


class NotChanged(Unloadable):
    """The file was not changed; the text says why and what would work."""


class ConfigFile:
    """The config file and its pending changes.

    With `from_wire` it is changed from a distance: what is local stays as it is, and a secret does not follow
    to another address. `agree` is called with the new config before it is written: if it raises, the file stays
    as it was.
    """

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        *,
        from_wire: bool = False,
        agree: Callable[[Loaded], object] | None = None,
    ) -> None:
        self._from_wire, self._agree = from_wire, agree
        self.dropped: tuple[str, ...] = ()
        """Secrets that were taken out, because the address beside them is another one now."""
        self.path = path.resolve()  # a link stays a link; what it points to is written
        self._environ = environ
        self.text = read_text(self.path) if self.path.exists() else EMPTY
        self.value = parse(self.text, self.path)
        if not isinstance(self.value, dict):
            raise ConfigInvalid(f"{self.path} must hold one object: {{ … }}")
        self._before = self.value

    def begin_with(self, text: str) -> None:
        """Sets the whole text, for a file that does not exist yet."""
        self.text = text

    def has(self, path: KeyPath) -> bool:
        return path in spans_of(self.text)

    def put(self, path: KeyPath, value: Any) -> None:
        """Sets the value at `path`, whether or not there is one; missing objects on the way are made."""
        spans = spans_of(self.text)
        if path in spans:
            self._edit(path, value, replace_value(self.text, path, value))
            return
        depth = max(n for n in range(len(path)) if path[:n] in spans)
        self._refuse_no_object(path, path[:depth], value)
        for step in reversed(path[depth + 1 :]):
            value = {str(step): value}
        whole = insert_last(self.text, path[:depth], value, key=str(path[depth]))
        self._edit(path, value, whole)

    def remove(self, path: KeyPath) -> None:
        """Removes what is at `path`, if anything. A key may have been written twice."""
        while path in spans_of(self.text):
            self._edit(path, None, remove_member(self.text, path))
            if isinstance(path[-1], int):
                return  # the next item has come to its place

    def replace(self, text: str) -> None:
        """Replaces the whole text."""
        self.value, self.text = parse(text, self.path), text

    def insert(self, path: KeyPath, item: Any) -> None:
        """Appends an item to the list at `path`."""
        self._edit(path, item, insert_last(self.text, path, item))

    def _edit(self, path: KeyPath, value: Any, text: str) -> None:
        try:
            self.value, self.text = parse(text, self.path), text
        except ConfigInvalid as error:
            raise self._by_hand(path, value, str(error)) from None

    def _refuse_no_object(self, path: KeyPath, container: KeyPath, value: Any) -> None:
        found: Any = self.value
        for step in container:
            found = found[step]
        if not isinstance(found, dict):
            name = dotted(container)
            raise self._by_hand(path, value, f"{name} is no object, so nothing can be put into it")
        if "$include" in found:
            name = dotted(container) or "the file"
            raise self._by_hand(path, value, f"{name} includes other files; one of them may say it")

    def _by_hand(self, path: KeyPath, value: Any, why: str) -> NotChanged:
        lines = f"{dotted(path)}: {written(value)}"
        text = f"{self.path} was not changed: {why}\nBy hand, at the right place:\n\n  {lines}"
        return NotChanged(text, ((path, why),))

    def save(self) -> Loaded:
        """Writes the file, if it loads. It is replaced in one step, and only its owner can read it."""
        self._hold_to_the_wire()
        with self._draft() as draft:
            loaded = self._check(draft)
            self._hold_included(draft)
            if self._agree is not None:
                self._agree(loaded)
            put_in_place(draft, self.path)
            return loaded

    def save_no_worse(self, changed: KeyPath) -> tuple[str, ...]:
        """Saves like `save`; but a file that did not load before may keep faults elsewhere than at what was
        changed, so that they can be fixed one by one. Returns those that are left."""
        try:
            self.save()
            return ()
        except NotChanged as error:
            left, before = error.problems, self._faults_before()
            new = [path for path, why in left if (path, why) not in before]
            if not before or any(_related(path, changed) for path in new):
                raise
        with self._draft() as draft:
            put_in_place(draft, self.path)
        return tuple(f"{dotted(path)}: {why}" for path, why in left)

    def _load(self, draft: Path) -> Loaded:
        """Loads a draft. A variable that was missing before is no new fault: it may be set where the gateway runs."""
        try:
            return load(draft, self._environ)
        except Unloadable as error:
            if self._from_wire or not error.variables or not self.path.exists():
                raise
            before = load(self.path, self._environ, to_serve=False).lacking
            if not set(error.variables) <= set(before):
                raise
            return load(draft, self._environ, to_serve=False)

    def _faults_before(self) -> tuple[tuple[KeyPath, str], ...]:
        if self._from_wire or not self.path.exists():
            return ()
        try:
            load(self.path, self._environ)
        except Unloadable as error:
            return error.problems
        except ConfigInvalid:
            return ()  # not even read: then nothing can be compared
        return ()

    def check(self) -> Loaded:
        """Checks as `save` does; nothing is written."""
        self._hold_to_the_wire()
        with self._draft() as draft:
            loaded = self._check(draft)
            self._hold_included(draft)
            return loaded

    def _hold_to_the_wire(self) -> None:
        if not self._from_wire:
            return
        before, after = with_new_names(self._before), with_new_names(self.value)
        found = {*local_only(Config, before, after), *local_in_channels(before, after)}
        self._refuse(tuple(sorted(found, key=str)))
        stale = list(stale_secrets(Config, self._before, self.value))
        dropped = [path for path in stale if self._had(path) and self.has(path)]
        for path in reversed(
            stale
        ):  # from behind: what is taken out of a list moves those after it
            self._drop(path)
        self.dropped = tuple(map(dotted, dropped))

    def _hold_included(self, draft: Path) -> None:
        """Refuses a new address beside a secret in an included file: the secret cannot be taken out here."""
        if not self._from_wire or INCLUDE not in self.text or not self.path.exists():
            return
        whole = Source(draft)
        stale = stale_secrets(Config, Source(self.path).value, whole.value)
        self._refuse(tuple((path, SECRET_ELSEWHERE) for path in stale if whole.at(path)))

    def _refuse(self, faults: tuple[tuple[KeyPath, str], ...]) -> None:
        if faults:
            lines = "\n".join(f"  {dotted(path)}: {why}" for path, why in faults)
            raise NotChanged(f"{self.path} was not changed:\n{lines}", faults)

    def _drop(self, path: KeyPath) -> None:
        """Removes a secret. An API key is left empty, or its provider would look for one in the environment."""
        if path[-1] == "apiKey":
            self.put(path, "")
        else:
            self.remove(path)

    def _had(self, path: KeyPath) -> bool:
        found: Any = self._before
        for step in path:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return False
        return bool(found)

    @contextmanager
    def _draft(self) -> Generator[Path]:
        make_folder(self.path.parent)
        with draft_of(self.path, self.text) as draft:
            yield draft

    def _check(self, draft: Path) -> Loaded:
        try:
            loaded = self._load(draft)
            if self.path.resolve() in [each.resolve() for each in loaded.files]:
                raise ConfigInvalid(f"{draft} includes itself")  # the draft has another name
            return loaded
        except ConfigInvalid as error:
            text = str(error).replace(str(draft), str(self.path))
            problems = error.problems if isinstance(error, Unloadable) else (((), text),)
            why = f"{self.path} was not changed; it would not load:\n{text}"
            raise NotChanged(why, problems) from None


def _related(one: KeyPath, other: KeyPath) -> bool:
    """Whether one of them is inside the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
