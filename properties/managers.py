"""Which manager is under test: from what a user writes after `--manager` to a factory that works.

A user's own manager is tried once before anything is checked, so that a missing call or a wrong
signature is told in one sentence instead of as a violated contract.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..impl.manager import TieredOffloadingManager
from .contracts import CONTRACTS
from .driver import AN_OPERATION, BLOCK_BYTES, Factory, is_operation
from .telling import raised_in, told
from .under_test import OPTIONAL_CALLS, Clock, HandDrivenTier, ManagerUnderTest

if TYPE_CHECKING:
    from ..model.rules import Rule

SHIPPED = "tierproof"
BARE_FAULTS = ("retry_on_promotion", "submits_twice")
"""The two faulty managers that answer to their bare names; all others are `fault:NAME`."""
CLOSE = 0.75
"""How like a name must be to be offered instead: a guess that is far off only puzzles."""
WAYS = "--manager takes tierproof, fault:NAME, vllm:VERSION, module:factory or file.py:factory"
FACTORY = "factory(*, slots, tiers, clock, block_bytes)"
REQUIRED_CALLS = {
    name: call
    for name, call in vars(ManagerUnderTest).items()
    if inspect.isfunction(call) and not name.startswith("_")
}
"""The calls that a manager must have, with the signatures of the protocol."""
OPTIONAL_SIGNATURES = {
    "lookup_many": lambda self, keys, request: None,
    "exists": lambda self, keys, request: None,
    "plan_load": lambda self, keys, request: None,
    "withdraw": lambda self, keys, request: None,
    "reset_cache": lambda self, *, tiers: None,
    "on_reset_flushed": lambda self: None,
    "external": lambda self, tier_name: None,
}
"""The calls that it may lack, with the arguments that they are given."""


class UsageError(Exception):
    """A user's mistake: one sentence that says what to write instead; exit code 2."""

    told = False
    """Has a test of the kit said it already? The other tests of the same class need not."""


@dataclass(frozen=True)
class Chosen:
    """A manager to be held to the contracts."""

    spec: str
    """What the user wrote; writing it again gives the same manager."""
    factory: Factory
    ours: bool = True
    """Built in (shipped, or a built-in fault), so the table is its specification or its break."""
    rules: tuple[Rule, ...] | None = None
    """The table mutation that a built-in faulty manager brings; None for the table as it is."""
    claims: Collection[str] = tuple(CONTRACTS)
    """Ids of the contracts that the manager claims to keep."""
    known_gaps: Mapping[str, str] = field(default_factory=dict)
    """Contracts that it claims and is known not to keep yet, each with the reason."""
    probes: Collection[str] = ()
    lacks: Collection[str] = ()
    """Optional calls that it does not have."""
    watched: bool = False
    """It has policies of its own and is judged by what is seen alone (`watch`)."""
    inexpressible: Mapping[str, str] = field(default_factory=dict)
    """Contracts that its interface has no words for, each with the reason."""

    def answers_for(self, contract: str) -> bool:
        """Is it news that this contract is broken: is it claimed, and no known gap?"""
        return contract in self.claims and contract not in self.known_gaps


def shipped(
    *, slots: int, tiers: Sequence[Any], clock: Clock, block_bytes: int
) -> TieredOffloadingManager:
    """The production manager with its default settings."""
    return TieredOffloadingManager(slots=slots, tiers=tiers, clock=clock, block_bytes=block_bytes)


def resolve(spec: str = SHIPPED, *, beside: Path | None = None) -> Chosen:
    """The manager that a user named.

    `beside` is a file whose folder, and those above it, are searched as well as the current one
    for a `file.py`: a counterexample is often run from elsewhere than where it was found.

    Raises:
        UsageError: there is no such manager, or it cannot be driven.
    """
    if spec == SHIPPED:
        return _tried(Chosen(spec, shipped))
    kind, colon, name = spec.partition(":")
    if not colon and spec in BARE_FAULTS:
        return _fault(spec, spec)
    if colon and kind == "fault":
        return _fault(spec, name)
    if colon and kind == "vllm":
        from .vllm_manager import factory

        return _tried(Chosen(spec, factory(name), ours=False))
    if not colon:
        raise UsageError(_unknown(spec))
    where, _, attribute = spec.rpartition(":")
    if not where or not attribute:
        raise UsageError(f"{spec!r} does not name a factory; {WAYS}")
    module = _module_of(where, beside)
    return _tried(Chosen(spec, _factory_in(module, where, attribute), ours=False))


