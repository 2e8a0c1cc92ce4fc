"""The command line's commands about tiers and the machine: options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
]
_Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML.")
]


def add_to(app: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("check-tier")(check_tier)


def check_tier(
    tier: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="memory, files, slab, s3, redis, or your own as module:factory or "
            "file.py:factory with factory(*, block_bytes, root, namespace).",
        ),
    ],
    operations: Annotated[
        int, typer.Option("--operations", metavar="N", min=1, help="Random stores and loads.")
    ] = 1000,
    json: _Json = None,
    junit: _Junit = None,
) -> None:
    """Hold a secondary tier to its contract, under injected faults."""
    from .cli import Outputs
    from .commands_tiers import check
    from .terminal import Terminal

    outputs, terminal = Outputs(json, junit), Terminal()
    outputs.finish(check(tier, terminal, operations=operations), terminal)
