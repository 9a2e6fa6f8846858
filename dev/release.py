"""Makes a release of what is unreleased: `make release VERSION=0.2.0`.

Writes the version where the package has it, and puts the changelog's "Unreleased" under the version's name and
today's date. It commits nothing: look at the difference, then commit and tag it.
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_WRITTEN = re.compile(r'^__version__ = "(.+)"$', re.M)


def main(words: list[str], root: Path = ROOT) -> int:
    if len(words) != 1 or not _VERSION.fullmatch(words[0]):
        return _stop("say which version, as three numbers: make release VERSION=0.2.0")
    version = words[0]
    package, changelog = root / "src" / "crossclaw" / "__init__.py", root / "CHANGELOG.md"
    code, changes = package.read_text("utf-8"), changelog.read_text("utf-8")
    found = _WRITTEN.search(code)
    if found is None:
        return _stop(f"{package} has no __version__")
    if _numbers(version) <= _numbers(found[1]):
        return _stop(f"{version} is not newer than {found[1]}")
    unreleased = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    if unreleased is None or not unreleased[1].strip():
        return _stop('nothing stands under "## Unreleased" in CHANGELOG.md')
    today = datetime.now(UTC).date().isoformat()
    dated = f"## Unreleased\n\n## {version} – {today}\n{unreleased[1]}"
    changelog.write_text(changes.replace(unreleased[0], dated), "utf-8")
    package.write_text(_WRITTEN.sub(f'__version__ = "{version}"', code), "utf-8")
    print(
        f"{found[1]} → {version}, {today}. Next: git commit -am 'Release {version}', git tag v{version}"
    )
    return 0


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _stop(why: str) -> int:
    print(f"release: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
