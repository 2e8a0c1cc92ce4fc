"""Charts are valid SVG with everything in them; the committed page is what its figures give."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tierproof.properties.speed import charts, growth, results, showing
from tierproof.properties.speed.ours import OurSide
from tierproof.properties.speed.rows import ROWS

ROOT = Path(__file__).parent.parent.parent
SVG = "{http://www.w3.org/2000/svg}"
DOCS = ROOT / "docs"
needs_page = pytest.mark.skipif(not (DOCS / "speed.json").exists(), reason="no page is committed")


def shapes(svg, kind):
    return ElementTree.fromstring(svg).findall(f".//{SVG}{kind}")


def texts(svg):
    return [text.text for text in shapes(svg, "text")]


def test_dots_have_their_whiskers_and_goals():
    rows = [
        charts.DotRow("a <call>", [charts.Dot(2.0, 1.0, 4.0), charts.Dot(3.0, 2.5, 3.5)], 1.5),
        charts.DotRow("b & c", [None, charts.Dot(20.0, 10.0, 40.0)]),
    ]
    svg = charts.dots("title", "axis", ["one", "two"], rows)
    assert {"title", "axis", "one", "two", "a <call>", "b & c", "goal"} <= set(texts(svg))
    assert len(shapes(svg, "circle")) == 2 + 3, "the legend's and the rows'"
    at = [float(c.get("cx")) for c in shapes(svg, "circle")[2:]]
    assert at == sorted(at), "a greater value lies further right"


def test_values_of_one_size_still_have_an_axis():
    svg = charts.dots("t", "a", ["s"], [charts.DotRow("r", [charts.Dot(1.0, 1.0, 1.0)])])
    assert len(shapes(svg, "circle")) == 2
    assert "nan" not in svg


def test_panels_show_every_line_at_every_point():
    line = [(1e3, 100.0), (1e5, 200.0), (1e7, 400.0)]
    shown = [charts.Panel(f"p{n}", {"ours": line, "floor": line[:2]}) for n in range(6)]
    svg = charts.panels("title", "x", "y", shown)
    assert len(shapes(svg, "polyline")) == 12
    assert len(shapes(svg, "circle")) == 6 * 5
    assert {"title", "ours", "floor", "p5", "10M"} <= set(texts(svg))


@pytest.mark.parametrize(
    ("ns", "words"),
    [(0.4, "0 ns"), (312.4, "312 ns"), (4_210, "4.21 µs"), (42_100, "42.1 µs"),
     (421_000, "421 µs"), (8_200_000, "8.20 ms"), (3e9, "3.00 s")],
)  # fmt: skip
def test_times_have_three_digits_and_a_unit(ns, words):
    assert showing.time_of(ns) == words


def test_growth_is_measured_against_resident_blocks_and_live_requests(monkeypatch):
    monkeypatch.setattr(growth, "LIVE", (1, 10))
    monkeypatch.setattr(growth, "LIVE_RESIDENT", 1_000)
    grown = growth.grow(OurSide, 1_000, 1, lambda done, total: None)
    assert len(grown.resident) == len(growth.BY_RESIDENT)
    assert len(grown.live) == len(growth.BY_LIVE)
    assert all(line.at == [1_000] and line.floor_ns for line in grown.resident)
    assert all(line.at == [1, 10] and line.floor_ns is None for line in grown.live)
    assert all(ns > 0 for line in (*grown.resident, *grown.live) for ns in line.ours_ns)


def test_growth_goes_in_powers_of_ten():
    assert growth.sizes(1_000) == [1_000]
    assert growth.sizes(10_000_000) == [1_000, 10_000, 100_000, 1_000_000, 10_000_000]


def test_memory_for_each_block_leaves_out_its_row_and_its_key():
    found = growth.memory(20_000, OurSide, None)
    assert 100 < found.ours < 300
    assert found.stock is None


# -- what is committed ---------------------------------------------------------------------------


@needs_page
def test_the_page_and_its_charts_are_what_their_figures_give():
    result = results.read(DOCS / "speed.json")
    assert (DOCS / "speed.md").read_text() == showing.page(result)
    assert (DOCS / showing.CHART).read_text() == showing.chart(result)
    assert result.growth is not None
    assert (DOCS / showing.GROWTH_CHART).read_text() == showing.growth_chart(result)


@needs_page
def test_the_committed_figures_have_every_row_and_both_sizes():
    result = results.read(DOCS / "speed.json")
    assert [table.resident for table in result.tables] == [10_000, 1_000_000]
    assert result.stock == "vLLM 0.33.0"
    assert result.rounds >= 9
    for table in result.tables:
        assert [row.row for row in table.rows] == [row.name for row in ROWS]


@needs_page
def test_every_ratio_in_the_readme_is_one_of_the_committed_figures():
    section = (ROOT / "README.md").read_text().partition("## How fast it is")[2]
    section = section.partition("\n## ")[0]
    result = results.read(DOCS / "speed.json")
    rows = re.findall(r"^\| ([^|]+?) \| ([\d.]+) \| ([\d.]+) \|", section, re.MULTILINE)
    assert len(rows) >= 8
    for name, *ratios in rows:
        for table, ratio in zip(result.tables, ratios, strict=True):
            measured = table.of(name).ratio
            assert measured is not None
            assert f"{measured.median:.1f}" == ratio, f"{name}, {table.resident:,} resident"
