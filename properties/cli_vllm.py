"""The command line's commands about vLLM's releases: options only."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Outputs


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("fetch-vllm")(fetch_vllm)


def fetch_vllm(
    versions: Annotated[
        list[str], typer.Argument(metavar="VERSION...", help="Releases of vLLM, such as 0.33.0.")
    ],
) -> None:
    """Fetch releases of vLLM once, so that their managers can be checked.

    Needs pip and the network: a wheel has 330 to 500 MB, of which 12 MB are kept in
    ~/.cache/tierproof/vllm, or in $TIERPROOF_CACHE/vllm. Nothing is installed.
    """
    from .commands_vllm import fetch
    from .terminal import Terminal

    terminal = Terminal()
    Outputs(None, None).finish(fetch(versions, terminal), terminal)
