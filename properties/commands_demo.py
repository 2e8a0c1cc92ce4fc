"""The command `demo`: a model whose KV cache goes to a tier and comes back in another process."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from ..impl.errors import ConfigError, TierProofError
from ..impl.tiers.bucket import client_library as s3_library
from ..impl.tiers.configuration import read_config
from ..impl.tiers.redis_store import client_library as redis_library
from .demo import secondary
from .demo.outcome import Outcome
from .demo.run import run
from .demo.settings import DEVICES, LAYOUTS, Settings
from .managers import UsageError
from .places import write
from .servers import NoServerError, RedisServer, SeaweedServer
from .terminal import Terminal

KINDS = {"file": "files", "slab": "slab", "s3": "s3", "redis": "redis"}
"""What `--tier` takes, and what a configuration calls it."""
_SLAB = "16MiB"
"""Room for all that a run stores."""
CONFIG = "TIERPROOF_CONFIG"
"""The environment variable that names a configuration where `--config` does not."""


@dataclass(frozen=True)
class Place:
    """Where the secondary tier keeps its blocks."""

    table: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    says: str = ""
    lasting: bool = False
    """It is the user's, so what the run has stored is removed at the end."""


def demo(
    terminal: Terminal,
    *,
    tier: str,
    device: str,
    seed: int,
    layout: str,
    checksums: bool,
    flip: bool,
    config: Path | None,
) -> Outcome:
    """Run it once.

    Raises:
        UsageError: a choice that there is not, or something that is missing here.
    """
    tier = "file" if tier == "files" else tier  # the name of a configuration is as good
    if tier == "memory":
        raise UsageError(
            "--tier memory: what it keeps ends with the process that wrote it, and the demo reads "
            f"in another one; choose one of {', '.join(KINDS)}"
        )
    _one_of("--tier", tier, KINDS)
    _one_of("--device", device, DEVICES)
    _one_of("--kv-layout", layout, LAYOUTS)
    need_torch()
    with place_for(tier, config) as place, _bars(terminal) as progress:
        settings = Settings(
            seed=seed,
            layout="block-first" if layout == "block-first" else "layer-first",
            device=device,
            tier=place.table,
            environment=place.environment,
            run=uuid.uuid4().hex,
            checksums=checksums,
        )
        try:
            try:
                outcome = run(settings, progress, flip=flip)
            finally:
                if place.lasting:
                    secondary.forget(settings)
        except TierProofError as error:
            raise UsageError(f"demo --tier {tier} --device {device}: {error}") from error
        outcome.server = place.says
        return outcome


def need_torch() -> None:
    """The model is torch's; said in a sentence, before anything is begun.

    Raises:
        UsageError: it is not installed.
    """
    try:
        found = importlib.util.find_spec("torch") is not None
    except ValueError:  # how a module looks that was made to be missing
        found = False
    if not found:
        raise UsageError(
            "demo needs torch, which is not installed; in a clone of TierProof: "
            "pip install '.[torch]', or first the build of torch that fits your device"
        )


# -- where the blocks go --------------------------------------------------------------------------


@contextmanager
def place_for(tier: str, config: Path | None) -> Iterator[Place]:
    """The tier of a configuration, or a folder or server of the run's own, gone afterwards.

    Raises:
        UsageError: the configuration has no such tier, or no server can be started here.
    """
    named = config or (Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else None)
    if named is not None:
        place = _configured(tier, named, "--config" if config else CONFIG)
        if tier != "slab":
            yield place
            return
        with _slab_beside(place) as slab:
            yield slab
        return
    with ExitStack() as stack:
        # A server that is killed may still write while its folder goes.
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="tierproof-", ignore_cleanup_errors=True)
            )
        )
        if tier == "file":
            yield Place({"kind": "files", "root": str(folder / "blocks")})
            return
        if tier == "slab":
            yield Place({"kind": "slab", "root": str(folder / "blocks"), "capacity": _SLAB})
            return
        try:
            # First: a server may be here, and what speaks to it not.
            (redis_library if tier == "redis" else s3_library)()
            server = RedisServer(folder) if tier == "redis" else SeaweedServer(folder)
            server.start()
        except ConfigError as error:
            raise UsageError(f"demo --tier {tier}: {error}") from error
        except NoServerError as error:
            raise UsageError(
                f"demo --tier {tier}: no server is named by --config FILE.toml or {CONFIG}, and "
                f"none can be started here: {error}"
            ) from error
        stack.callback(server.kill)
        yield _own(server)