def of_factory(
    factory: Factory,
    spec: str,
    *,
    claims: Collection[str] | None = None,
    known_gaps: Mapping[str, str] | None = None,
) -> Chosen:
    """The managers that a callable builds, under the name `spec`.

    `claims` and `known_gaps`, where given, count instead of what the manager says of itself.

    Raises:
        UsageError: it builds nothing that can be driven, or a contract is named that there is not.
    """
    _must_accept(factory, spec, FACTORY, slots=2, tiers=(), clock=0, block_bytes=64)
    chosen = _tried(Chosen(spec, factory, ours=False))
    if claims is not None:
        chosen = replace(chosen, claims=_contract_ids(claims, "claims", spec))
    if known_gaps is not None:
        chosen = replace(chosen, known_gaps=dict(_contract_ids(known_gaps, "known_gaps", spec)))
    return chosen


# -- built in ------------------------------------------------------------------------------------


def known_names() -> list[str]:
    """The managers that have names."""
    from .faults import FAULTS

    others = sorted(name for name in FAULTS if name not in BARE_FAULTS)
    return [SHIPPED, *BARE_FAULTS, *(f"fault:{name}" for name in others)]


def _fault(spec: str, name: str) -> Chosen:
    from .faults import FAULTS

    if name not in FAULTS:
        raise UsageError(_unknown(spec))
    fault = FAULTS[name]
    return _tried(Chosen(spec, fault.factory, rules=fault.rules))


def _unknown(spec: str) -> str:
    if spec.endswith(".py"):
        return f"{spec!r} does not say which factory in the file: write {spec}:NAME"
    names = known_names()
    close = difflib.get_close_matches(spec, names, n=3, cutoff=CLOSE)
    close += [n for n in names if n == f"fault:{spec}" and n not in close]
    if close:
        return f"there is no manager {spec!r}; did you mean {' or '.join(close)}?"
    few = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return f"there is no manager {spec!r}; the built-in ones are {few}; {WAYS}"


# -- a user's own --------------------------------------------------------------------------------


def _module_of(where: str, beside: Path | None) -> ModuleType:
    if where.endswith(".py") or "/" in where:
        return _module_in_file(where, beside)
    if not all(part.isidentifier() for part in where.split(".")):
        raise UsageError(f"{where!r} is not the name of a module; {WAYS}")
    with _importing(where, Path.cwd()):
        return importlib.import_module(where)


def _module_in_file(where: str, beside: Path | None) -> ModuleType:
    here = Path(where).expanduser()
    folders = [Path.cwd(), *(beside.resolve().parents if beside and not here.is_absolute() else ())]
    path = next((f / here for f in folders if (f / here).is_file()), None)
    if path is None:
        raise UsageError(f"there is no file {where!r} (looked in the folder {Path.cwd()})")
    if path.suffix != ".py":
        raise UsageError(f"{where!r} is not a Python file: its name must end in .py")
    name = f"manager_under_test_{path.stem}"
    described = importlib.util.spec_from_file_location(name, path)
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up by name
    with _importing(where, path.resolve().parent):
        described.loader.exec_module(module)
    return module


