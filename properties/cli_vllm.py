"""The command line's commands about vLLM's releases: options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .generated_tests import FOLDER
from .options import Outputs


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("fetch-vllm")(fetch_vllm)
    app.command()(matrix)


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


def matrix(
    versions: Annotated[
        list[str] | None,
        typer.Option(
            "--versions",
            metavar="V,V,...",
            help="Releases, such as 0.24.0,0.33.0; if none, all of the matrix in the cache.",
        ),
    ] = None,
    cases: Annotated[
        int, typer.Option("--cases", metavar="N", min=1, help="Cases of each room of the tour.")
    ] = 3000,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=1, help="How many random histories.")
    ] = 200,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", min=0, help="Of the random histories.")
    ] = 0,
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="SECONDS", min=1, help="For each release at most."),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the matrix as JSON, in a folder that is there."
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page", metavar="FILE.md", help="Write it as a page, in a folder that is there."
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            "--reproducers",
            metavar="DIR",
            help="Where reproducers go as pytest files; made if need be.",
        ),
    ] = FOLDER,
) -> None:
    """Hold vLLM's releases to the contracts; exit 0 when the run completed, whatever it found."""
    from .commands_matrix import matrix as run
    from .places import folder_to_make, writable
    from .terminal import Terminal
    from .vllm_matrix import Settings

    json, page, terminal = writable(json, "--json"), writable(page, "--page"), Terminal()
    folder_to_make(folder, "--reproducers")
    settings = Settings(cases, examples, seed, budget)
    report = run(
        versions or (), terminal, settings=settings, json=json, to_page=page, folder=folder
    )
    Outputs(None, None).finish(report, terminal)
