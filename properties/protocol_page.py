"""The page of the two protocols: what a manager under test and a tier must have, call by call."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from ..impl.tiers import base
from . import under_test


def page(notice: str) -> str:
    """The page `protocols.md`."""
    return "\n".join(_page(notice)).rstrip() + "\n"


def _page(notice: str) -> Iterator[str]:
    yield from (notice, "", "# Protocols", "")
    yield "Two protocols join the kit and your code. Neither asks you to inherit from anything."
    yield from ("", "## A manager under test", "")
    yield inspect.cleandoc(under_test.__doc__ or "")
    yield from ("", "### Calls", "")
    yield from _calls(under_test.ManagerUnderTest)
    yield f"It may lack {', '.join(f'`{c}`' for c in under_test.OPTIONAL_CALLS)}; operations that "
    yield "need them are then left out."
    yield from ("", "### Probes", "")
    yield inspect.cleandoc(under_test.Probes.__doc__ or "")
    yield ""
    yield from _calls(under_test.Probes)
    yield from ("### The hand-driven tier", "")
    yield inspect.cleandoc(under_test.HandDrivenTier.__doc__ or "")
    yield from ("", "## A tier", "")
    yield inspect.cleandoc(base.__doc__ or "")
    yield ""
    yield inspect.cleandoc(base.Tier.__doc__ or "")
    yield from ("", "### Calls of a tier", "")
    yield from _calls(base.Tier)
    yield from ("### What passes between them", "")
    for kind in (
        base.Claim,
        base.StorePolicy,
        base.RequestInfo,
        base.LoadJob,
        base.StoreJob,
        base.JobReport,
        base.Poll,
    ):
        yield "```python"
        yield textwrap.dedent(inspect.getsource(kind)).rstrip()
        yield from ("```", "")


def _calls(protocol: type) -> Iterator[str]:
    """Each call with its signature as written and what its docstring says."""
    body = ast.parse(textwrap.dedent(inspect.getsource(protocol))).body[0]
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        if isinstance(node, ast.FunctionDef):
            says = (ast.get_docstring(node) or "").replace("\n", "\n  ")
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            yield f"* `{node.name}({ast.unparse(node.args)}){returns}`  "
            yield f"  {says}"
    yield ""
