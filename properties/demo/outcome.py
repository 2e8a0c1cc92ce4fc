"""What came of a run: is it identical, and where is it not; in words and as data."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

from tierproof import __version__

from ...impl.counted import counted
from .prompt import (
    BLOCK_BYTES,
    DECODED,
    GROUPS,
    TOKENS,
    VOCABULARY,
    Chunk,
    Prompt,
    named,
    tokens_of,
)
from .results import Resumed, Written
from .secondary import Flip
from .settings import Settings

SCHEMA = "tierproof.demo/1"
_ROW = VOCABULARY * 4
"""Bytes of a token's logits."""


@dataclass
class Outcome:
    """Both processes of a run, compared bit by bit."""

    settings: Settings
    written: Written
    resumed: Resumed
    flip: Flip | None = None
    seconds: float = 0.0
    server: str = ""
    """Which server the tier used, in words."""
    different: list[Chunk] = field(init=False)
    """Blocks whose bytes on the device are not those that were stored."""
    first_difference: int | None = field(init=False)
    """The first decoded token whose logits differ, counted from 1; None: none."""

    def __post_init__(self) -> None:
        ours, theirs = self.resumed.logits, self.written.logits
        rows = range(0, len(theirs), _ROW)
        unlike = (at for at in rows if ours[at : at + _ROW] != theirs[at : at + _ROW])
        at = next(unlike, None)
        self.first_difference = None if at is None else at // _ROW + 1
        stored = self.written.fingerprints
        loaded = self.resumed.fingerprints
        self.different = [at for at, found in loaded.items() if stored.get(at) != found]

    @property
    def identical(self) -> bool:
        """Whether every bit of every decoded token's logits, and of every loaded block, is."""
        same = self.first_difference is None and len(self.resumed.logits) == DECODED * _ROW
        return same and not self.different

    @property
    def exit(self) -> int:
        """The exit code."""
        return 0 if self.identical else 1

    def as_json(self) -> dict[str, Any]:
        """The run as data; `schema` names its form."""
        settings, written, resumed = self.settings, self.written, self.resumed
        stored, read = len(written.fingerprints), len(resumed.fingerprints)
        computed = written.seconds["prefill"]
        return {
            "schema": SCHEMA,
            "identical": self.identical,
            "exit": self.exit,
            "versions": {
                "python": platform.python_version(),
                "tierproof": __version__,
                "torch": written.torch,
            },
            "tier": settings.tier["kind"],
            "device": settings.device,
            "seed": settings.seed,
            "kv_layout": settings.layout,
            "checksums": settings.checksums,
            "processes": [written.process, resumed.process],
            "flipped": None
            if self.flip is None
            else {**_block(self.flip.at), "byte": self.flip.byte},
            "first_differing_token": self.first_difference,
            "differing_blocks": [_block(at) for at in self.different],
            "refused_blocks": [_block(at) for at in resumed.refused],
            "tokens": {
                "prompt": TOKENS,
                "hit": resumed.hit,
                "computed_again": TOKENS - resumed.hit,
                "decoded": DECODED,
            },
            "blocks": {
                "computed": blocks_computed(),
                "stored": stored,
                "promoted": resumed.promoted,
                "read": read,
                "corrupt": resumed.corrupt,
                "waves": resumed.waves,
            },
            "bytes": {
                "block": BLOCK_BYTES,
                "device_to_primary": written.stored_bytes,
                "primary_to_secondary": written.kept * BLOCK_BYTES,
                "secondary_to_primary": resumed.promoted * BLOCK_BYTES,
                "primary_to_device": resumed.loaded_bytes,
            },
            "seconds": {
                **{name: round(value, 6) for name, value in self.times().items()},
                "total": round(self.seconds, 6),
            },
            "ratios": {
                "stored_of_computed": round(stored / blocks_computed(), 4),
                "read_of_stored": round(read / stored, 4),
                "load_of_prefill": round(resumed.seconds["load"] / computed, 4),
                "resumed_of_prefill": round(
                    (resumed.seconds["load"] + resumed.seconds["rest"]) / computed, 4
                ),
            },
        }

    def times(self) -> dict[str, float]:
        """What took how many seconds."""
        written, resumed = self.written.seconds, self.resumed.seconds
        return {
            "prefill": written["prefill"],
            "decode": written["decode"],
            "prefill_and_offload": written["prefill_and_offload"],
            "load": resumed["load"],
            "compute_the_rest": resumed["rest"],
            "decode_after_load": resumed["decode"],
        }

    def rows(self) -> list[tuple[str, int | None, int | None, float | None]]:
        """What was done: words, blocks, bytes, seconds."""
        written, resumed, times = self.written, self.resumed, self.times()
        stored, read = len(written.fingerprints), len(resumed.fingerprints)
        return [
            (f"prefill of {TOKENS:,} tokens, never offloaded", None, None, times["prefill"]),
            ("the same, offloading", None, None, times["prefill_and_offload"]),
            ("  device to primary tier", stored, written.stored_bytes, None),
            ("  primary to secondary tier", written.kept, written.kept * BLOCK_BYTES, None),
            ("in a new process: look up, load", None, None, times["load"]),
            ("  secondary to primary tier", resumed.promoted, resumed.promoted * BLOCK_BYTES, None),
            ("  primary tier to device", read, resumed.loaded_bytes, None),
            (
                f"prefill of the other {counted(TOKENS - resumed.hit, 'token')}",
                None,
                None,
                times["compute_the_rest"],
            ),
            (f"decode of {DECODED} tokens", None, None, times["decode_after_load"]),
        ]

    def lines(self) -> list[str]:
        """What is to be said besides the figures."""
        resumed, figures = self.resumed, self.as_json()["ratios"]
        waves = counted(resumed.waves, "wave")
        found = [
            f"stored: {len(self.written.fingerprints)} of {blocks_computed()} whole blocks, those "
            "that some hit needs",
            f"read: {len(resumed.fingerprints)} of them in {waves}, for a hit of {resumed.hit:,} "
            "tokens; a sliding window needs its last blocks only",
            f"loading and computing the rest took {figures['resumed_of_prefill']:.2f} of the time "
            "of computing everything",
        ]
        if self.server:
            found.append(self.server)
        if self.flip is not None:
            checks = "are" if self.settings.checksums else "are not"
            found.append(
                f"flipped: a bit in byte {self.flip.byte:,} of {named(self.flip.at)}; checksums "
                f"{checks} looked at"
            )
        for at in resumed.refused:
            found.append(f"refused by the tier: {named(at)}")
        if resumed.refused:
            found.append(f"computed again: everything from token {resumed.hit:,} on")
        for at in self.different:
            found.append(f"not what was stored: {named(at)}, key {self._key(at)}")
        return found

    def conclusion(self) -> str:
        """One sentence for the end."""
        if self.identical:
            return (
                f"identical: all logits of {DECODED} decoded tokens, bit by bit, and the bytes of "
                f"{len(self.resumed.fingerprints)} loaded blocks"
            )
        first = self.first_difference
        token = "no logit differs" if first is None else f"logits differ from token {first} on"
        blocks = ", ".join(named(at) for at in self.different)
        return f"NOT identical: {token}" + (f"; not as stored: {blocks}" if blocks else "")

    def _key(self, at: Chunk) -> str:
        return Prompt(self.settings.seed).key(*at).block_hash.hex()[:16]


def blocks_computed() -> int:
    """Whole blocks of the prompt, of all groups."""
    return sum(TOKENS // group.tokens_per_block for group in GROUPS)


def _block(at: Chunk) -> dict[str, Any]:
    tokens = tokens_of(at)
    return {"group": GROUPS[at[0]].name, "block": at[1], "tokens": [tokens.start, tokens.stop]}
