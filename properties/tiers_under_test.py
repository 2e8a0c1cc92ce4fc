"""Which tier is under test, from what a user writes to a factory that works; and checking it.

A factory of a user's own may have two attributes: `media` and `outage`, each a function of the root
that returns what `tier_surroundings` calls by these names. Without them the files below the root
are the media, and nothing can be stopped; `outage = None` says that nothing needs to be.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from ..impl.tiers.base import Tier
from . import tier_checks_bytes as of_bytes
from . import tier_checks_jobs as of_jobs
from . import tier_factories
from .budget import Budget
from .contracts import RUNS, TIER_CONTRACTS
from .managers import UsageError, named
from .report import Report, Result
from .servers import NoServerError, RedisServer, SeaweedServer
from .telling import told
from .tier_bench import BLOCK_BYTES, Bench, Check
from .tier_rig import NotTried, TierBroken
from .tier_surroundings import BucketMedia, DiskOutage, RedisMedia, ServerOutage, Surroundings
from .tier_writer import TierFactory

NAMES = ("memory", "files", "slab", "s3", "redis")
WAYS = f"check-tier takes one of {', '.join(NAMES)}, module:factory or file.py:factory"
FACTORY = "factory(*, block_bytes, root, namespace)"

CHECKS: dict[str, Check] = {
    "T1-nonblocking": of_jobs.t1_nonblocking,
    "T2-one-report": of_jobs.t2_one_report,
    "T3-bytes": of_bytes.t3_bytes,
    "T4-visible": of_bytes.t4_visible,
    "T5-withdraw": of_bytes.t5_withdraw,
    "T6-own-arguments": of_jobs.t6_own_arguments,
    "T7-bounded": of_jobs.t7_bounded,
    "T8-drain": of_jobs.t8_drain,
    "T9-raises": of_bytes.t9_raises,
    "T10-restart": of_bytes.t10_restart,
    "T11-shared": of_bytes.t11_shared,
    "D1-bytes": of_bytes.d1_bytes,
    "D2-isolation": of_bytes.d2_isolation,
}


@dataclass(frozen=True)
class ChosenTier:
    """A tier to be held to the contracts."""

    spec: str
    factory: TierFactory
    claims: Collection[str]
    known_gaps: Mapping[str, str]
    surround: Callable[[Path], Surroundings]


@contextmanager
def chosen_tier(spec: str) -> Iterator[ChosenTier]:
    """The tier that a user named, with the server that it needs, if any, while it is checked.

    Raises:
        UsageError: there is no such tier, it cannot be built, or its server cannot be started.
    """
    with ExitStack() as stack:
        factory, surround = _resolved("files" if spec == "file" else spec, stack)
        with _temporary_folder() as root:
            claims, gaps = built(factory, spec, Path(root))
        yield ChosenTier(spec, factory, claims, gaps, surround)


def built(factory: Any, spec: str, root: Path) -> tuple[Collection[str], Mapping[str, str]]:
    """Build one tier of a factory in an empty folder: what it claims, and its known gaps.

    Raises:
        UsageError: it is no tier, or names a contract that there is not.
    """
    try:
        tier = factory(block_bytes=BLOCK_BYTES, root=root, namespace="trial")
    except Exception as error:
        raise UsageError(f"{spec} could not build a tier: {told(error)}") from error
    if not isinstance(tier, Tier):
        missing = [n for n in _CALLS if not hasattr(tier, n)]
        raise UsageError(
            f"{spec} returned a {type(tier).__name__}, which has no {', no '.join(missing)}"
        )
    claims = known(spec, "claims", getattr(tier, "claims", tuple(TIER_CONTRACTS)))
    gaps = known(spec, "known_gaps", getattr(tier, "known_gaps", {}))
    tier.shutdown()
    return claims, gaps


_CALLS = (
    *("name", "attach", "lookup", "submit_load", "submit_store", "poll", "on_new_request"),
    *("on_request_finished", "clear", "drain", "shutdown"),
)


def known(spec: str, attribute: str, said: Any) -> Any:
    """What was said, if it names contracts of a tier only.

    Raises:
        UsageError: it names something else.
    """
    for name in said:
        if name not in TIER_CONTRACTS:
            raise UsageError(f"{spec}: {attribute} names {name!r}, which is no contract of a tier")
    return said


def _resolved(spec: str, stack: ExitStack) -> tuple[TierFactory, Callable[[Path], Surroundings]]:
    if spec in ("memory", "files", "slab"):
        if spec == "memory":
            return tier_factories.memory, lambda root: Surroundings(stops=False)
        return getattr(tier_factories, spec), lambda root: Surroundings(outage=DiskOutage())
    if spec in ("redis", "s3"):
        folder = Path(stack.enter_context(_temporary_folder()))
        try:
            server = RedisServer(folder) if spec == "redis" else SeaweedServer(folder)
            server.start()
        except NoServerError as error:
            raise UsageError(f"{spec} cannot be checked here: {error}") from None
        stack.callback(server.kill)
        return _on_server(server)
    if ":" not in spec:
        raise UsageError(f"there is no tier {spec!r}; {WAYS}")
    found = named(spec, WAYS, FACTORY, block_bytes=1, root=Path(), namespace="")
    return found, partial(surroundings_of, found)


def surroundings_of(factory: Any, root: Path) -> Surroundings:
    """What a factory says by its attributes `media` and `outage`; None: nothing stops."""
    media, outage = getattr(factory, "media", None), getattr(factory, "outage", None)
    return Surroundings(
        media and media(root),
        outage and outage(root),
        stops=outage is not None or not hasattr(factory, "outage"),
    )


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    # A faulty tier's thread may still write while the folder goes.
    return tempfile.TemporaryDirectory(prefix="tierproof-", ignore_cleanup_errors=True)


def _on_server(
    server: RedisServer | SeaweedServer,
) -> tuple[TierFactory, Callable[[Path], Surroundings]]:
    outage = ServerOutage(server)
    if isinstance(server, RedisServer):
        url = server.url
        return (
            partial(tier_factories.redis, url=url),
            lambda root: Surroundings(RedisMedia(url), outage),
        )
    factory = partial(
        tier_factories.s3,
        bucket=server.bucket,
        endpoint=server.endpoint,
        access_key=server.access_key,
        secret_key=server.secret_key,
    )
    store = server.store()
    return factory, lambda root: Surroundings(BucketMedia(store), outage)


def check_contract(
    chosen: ChosenTier, contract: str, root: Path, *, operations: int = 1000
) -> Bench:
    """Hold a tier to one contract in an empty folder; the bench knows what was done there.

    Raises:
        TierBroken: it does not keep it, or another one that had to hold for the check.
        NotTried: what the contract speaks of could not be brought about.
    """
    bench = Bench(chosen.factory, root, chosen.surround(root), operations=operations)
    CHECKS[contract](bench)
    return bench


def check_tier(
    chosen: ChosenTier,
    *,
    operations: int = 1000,
    contracts: Collection[str] = tuple(CHECKS),
    budget: Budget | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Hold a tier to the contracts that it claims.

    Args:
        chosen: the tier.
        operations: how many the check of bytes makes.
        contracts: ids of those to check.
        budget: what may be spent; no contract begins when nothing is left. None: no limit.
        progress: called with how many contracts are done, and how many there are.
    """
    report = Report("check-tier", chosen.spec)
    broken: dict[str, str] = {}
    found: dict[str, Result] = {}
    for number, contract in enumerate(contracts):
        progress(number, len(contracts))
        if contract not in chosen.claims:
            found[contract] = Result(
                contract, RUNS, "not_claimed", says="the tier does not claim it"
            )
            continue
        with (Budget(inf) if budget is None else budget).part() as over:
            if over():
                says = f"no time was left in the budget of {budget.seconds:g} s" if budget else ""
                found[contract] = Result(contract, RUNS, "skipped", says=says)
            else:
                found[contract] = _checked(chosen, contract, operations, report, broken)
    for contract, result in found.items():
        report.results.append(_judged(chosen, result, broken.get(contract)))
    return report


