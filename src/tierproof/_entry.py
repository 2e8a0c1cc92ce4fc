"""The console script, which starts even where the command line's libraries are missing."""

import sys

# What the extra `kit` brings. The base install is for serving and has none of these.
_KIT = frozenset({"cvc5", "hypothesis", "pytest", "rich", "typer", "z3"})


def main() -> int:
    """Run `tierproof`; return its exit code, 2 where the extra `kit` is not installed.

    Raises:
        ModuleNotFoundError: a module is missing that no extra would bring; that is our own fault.
    """
    try:
        from tierproof.properties.cli import main as command_line

        return command_line() or 0
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _KIT:
            raise
        print(
            f"tierproof: the command line needs {missing}, which is not installed.\n"
            "Install it with: pip install 'tierproof[kit]'",
            file=sys.stderr,
        )
        return 2
