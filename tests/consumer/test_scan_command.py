"""`tierproof scan`: its report, its picture, and bad workloads by the field that is wrong."""

import json
from xml.etree import ElementTree

import pytest

from tierproof.properties.cli import main

from .support import FULL, SHIPPED

PUBLIC = SHIPPED / "public-bpc1.json"
GOOD = json.loads((SHIPPED / "waves-12-on-8.json").read_text())


def test_the_report_has_the_figures_of_all_and_of_each(tmp_path):
    path = tmp_path / "scan.json"
    assert main(["scan", str(PUBLIC), "--consumer", "pending", "--json", str(path)]) == 0
    result = json.loads(path.read_text())["result"]
    assert result["promoted"] == 54
    (each,) = result.pop("requests")
    assert each.pop("id") == "r0"
    assert {name: value for name, value in result.items() if name != "served"} == each


def test_two_phases_and_a_tier_that_answers_a_step_later_are_the_defaults(capsys):
    assert main(["scan", str(PUBLIC)]) == 0
    told = capsys.readouterr().out
    assert "consumer two-phase, a tier that answers 1 step later" in told
    assert "checked 736, promoted 54" in told
    assert "1.00 promoted for each block read" in told


def test_the_picture_shows_a_strip_for_each_group(tmp_path):
    path = tmp_path / "strips.svg"
    assert main(["scan", str(PUBLIC), "--plot", str(path)]) == 0
    root = ElementTree.parse(path).getroot()
    told = " ".join(node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text"))
    for word in ("c4state (2,048)", "unreachable", "asked", "promoted", "read"):
        assert word in told
    assert path.stat().st_size < 200_000


def test_an_unknown_consumer_is_refused(capsys):
    assert main(["scan", str(PUBLIC), "--consumer", "three-phase"]) == 2
    assert "--consumer three-phase: choose one of retry, pending, two-phase" in (
        capsys.readouterr().err
    )


def with_request(**fields):
    return {**GOOD, "requests": [{**GOOD["requests"][0], **fields}]}


def with_group(**fields):
    return {**GOOD, "groups": [FULL, {"name": "g", "tokens_per_block": 16, **fields}]}


BAD = {
    "requests[0].prompt_tokens": with_request(prompt_tokens=10**12),
    "requests[0].prompt_tokens: must": with_request(prompt_tokens=-1),
    "requests[0].gpu_tokens": with_request(gpu_tokens=-1),
    "requests[0].gpu_tokens: must": with_request(gpu_tokens=1000),
    "requests[0].arrival_step": with_request(arrival_step=-1),
    "requests[0].max_load_tokens": with_request(max_load_tokens=-1),
    "requests[0].prefix_of": with_request(prefix_of="nobody", prefix_tokens=1),
    "requests[0].prefix_tokens": with_request(prefix_tokens=7),
    "unknown field `colour` - at `requests[0]`": with_request(colour="red"),
    "Expected `int`, got `str` - at `requests[0].prompt_tokens`": with_request(prompt_tokens="x"),
    "unknown field `max_tokens`": {**GOOD, "max_tokens": 3},
    "missing required field `version`": {k: v for k, v in GOOD.items() if k != "version"},
    "version": {**GOOD, "version": 2},
    "blocks_per_chunk": {**GOOD, "blocks_per_chunk": 0},
    "primary_slots": {**GOOD, "primary_slots": -5},
    "bytes_per_block": {**GOOD, "bytes_per_block": 0},
    "groups": {**GOOD, "groups": []},
    "groups: a window group needs a full group": {
        **GOOD,
        "groups": [{"name": "w", "kind": "window", "tokens_per_block": 16, "window": 32}],
    },
    "groups[1].window": with_group(kind="window", window=-1),
    "groups[1].tokens_per_block": with_group(kind="full", tokens_per_block=-16),
    "groups[1].retained_tokens": with_group(kind="full", retained_tokens=-1),
    "Invalid enum value 'half' - at `groups[1].kind`": with_group(kind="half"),
    "unknown field `windows` - at `groups[1]`": with_group(kind="full", windows=1),
    "tiers[0].missing[0].group": {
        **GOOD,
        "tiers": [{"name": "t", "missing": [{"group": "nobody", "chunks": [1]}]}],
    },
    "tiers[0].missing[0].chunks[1]": {
        **GOOD,
        "tiers": [{"name": "t", "missing": [{"group": "full", "chunks": [1, -1]}]}],
    },
    "tiers[1].name": {**GOOD, "tiers": [{"name": "t"}, {"name": "t"}]},
    "requests": {**GOOD, "requests": []},
    "requests[1].id": {**GOOD, "requests": [GOOD["requests"][0]] * 2},
}


@pytest.mark.parametrize("field", BAD)
def test_a_bad_workload_is_refused_by_its_field(field, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(BAD[field]))
    assert main(["scan", str(path)]) == 2
    assert field in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 1e400}'])
def test_what_is_no_workload_is_refused(text, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert main(["scan", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_a_file_that_is_not_there_is_refused(tmp_path, capsys):
    assert main(["scan", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