def _checked(
    chosen: ChosenTier, contract: str, operations: int, report: Report, broken: dict[str, str]
) -> Result:
    """Check one contract; a contract that was seen broken, this one or another, is in `broken`."""
    began = time.perf_counter()
    verdict, says, counts = "holds", "", {}
    with _temporary_folder() as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o700)
        try:
            bench = check_contract(chosen, contract, root, operations=operations)
            counts = dict(bench.counts)
            report.lines += [
                f"{contract}: {what} was not tried, since its factory has no outage(root)"
                for what in bench.left_out
            ]
        except NotTried as reason:
            verdict, says = "not_reached", str(reason)
        except TierBroken as error:
            broken.setdefault(error.contract, error.said)
            verdict, says = "unknown", f"{error.contract} is broken first: {error.said}"
        except Exception as error:
            verdict, says = "unknown", f"an exception came through: {told(error)}"
    return Result(contract, RUNS, verdict, counts, time.perf_counter() - began, says)


def _judged(chosen: ChosenTier, result: Result, broken: str | None) -> Result:
    gap = chosen.known_gaps.get(result.contract)
    verdict, says = result.verdict, result.says
    if broken is not None and verdict != "not_claimed":
        verdict, says = ("expected_failure", gap) if gap else ("violated", broken)
    elif gap and verdict == "holds":
        verdict, says = "gap_closed", f"a known gap is closed: take it out of known_gaps ({gap})"
    return Result(result.contract, RUNS, verdict, result.counts, result.seconds, says)
