"""The command line's `bench manager`: options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import CheckOption, JsonOption, Outputs


def add_to(bench: typer.Typer) -> None:
    """Add the command of this module."""
    bench.command("manager")(bench_manager)


def bench_manager(
    manager: Annotated[
        str,
        typer.Option(
            "--manager",
            metavar="NAME",
            help="What is measured: tierproof, or your own as module:factory or file.py:factory.",
        ),
    ] = "tierproof",
    stock: Annotated[
        str | None,
        typer.Option(
            "--stock",
            metavar="VERSION",
            help="The vLLM release to compare with, once fetched; 0.33.0 if it was, else none.",
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", help="Alternating rounds, at least 9.")
    ] = 11,
    resident: Annotated[
        list[int] | None,
        typer.Option(
            "--resident",
            metavar="N",
            help="Resident blocks; give it again for more tables. 10000 and 1000000 if none.",
        ),
    ] = None,
    growth: Annotated[
        int | None,
        typer.Option(
            "--growth",
            metavar="N",
            help="Also measure what grows, up to N resident blocks (10000000 need 8 GiB).",
        ),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE.json",
            help="Measure nothing: show an earlier run, from what its --json or --pages wrote.",
        ),
    ] = None,
    check: CheckOption = False,
    json: JsonOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE.svg", help="Draw the ratios, in a folder that is there."
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            "--pages",
            metavar="DIR",
            help="Write the page speed.md, its charts and its JSON into this folder, which must be "
            "there.",
        ),
    ] = None,
) -> None:
    """Measure the manager's calls: beside stock vLLM's, and beside dictionary lookups alone."""
    from .commands_bench_manager import RESIDENT
    from .commands_bench_manager import bench_manager as run
    from .managers import resolve
    from .places import folder_there, writable
    from .terminal import Terminal

    outputs, terminal = Outputs(json, None), Terminal()
    if pages is not None:
        folder_there(pages, "--pages", "the folder of the page speed.md, such as docs")
    report = run(
        terminal,
        resolve(manager),
        stock=stock,
        rounds=rounds,
        resident=tuple(resident or RESIDENT),
        growth=growth,
        again=again,
        plot=writable(plot, "--plot"),
        pages=pages,
    )
    outputs.finish(report, terminal, check=check)
