"""The environment of programs: only listed variables. The gateway's token and keys are not among
them."""

from collections.abc import Iterable, Mapping

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HARMLESS = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR")


def host_environment(environ: Mapping[str, str], named: Iterable[str]) -> dict[str, str]:
    """The variables of programs outside of a sandbox: what a terminal needs, and what the config
    names."""
    kept = {name: environ[name] for name in (*HARMLESS, *named) if name in environ}
    kept |= {name: value for name, value in environ.items() if name.startswith("LC_")}
    return {"PATH": PATH, **kept}


def sandbox_environment(
    environ: Mapping[str, str], named: Iterable[str], home: str
) -> dict[str, str]:
    """The variables of programs in a sandbox. They are fewer: paths of the host mean nothing
    inside."""
    kept = {name: environ[name] for name in ("LANG", "TZ", *named) if name in environ}
    return {"LANG": "C.UTF-8", **kept, "PATH": PATH, "HOME": home, "TMPDIR": "/tmp", "TERM": "dumb"}
