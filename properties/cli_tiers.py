"""The command line's commands about tiers and the machine: options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import CheckOption, HtmlOption, JsonOption, JunitOption, Outputs


def add_to(app: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("check-tier")(check_tier)
    app.command()(doctor)
    bench.command("tiers")(bench_tiers)


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
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            help="What may be spent; a contract that has begun is finished. No limit if none.",
        ),
    ] = None,
    json: JsonOption = None,
    junit: JunitOption = None,
    html: HtmlOption = None,
) -> None:
    """Hold a secondary tier to its contract, under injected faults."""
    from .commands_tiers import check
    from .managers import UsageError
    from .terminal import Terminal

    if budget is not None and not 0 < budget < float("inf"):
        raise UsageError(f"--budget {budget:g}: write a number of seconds above 0, such as 30")
    outputs, terminal = Outputs(json, junit, html), Terminal()
    outputs.finish(check(tier, terminal, operations=operations, budget=budget), terminal)


def doctor(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE.toml",
            help="Also try every tier that this file describes, as docs/tiers.md says.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="Where a cache would be, which must be there; else the folders of the tiers, else "
            "this one.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Say whether the machine is as the tiers want it, and what to do where not."""
    from .commands_doctor import doctor as run
    from .terminal import Terminal

    outputs, terminal = Outputs(json, None), Terminal()
    outputs.finish(run(folder, config), terminal)


def bench_tiers(
    folder: Annotated[
        Path,
        typer.Option(
            "--folder", metavar="DIR", help="On the disk to be measured; it must be there."
        ),
    ] = Path("."),
    mib: Annotated[
        int, typer.Option("--mib", metavar="N", min=64, help="MiB through each tier in a round.")
    ] = 1024,
    beside: Annotated[
        int,
        typer.Option("--beside", metavar="N", min=64, help="MiB that move beside manager calls."),
    ] = 4096,
    block: Annotated[
        list[int] | None,
        typer.Option(
            "--block",
            metavar="N",
            min=1,
            help="MiB of a block on the disk; may be repeated. 1, 4 and 16 when left out.",
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="Alternating rounds.")
    ] = 5,
    servers: Annotated[
        bool, typer.Option("--servers/--no-servers", help="Measure Redis and the object store.")
    ] = True,
    check: CheckOption = False,
    json: JsonOption = None,
) -> None:
    """Measure the tiers as shares of what their disk or client library gives."""
    from .commands_bench_tiers import bench_tiers as run
    from .terminal import Terminal

    outputs, terminal = Outputs(json, None), Terminal()
    report = run(
        terminal,
        folder=folder,
        total=mib << 20,
        moved=beside << 20,
        rounds=rounds,
        remote=servers,
        sizes=[size << 20 for size in block or ()],
    )
    outputs.finish(report, terminal, check=check)
