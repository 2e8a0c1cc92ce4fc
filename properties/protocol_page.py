"""The page of the two protocols: what a manager under test and a tier must have, call by call."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterator

from ..impl import arena
from ..impl.tiers import base
from ..model.operations import Setting
from . import under_test
from .checks import NEEDED_CALLS
from .contracts import CONTRACTS, TIER_CONTRACTS


def page(notice: str) -> str:
    """The page `protocols.md`."""
    return "\n".join(_page(notice)).rstrip() + "\n"


def _page(notice: str) -> Iterator[str]:
    yield from (notice, "", "# Protocols", "")
    yield "Two protocols join the kit and your code. Neither asks you to inherit from anything."
    yield from ("", "## A manager under test", "")
    yield inspect.cleandoc(under_test.__doc__ or "")
    yield from _settings()
    yield from ("### Calls", "")
    yield from _calls(under_test.ManagerUnderTest)
    yield from ("### What calls return", "")
    yield from _source(under_test.GpuOperation)
    yield from _source(under_test.BlockEvent)
    yield from ("### Calls that may be missing", "")
    yield inspect.cleandoc(under_test.OptionalCalls.__doc__ or "")
    yield ""
    yield from _calls(under_test.OptionalCalls)
    yield from _capabilities()
    yield from ("### Probes", "")
    yield inspect.cleandoc(under_test.Probes.__doc__ or "")
    yield ""
    yield from _calls(under_test.Probes)
    yield from ("### The arena", "")
    yield inspect.cleandoc(inspect.getdoc(arena.Arena) or "").partition("\n\nArgs:")[0]
    yield ""
    yield from _calls(arena.Arena, only=("row", "view", "release"))
    yield from ("### The hand-driven tier", "")
    yield inspect.cleandoc(under_test.HandDrivenTier.__doc__ or "")
    yield from ("", "## A tier", "")
    yield inspect.cleandoc(base.__doc__ or "")
    yield ""
    yield inspect.cleandoc(base.Tier.__doc__ or "")
    yield from ("", "### Calls of a tier", "")
    yield from _calls(base.Tier)
    ids = ", ".join(f"`{c}`" for c in TIER_CONTRACTS)
    yield "A tier says what it claims, and what it does not keep yet, as a manager does, by"
    yield f"`claims` and `known_gaps`. Its contracts are {ids}."
    yield from ("", "### What passes between them", "")
    yield from ("`from tierproof import Claim, Poll` and so on; `NOTHING` is an empty `Poll`.", "")
    for kind in (
        base.Claim,
        base.StorePolicy,
        base.RequestInfo,
        base.LoadJob,
        base.StoreJob,
        base.JobReport,
        base.Poll,
    ):
        yield from _source(kind)


SETTINGS = {
    "promotion_share": "share of the slots that promotions may withhold from stores",
    "cascade_share": "share of the slots that cascades may pin",
    "lease": "seconds that a landed block waits for those that it was promised to",
    "pending_deadline": "seconds after which a block that is being written is OVERDUE",
    "probe_deadline": "seconds that a tier may stay undecided about a key for a request",
    "reoffers": "how often a cascade that failed or was refused is offered again",
    "reoffer_pause": "seconds that a failed cascade rests before",
}


def _settings() -> Iterator[str]:
    yield from ("", "### Settings", "")
    yield "The factory is given none: the kit expects the defaults of the specification."
    yield from ("", "| setting | is | says |", "|---|---|---|")
    for name, says in SETTINGS.items():
        yield f"| `{name}` | {getattr(Setting(), name):g} | {says} |"
    yield ""


CAPABILITIES = """
What a manager can do it declares by four attributes, and by the calls and probes that it has.

* `claims`: a collection of contract ids. Without it all contracts are claimed. One that is left out
  is reported as *not claimed*.
* `known_gaps`: a dictionary, contract id -> reason. Such a contract is an *expected failure*. The
  tour is the same every time, so there a gap that is closed is red: take it out of the dictionary.
* `judged_by_what_is_seen`: true if it has policies of its own (shares, deadlines, what it drops).
  It is then not compared with our model step by step, but judged by the words of the contracts
  alone, over what was seen.
* `inexpressible`: a dictionary, contract id -> reason, of contracts that its interface has no words
  for. They are *not observable*.

Some contracts need more than the ten calls; where that is missing they are *not observable*.
"""


def _capabilities() -> Iterator[str]:
    yield from ("### What a manager says of itself", "", CAPABILITIES.strip(), "")
    yield from ("| contract | needs |", "|---|---|")
    for contract in CONTRACTS.values():
        needs = [f"the probe `{p}`" for p in contract.needs]
        needs += [f"the call `{c}`" for c in NEEDED_CALLS.get(contract.id, ())]
        if needs:
            yield f"| `{contract.id}` | {', '.join(needs)} |"
    yield ""


def _source(kind: type) -> Iterator[str]:
    yield "```python"
    yield textwrap.dedent(inspect.getsource(kind)).rstrip()
    yield from ("```", "")


def _calls(protocol: type, only: Collection[str] = ()) -> Iterator[str]:
    """Each call, or some, with its signature as written and what its docstring says."""
    body = ast.parse(textwrap.dedent(inspect.getsource(protocol))).body[0]
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        if isinstance(node, ast.FunctionDef) and (not only or node.name in only):
            says = (ast.get_docstring(node) or "").replace("\n", "\n  ")
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            yield f"* `{node.name}({ast.unparse(node.args)}){returns}`  "
            yield f"  {says}"
    yield ""
