"""A conversation with the local model from the command line, in a folder of its own, until its window
has filled: `make local-demo`. The model is small and says what it likes; that its words are streamed,
stored and compacted is ours, and the end says whether it was so."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CROSSCLAW = Path(sys.executable).with_name("crossclaw")
WINDOW_TOKENS = 1_000  # a quarter of what the model holds, so that a few messages fill it
CONFIG = {
    "agents": {"defaults": {"model": "local/smollm2", "contextTokens": WINDOW_TOKENS}},
    "logging": {"level": "error"},
}
STORY = (
    "My grandmother kept bees behind her gateway near the harbour. Every spring she painted the hives "
    "blue, because she said that bees like blue best, and every autumn she gave each of her "
    "neighbours one jar of honey with a number written on its lid."
)
WORDS = (
    "Say hello in one sentence.",
    f"{STORY} Answer in one short sentence.",
    "What colour do bees like? One short sentence, please.",
    f"Here it is once more. {STORY} Which animals did she keep? One short sentence.",
    "When did she give honey away? One short sentence, please.",
    f"And for the last time: {STORY} Where was the gateway? One short sentence.",
    "Thank you. Say goodbye in one sentence.",
)
"""Some 250 tokens more than the window's limit, should the model answer nothing at all."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="crossclaw-local-") as folder:
        (Path(folder) / "openclaw.json").write_text(json.dumps(CONFIG), "utf-8")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        # No gateway listens on port 1: each command opens the gateway for itself.
        return converse(
            kept | {"OPENCLAW_STATE_DIR": folder, "OPENCLAW_GATEWAY_PORT": "1", "PYTHONUTF8": "1"}
        )


def converse(environ: Mapping[str, str]) -> int:
    for words in WORDS:
        print(f"\n> {words}", flush=True)
        said = subprocess.run([CROSSCLAW, "message", "send", words], env=environ, check=False)
        if said.returncode:
            return said.returncode
    row = _read(environ, "sessions", "show", "main")
    stored = _read(environ, "sessions", "history", "main")["messages"]
    asked = sum(message["role"] == "user" for message in stored)
    answered = sum(message["role"] == "assistant" for message in stored)
    print(
        f"\nIts window of {WINDOW_TOKENS:,} tokens filled: compacted {row['compactionCount']} times, and"
        f" {row['totalTokens']} tokens are in it now. The history is whole: {asked} questions and"
        f" {answered} answers.",
        flush=True,
    )
    return 0 if row["compactionCount"] and asked == answered == len(WORDS) else 1


def _read(environ: Mapping[str, str], *command: str) -> Any:
    told = subprocess.run(
        [CROSSCLAW, *command, "--json"], env=environ, check=True, stdout=subprocess.PIPE
    )
    return json.loads(told.stdout)


if __name__ == "__main__":
    sys.exit(main())
