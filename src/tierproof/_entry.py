"""The console script, which starts even where the command line's libraries are missing."""

import sys
import traceback

# What the extra `kit` brings. The base install is for serving and has none of these.
_KIT = frozenset({"cvc5", "hypothesis", "pytest", "rich", "typer", "z3"})


def main() -> int:
    """Run `tierproof` and return its exit code.

    The command line decides its own codes. This adds what can happen before it stands: 2 where the
    extra `kit` is not installed or a word of the rule table is misspelt, 3 for a fault of ours, 130
    when interrupted while importing.
    """
    try:
        from tierproof.properties.spelling import misspelt

        wrong = misspelt()  # before anything reads the table, which would stumble over the word
        if wrong:
            print(f"tierproof: model/rules.py, {wrong[0]}", file=sys.stderr)
            return 2
        from tierproof.properties.cli import main as command_line

        return command_line() or 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        name = error.name if isinstance(error, ModuleNotFoundError) else None
        missing = (name or "").partition(".")[0]
        if missing not in _KIT:
            # Python's own exit code for this is 1, which here means "a contract is violated".
            traceback.print_exc()
            return 3
        print(
            f"tierproof: the command line needs {missing}, which is not installed.\n"
            "Install it in a clone of TierProof with: pip install '.[kit]'",
            file=sys.stderr,
        )
        return 2
