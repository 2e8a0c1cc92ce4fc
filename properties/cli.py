"""The command line: options and exit codes; what a command does is in `commands_...`.

Exit codes: 0 good; 1 a contract is broken, a page is stale, a mutant survived, a demo is not
identical, or a goal is missed (`bench ... --check`); 2 usage, could not run, or unknown; 3 our own
fault (`tierproof._entry` adds it); 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tierproof import __version__

from .cli_demo import add_to as add_demo_command
from .cli_speed import add_to as add_speed_command
from .cli_tiers import add_to as add_tier_commands
from .cli_vllm import add_to as add_vllm_commands
from .generated_tests import FOLDER
from .managers import SHIPPED, UsageError, resolve
from .options import (
    EXAMPLES,
    CheckOption,
    ExamplesOption,
    FolderOption,
    HtmlOption,
    JsonOption,
    JunitOption,
    ManagerOption,
    Outputs,
    SeedOption,
    write_fault,
)
from .places import writable
from .processes import interrupted, interruptible
from .report import COULD_NOT, GOOD, INTERRUPTED
from .terminal import Terminal

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
bench = typer.Typer(help="Measure the manager, the tiers and the checks.", rich_markup_mode="rich")
app.add_typer(bench, name="bench")
add_tier_commands(app, bench)
add_speed_command(bench)
add_vllm_commands(app)
add_demo_command(app)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Hold a tiered KV-cache offloading manager to proved contracts."""
    if version:
        typer.echo(f"tierproof {__version__}")
        raise typer.Exit(GOOD)
    _help_if_bare(context)


@bench.callback(invoke_without_command=True)
def bench_root(context: typer.Context) -> None:
    """Measure the manager, the tiers and the checks."""
    _help_if_bare(context)


def _help_if_bare(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(GOOD)


@app.command()
def verify(
    manager: ManagerOption = SHIPPED,
    examples: ExamplesOption = EXAMPLES,
    seed: SeedOption = None,
    folder: FolderOption = FOLDER,
    json: JsonOption = None,
    junit: JunitOption = None,
    html: HtmlOption = None,
) -> None:
    """Prove the table; tour and fuzz a manager: the main job."""
    from . import commands_verify as commands

    outputs, terminal = Outputs(json, junit, html, folder), Terminal()
    chosen = resolve(manager)
    outputs.finish(
        commands.verify(chosen, terminal, examples=examples, seed=seed, folder=folder), terminal
    )


@app.command()
def prove(
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Prove with N seeds of the solver.")
    ] = 1,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Write every obligation as SMT-LIB into this folder, made if need be, and let "
            "cvc5 prove it.",
        ),
    ] = None,
    json: JsonOption = None,
    junit: JunitOption = None,
) -> None:
    """Prove the rule table for any number of keys, tiers, requests, slots and transfers."""
    from .commands_prove import prove as run

    outputs, terminal = Outputs(json, junit), Terminal()
    outputs.finish(run(terminal, seeds=seeds, export=export), terminal)


@app.command()
def tour(
    manager: ManagerOption = SHIPPED,
    exhaustive: Annotated[
        bool,
        typer.Option("--exhaustive", help="Instead: every history of up to 6 operations."),
    ] = False,
    folder: FolderOption = FOLDER,
    json: JsonOption = None,
    junit: JunitOption = None,
    html: HtmlOption = None,
) -> None:
    """Drive a manager through every reachable case of the table."""
    from .commands_soak import tour_exhaustively
    from .commands_verify import tour as usual

    outputs, terminal = Outputs(json, junit, html, folder), Terminal()
    run = tour_exhaustively if exhaustive else usual
    outputs.finish(run(resolve(manager), terminal, folder=folder), terminal)


@app.command()
def fuzz(
    manager: ManagerOption = SHIPPED,
    examples: ExamplesOption = EXAMPLES,
    seed: SeedOption = None,
    folder: FolderOption = FOLDER,
    json: JsonOption = None,
    junit: JunitOption = None,
    html: HtmlOption = None,
) -> None:
    """Drive a manager through random histories, next to the reference model."""
    from . import commands_verify as commands

    outputs, terminal = Outputs(json, junit, html, folder), Terminal()
    chosen = resolve(manager)
    outputs.finish(
        commands.fuzz(chosen, terminal, examples=examples, seed=seed, folder=folder), terminal
    )