@contextmanager
def _importing(where: str, folder: Path) -> Iterator[None]:
    """Import a user's module with `folder` on the path; what goes wrong is the user's to mend."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(f"{error.name}.")):
            raise UsageError(
                f"there is no module {where!r} that could be imported from {folder}; {WAYS}"
            ) from None
        raise UsageError(f"{where} could not be imported: {told(error)}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"{where} could not be imported: {told(error)}") from error


def _factory_in(module: ModuleType, where: str, attribute: str) -> Factory:
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            own = [n for n, v in vars(module).items() if callable(v) and n[0] != "_"]
            close = difflib.get_close_matches(attribute, own, n=3, cutoff=CLOSE)
            hint = f"; did you mean {where}:{close[0]}?" if close else ""
            raise UsageError(f"{where} has no {attribute!r}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(
            f"{where}:{attribute} is {_a(found)} and cannot be called; name a class or a function "
            f"{FACTORY} that returns a manager"
        )
    _must_accept(found, f"{where}:{attribute}", FACTORY, slots=2, tiers=(), clock=0, block_bytes=64)
    return found  # type: ignore[no-any-return]  # anything callable


def named(spec: str, ways: str, wanted: str, **arguments: object) -> Any:
    """What a user named as module:factory or file.py:factory, seen to accept these arguments.

    Raises:
        UsageError: there is no such thing, or it does not accept them; `ways` says what to write.
    """
    where, _, attribute = spec.rpartition(":")
    if not where or not attribute:
        raise UsageError(f"{spec!r} does not name a factory; {ways}")
    try:
        found: Any = _module_of(where, None)
    except UsageError as mistake:
        raise UsageError(str(mistake).replace(WAYS, ways)) from mistake
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageError(f"{where} has no {attribute!r} that could be called as {wanted}; {ways}")
    _must_accept(found, spec, wanted, **arguments)
    return found


def _must_accept(call: Any, name: str, wanted: str, *args: object, **named: object) -> None:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # written in C, say: calling it will tell
        return
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        raise UsageError(
            f"{name} must accept {wanted}, and it is {name.rpartition(' ')[2]}{signature}: {error}"
        ) from None


def _tried(chosen: Chosen) -> Chosen:
    """Build one manager and see whether it can be driven, what it claims, what it shows."""
    tier = HandDrivenTier("t0")
    spec = chosen.spec
    with _trying(f"{spec} could not build a manager"):
        manager = chosen.factory(slots=2, tiers=(tier,), clock=lambda: 0.0, block_bytes=BLOCK_BYTES)
    missing = [name for name in REQUIRED_CALLS if not callable(getattr(manager, name, None))]
    if missing:
        raise UsageError(
            f"{spec} returned {_a(manager)}, which has no {', no '.join(missing)}; return a "
            "manager with the calls of tierproof.properties.under_test.ManagerUnderTest"
        )
    for name, call in (REQUIRED_CALLS | OPTIONAL_SIGNATURES).items():
        if callable(getattr(manager, name, None)):
            _must_take(getattr(manager, name), f"{spec}: {name}", name, call)
    if getattr(tier, "_arena", None) is None:
        raise UsageError(
            f"{spec} built a manager that did not call attach(arena) on the tiers that it was given"
        )
    # the lockstep is not prepared for these three to raise, so a manager that never works is
    # found out here
    for name in ("take_events", "has_pending_work", "probe"):
        if callable(getattr(manager, name, None)):
            with _trying(f"{spec}: {name}() failed"):
                getattr(manager, name)()
    find = getattr(manager, "probe", None)
    probe = find() if callable(find) else None
    _store_once(manager, spec)
    return replace(
        chosen,
        claims=_ids(manager, "claims", spec, tuple(CONTRACTS)),
        known_gaps=dict(_ids(manager, "known_gaps", spec, {})),
        probes=tuple(name for name in dir(probe) if name[0] != "_") if probe is not None else (),
        lacks=tuple(n for n in OPTIONAL_CALLS if not callable(getattr(manager, n, None))),
        watched=bool(getattr(manager, "judged_by_what_is_seen", False)),
        inexpressible=dict(_ids(manager, "inexpressible", spec, {})),
    )


def _must_take(call: Any, where: str, name: str, wanted: Any) -> None:
    """Refuse a call that cannot be made with all the arguments that the protocol names."""
    _, *parameters = inspect.signature(wanted).parameters.values()
    named = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    placed = [p.name for p in parameters if p.name not in named]
    told = ", ".join([*placed, *(["*", *named] if named else [])])
    _must_accept(call, where, f"{name}({told})", *placed, **dict.fromkeys(named))


def _store_once(manager: Any, spec: str) -> None:
    """See what kind of thing a store is told: it is used in every history."""
    with _trying(f"{spec}: a first store failed"):
        request = manager.on_new_request("a request", tier_filter=None)
        operation = manager.prepare_store(["a key"], request)
    # that there is no room is for the checks to say
    if operation is not None and not is_operation(operation):
        raise UsageError(
            f"{spec}: prepare_store returned {_a(operation)}; return None, or {AN_OPERATION}"
        )


@contextmanager
def _trying(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UsageError(f"{what}: {told(error)}") from error


def _ids(manager: Any, attribute: str, spec: str, default: Any) -> Any:
    return _contract_ids(getattr(manager, attribute, default), attribute, spec)


def _contract_ids(said: Any, attribute: str, spec: str) -> Any:
    if callable(said) or isinstance(said, str) or not isinstance(said, Collection):
        kind = "a collection of contract ids" if attribute == "claims" else "a dict: id -> reason"
        raise UsageError(f"{spec}: {attribute} must be {kind}, not {_a(said)}")
    for name in said:
        if name not in CONTRACTS:
            close = difflib.get_close_matches(str(name), CONTRACTS, n=1, cutoff=CLOSE)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"{spec}: {attribute} names {name!r}, which is no contract{hint}")
    if attribute != "claims" and not isinstance(said, Mapping):
        raise UsageError(f"{spec}: {attribute} must be a dict: id -> reason, not {_a(said)}")
    return said


# -- telling -------------------------------------------------------------------------------------


def _a(thing: object) -> str:
    name = type(thing).__name__
    return "None" if thing is None else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def raised_by(chosen: Chosen, error: BaseException) -> bool:
    """Did the manager under test raise this where nothing was prepared for it?"""
    return not chosen.ours and raised_in(error) != ""
