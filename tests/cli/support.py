"""What tests of the command line share."""

import typer

from tierproof.properties.cli import app


def assert_told(done, *words):
    assert done.code == 2, done.out + done.err
    assert "Traceback" not in done.err
    assert done.err.startswith("tierproof: ")
    assert done.err.count("\n") == 1, f"not one sentence: {done.err}"
    for word in words:
        assert word in done.err, f"{word!r} is not in: {done.err}"


def every_parameter(command, name=""):
    for part, below in getattr(command, "commands", {}).items():
        yield from every_parameter(below, f"{name} {part}".strip())
    if not hasattr(command, "commands"):
        yield from ((f"{name} {one.opts[0]}", one) for one in command.params)


PARAMETERS = dict(every_parameter(typer.main.get_command(app)))
"""Each option and argument, by its command: `spec --check`."""