@app.command()
def mutants(
    search: Annotated[
        float,
        typer.Option(
            "--search",
            metavar="SECONDS",
            min=0,
            help="Processor time, for each fault, for trying all shorter histories.",
        ),
    ] = 2.0,
    json: JsonOption = None,
    junit: JunitOption = None,
) -> None:
    """Break the table and the manager in every way we know; each break must be noticed."""
    from .commands_mutants import mutants as run

    outputs, terminal = Outputs(json, junit), Terminal()
    outputs.finish(run(terminal, search), terminal)


@app.command()
def soak(
    operations: Annotated[
        int, typer.Option("--operations", metavar="N", min=1, help="How many, all told.")
    ] = 1_000_000,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", min=0, help="The same seed, the same calls.")
    ] = 0,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Keep the report, in a folder that is there; go on from it if it exists.",
        ),
    ] = None,
) -> None:
    """Call the shipped manager at random for long, with real tiers and faults."""
    from .commands_soak import soak_long

    outputs, terminal = Outputs(json, None), Terminal()
    outputs.finish(
        soak_long(resolve(), terminal, operations=operations, seed=seed, kept=json), terminal
    )


@bench.command("verify")
def bench_verify(
    examples: ExamplesOption = EXAMPLES,
    seed: SeedOption = None,
    check: CheckOption = False,
    json: JsonOption = None,
    junit: JunitOption = None,
) -> None:
    """Measure proof, tour and runs: time, memory, counts."""
    from .commands_bench import bench_verify as run

    outputs, terminal = Outputs(json, junit), Terminal()
    report = run(terminal, examples=examples, seed=seed)
    outputs.finish(report, terminal, check=check)


@app.command()
def spec(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if a page is stale.")
    ] = False,
    folder: Annotated[
        Path,
        typer.Option(
            "--folder", metavar="DIR", help="Where the pages are; the folder must be there."
        ),
    ] = Path("docs"),
    json: JsonOption = None,
    junit: JunitOption = None,
) -> None:
    """Write the pages that are generated from the table and the contracts."""
    from .commands_spec import spec as run

    outputs, terminal = Outputs(json, junit), Terminal()
    outputs.finish(run(folder, check=check), terminal)


@app.command()
def scan(
    workload: Annotated[
        Path,
        typer.Argument(
            metavar="WORKLOAD.json",
            help="What is asked of which cache, as a JSON object: version (1), blocks_per_chunk, "
            "groups, primary_slots, tiers, requests and, if bytes are to be told, bytes_per_block. "
            "docs/scan.md says what is in each; docs/workloads has examples.",
        ),
    ],
    consumer: Annotated[
        str,
        typer.Option(
            "--consumer", metavar="NAME", help="retry, pending, two-phase or vllm:VERSION."
        ),
    ] = "two-phase",
    delay: Annotated[
        int,
        typer.Option(
            "--tier-delay", metavar="N", min=0, max=1000, help="Steps until a tier answers."
        ),
    ] = 1,
    json: JsonOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE.svg", help="Draw each group's keys, in a folder that is there."
        ),
    ] = None,
) -> None:
    """Run a workload on the shipped manager; say what is checked, promoted and read."""
    from .commands_scan import scan as run

    outputs, terminal, plot = Outputs(json, None), Terminal(), writable(plot, "--plot")
    outputs.finish(run(workload, consumer=consumer, delay=delay, plot=plot), terminal)


@bench.command("scan")
def bench_scan(
    check: CheckOption = False, json: JsonOption = None, junit: JunitOption = None
) -> None:
    """Measure a scheduling pass: two phases beside one, long prompts and many waiting requests."""
    from .commands_bench_scan import bench_scan as run

    outputs, terminal = Outputs(json, junit), Terminal()
    outputs.finish(run(terminal), terminal, check=check)


def main(args: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; faults of ours are raised."""
    command = typer.main.get_command(app)
    try:
        with interruptible():
            command(args=None if args is None else list(args), prog_name="tierproof")
    except SystemExit as ended:
        code = ended.code
        if code == INTERRUPTED:
            print("tierproof: interrupted", file=sys.stderr)
        return code if isinstance(code, int) else GOOD
    except UsageError as mistake:
        print(f"tierproof: {mistake}", file=sys.stderr)
        return COULD_NOT
    except KeyboardInterrupt:
        print("tierproof: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as fault:
        if interrupted():
            print("tierproof: interrupted", file=sys.stderr)
            return INTERRUPTED
        write_fault(list(sys.argv[1:] if args is None else args), fault)
        raise
    return GOOD