@contextmanager
def _slab_beside(place: Place) -> Iterator[Place]:
    """A small slab on the disk of a configured one, gone afterwards: a slab takes all of its
    capacity at once, and a run's own namespace would have a second one."""
    root = Path(str(place.table.get("root", "")))
    if not root.is_dir():
        raise UsageError(
            f"demo --tier slab: the root {str(root)!r} of that tier is no folder; make it first"
        )
    with tempfile.TemporaryDirectory(prefix="tierproof-", dir=root) as folder:
        table = {**place.table, "root": folder, "capacity": _SLAB}
        says = f"the tier was a slab of {_SLAB} of the run's own, below the root of the first one"
        yield Place(table, place.environment, says)


def _configured(tier: str, path: Path, option: str) -> Place:
    kind = KINDS[tier]
    try:
        tables = read_config(path).get("tiers")
    except TierProofError as error:
        raise UsageError(f"{option}: {error}") from error
    found = [
        table
        for table in (tables if isinstance(tables, list) else [])
        if isinstance(table, dict) and table.get("kind") in (kind, tier)
    ]
    if not found:
        raise UsageError(
            f"{option} {path}: it has no [[tiers]] of kind {kind}; add one, or choose another "
            "--tier"
        )
    table = {**found[0], "kind": kind}
    names = [value for field, value in table.items() if field.endswith("_env")]
    secrets = {name: os.environ[name] for name in names if name in os.environ}
    says = f"the tier is the first of kind {kind} in {path}; what the run stored there is removed"
    return Place(table, secrets, says, lasting=True)


def _own(server: RedisServer | SeaweedServer) -> Place:
    if isinstance(server, RedisServer):
        return Place(
            {"kind": "redis", "url": server.url}, {}, "the server was a Redis of the run's"
        )
    table = {
        "kind": "s3",
        "bucket": server.bucket,
        "endpoint": server.endpoint,
        "access_key_env": "ACCESS",
        "secret_key_env": "SECRET",
    }
    secrets = {"ACCESS": server.access_key, "SECRET": server.secret_key}
    return Place(table, secrets, "the server was a SeaweedFS of the run's own")


# -- what a person sees ---------------------------------------------------------------------------


@contextmanager
def _bars(terminal: Terminal) -> Iterator[Any]:
    """One bar after the other, as the processes say what they do."""
    with ExitStack() as stack:
        shown: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in shown:
                stack.close()
                shown.clear()
                shown[what] = stack.enter_context(terminal.progress(what))
            shown[what](done, total)

        yield progress


def finish(outcome: Outcome, terminal: Terminal, file: Path | None) -> int:
    """Show and write what came of it; the exit code."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what was done")
    for name in ("blocks", "bytes", "seconds"):
        table.add_column(name, justify="right")
    for words, blocks, size, seconds in outcome.rows():
        table.add_row(
            words,
            "" if blocks is None else f"{blocks:,}",
            "" if size is None else f"{size:,}",
            "" if seconds is None else f"{seconds:.3f}",
        )
    terminal.print(table)
    for line in outcome.lines():
        terminal.say(line)
    terminal.say("")
    terminal.say(outcome.conclusion(), "bold red" if outcome.exit else "bold green")
    if file is not None:
        write(file, json.dumps(outcome.as_json(), indent=2) + "\n", "--json")
    return outcome.exit


def _one_of(option: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise UsageError(f"{option} {value}: choose one of {', '.join(choices)}")
