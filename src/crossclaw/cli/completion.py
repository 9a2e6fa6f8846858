"""`completion`: scripts with which the shell completes commands, their words and their options.

The scripts are made from the same table as the help, so they never lag behind. Install, for example: `crossclaw
completion bash > ~/.local/share/bash-completion/completions/crossclaw`.
"""

from collections.abc import Iterator
from importlib import import_module

from crossclaw.cli.commands import TREE, Group, Leaf
from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser
from crossclaw.cli.say import out

NAMES = ("crossclaw", "openclaw")
INSTALL = """Install it once:
  bash   crossclaw completion bash > ~/.local/share/bash-completion/completions/crossclaw
  zsh    crossclaw completion zsh > "${fpath[1]}/_crossclaw"
  fish   crossclaw completion fish > ~/.config/fish/completions/crossclaw.fish"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def _completion(arguments: Arguments) -> int:
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    out(writers[arguments.shell](), end="")
    return Exit.OK


def _shown() -> Iterator[tuple[str, Leaf | Group]]:
    return ((word, entry) for word, entry in TREE.items() if not getattr(entry, "hidden", False))


def _leaves() -> Iterator[tuple[str, Leaf]]:
    """Every command as it is typed: `sessions list`, `run`."""
    for word, entry in _shown():
        if isinstance(entry, Leaf):
            yield word, entry
        else:
            yield from (
                (f"{word} {name}", leaf) for name, leaf in entry.leaves.items() if not leaf.hidden
            )


def _options(words: str, leaf: Leaf) -> list[str]:
    parser = Parser(prog=words)
    import_module(f"crossclaw.cli.{leaf.module}").COMMANDS[words.split()[-1]].arguments(parser)
    options = [text for action in parser._actions for text in action.option_strings]
    return [option for option in options if option.startswith("--")]


def _bash() -> str:
    groups = {word: entry for word, entry in _shown() if isinstance(entry, Group)}
    inner = "\n".join(
        f"    {word}) words={_quoted(' '.join(name for name, leaf in entry.leaves.items() if not leaf.hidden))} ;;"
        for word, entry in groups.items()
    )
    options = "\n".join(
        f"    {_quoted(words)}) options={_quoted(' '.join(_options(words, leaf)))} ;;"
        for words, leaf in _leaves()
    )
    return f"""# bash completion for crossclaw, made by `crossclaw completion bash`
_crossclaw() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" first="${{COMP_WORDS[1]}}" second="${{COMP_WORDS[2]}}" words="" options=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {_quoted(" ".join(word for word, _ in _shown()))} -- "$current"))
    return
  fi
  case "$first" in
{inner}
  esac
  if [ "$COMP_CWORD" -eq 2 ] && [ -n "$words" ] && [ "${{current#-}}" = "$current" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  [ -n "$words" ] && first="$first $second"
  case "$first" in
{options}
  esac
  if [ "${{current#-}}" != "$current" ]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _crossclaw {" ".join(NAMES)}
"""


def _zsh() -> str:
    """The script for zsh, which reads bash's completions: one script serves both."""
    return f"#compdef {' '.join(NAMES)}\nautoload -U +X bashcompinit && bashcompinit\n{_bash()}"


def _fish() -> str:
    lines = ["# fish completion for crossclaw, made by `crossclaw completion fish`"]
    for name in NAMES:
        for word, entry in _shown():
            lines.append(
                f"complete -c {name} -n __fish_use_subcommand -a {word} -d {_fish_quoted(entry.summary)}"
            )
        for words, leaf in _leaves():
            lines += _fish_leaf(name, words.split(), leaf)
    return "\n".join(lines) + "\n"


def _fish_leaf(name: str, words: list[str], leaf: Leaf) -> Iterator[str]:
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words)
    if len(words) == 2:
        group = f"__fish_seen_subcommand_from {words[0]}"
        yield f"complete -c {name} -n '{group}' -f -a {words[1]} -d {_fish_quoted(leaf.summary)}"
    for option in _options(" ".join(words), leaf):
        yield f"complete -c {name} -n '{seen}' -l {option[2:]}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


COMMANDS = {"completion": CommandSpec(_arguments, _completion, more=INSTALL)}
