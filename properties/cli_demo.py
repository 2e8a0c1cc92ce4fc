"""The command line's `demo`: options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import JsonOption, Outputs


def add_to(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(demo)


def demo(
    tier: Annotated[
        str,
        typer.Option(
            "--tier",
            metavar="NAME",
            help="What keeps the blocks: file (or files), slab, s3 or redis.",
        ),
    ] = "file",
    device: Annotated[
        str,
        typer.Option(
            "--device", metavar="NAME", help="What computes: cpu, or cuda where there is one."
        ),
    ] = "cpu",
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="S", min=0, max=2**63 - 1, help="Of weights, prompt and flipped bit."
        ),
    ] = 0,
    layout: Annotated[
        str,
        typer.Option(
            "--kv-layout",
            metavar="NAME",
            help="How a block lies there: layer-first or block-first.",
        ),
    ] = "layer-first",
    checksums: Annotated[
        bool,
        typer.Option("--checksums/--no-checksums", help="Whether the tier checks what it reads."),
    ] = True,
    flip: Annotated[
        bool, typer.Option("--flip-byte", help="Damage one stored byte before it is read.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE.toml",
            help="Use the first tier of this kind that this file describes, as docs/tiers.md says "
            "(also: TIERPROOF_CONFIG); a folder or server of the run's own if none.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Offload a model's KV cache, read it back in a new process, and compare every logit."""
    from .commands_demo import demo as run
    from .commands_demo import finish
    from .terminal import Terminal

    outputs, terminal = Outputs(json, None), Terminal()
    outcome = run(
        terminal,
        tier=tier,
        device=device,
        seed=seed,
        layout=layout,
        checksums=checksums,
        flip=flip,
        config=config,
    )
    raise typer.Exit(finish(outcome, terminal, outputs.json))
