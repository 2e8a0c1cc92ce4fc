"""What the pages about the kit and the tiers say can be done is done here."""

import inspect
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tierproof.impl.keys import Namespace
from tierproof.impl.tiers.configuration import _SETTINGS, build_tiers
from tierproof.impl.tiers.files import FileTier
from tierproof.impl.tiers.memory import MemoryTier
from tierproof.impl.tiers.object_store import ObjectStoreTier
from tierproof.impl.tiers.redis import RedisTier
from tierproof.impl.tiers.slab import SlabTier
from tierproof.kit import ManagerConformance, TierConformance
from tierproof.properties.cli import main
from tierproof.properties.contracts import TIER_CONTRACTS

from .support import run_kit

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "sample_repository"
KIT = (ROOT / "docs" / "kit.md").read_text()
TIERS = (ROOT / "docs" / "tiers.md").read_text()
README = (ROOT / "README.md").read_text()
TIER_CLASSES: dict[str, Any] = {
    "memory": MemoryTier,
    "files": FileTier,
    "slab": SlabTier,
    "redis": RedisTier,
    "s3": ObjectStoreTier,
}


def commands(page, program):
    """The indented lines that call a program, with the variables before it left out."""
    lines = re.findall(r"^    (?:[A-Z_]+=\S+ )?(\S+ .*)$", page, re.MULTILINE)
    return [line.split("  #")[0].rstrip() for line in lines if line.split()[0] == program]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def table(page, head):
    """The rows of the table whose first heading is `head`, cell by cell."""
    found = page.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found]


# -- kit -----------------------------------------------------------------------------------------


def test_the_file_that_is_shown_is_the_one_that_passes():
    shown = blocks(KIT, "python")[0].partition("\n")[2]
    assert shown == (SAMPLE / "test_conformance.py").read_text().partition("\n\n")[2]


def test_the_workflow_and_the_hook_that_are_shown_are_those_that_are_run():
    shown = [yaml.safe_load(block) for block in blocks(KIT, "yaml")]
    files = (".github/workflows/conformance.yml", ".pre-commit-config.yaml")
    assert shown == [yaml.safe_load((SAMPLE / name).read_text()) for name in files]


def test_the_install_line_is_that_of_the_workflow():
    assert set(commands(KIT, "pip")) == {"pip install './tierproof[kit]'"}
    assert (
        "pip install './tierproof[kit]'"
        in (SAMPLE / ".github/workflows/conformance.yml").read_text()
    )


def test_the_options_that_are_shown_are_those_that_there_are(pytester):
    told = run_kit(pytester, "--help").stdout.str()
    there = set(re.findall(r"--tierproof-\w+", told))
    shown = {row[0].strip("`").split()[0] for row in table(KIT, "option")}
    assert shown == there


@pytest.mark.parametrize("command", sorted({*commands(KIT, "pytest"), *commands(README, "pytest")}))
def test_every_line_that_calls_pytest_finds_tests(command, pytester):
    shutil.copytree(SAMPLE, pytester.path, dirs_exist_ok=True)
    (pytester.path / "found").mkdir()
    (pytester.path / "found" / "test_one.py").write_text("def test_it(): pass\n")
    result = run_kit(pytester, *shlex.split(command)[1:], "--collect-only", "-q")
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    found = [line for line in result.outlines if "::" in line]
    assert found
    if "test_conformance.py" in command and "--tierproof-contracts" not in command:
        assert len(found) == 60


def test_every_attribute_that_is_shown_exists():
    for row in table(KIT, "attribute of `ManagerConformance`"):
        for name in re.findall(r"`(\w+)`", row[0]):
            assert hasattr(ManagerConformance, name), name
    (line,) = re.findall(r"^`TierConformance` has (.*?)\n\n", KIT, re.DOTALL | re.MULTILINE)
    for name in re.findall(r"`(\w+)(?:\(root\))?`", line):
        assert hasattr(TierConformance, name), name


# -- tiers ---------------------------------------------------------------------------------------


def every_field():
    return {kind: [f for f in s.__struct_fields__ if f != "kind"] for kind, s in _SETTINGS.items()}


def test_the_configuration_that_is_shown_has_every_setting_and_is_accepted(tmp_path):
    text = blocks(TIERS, "toml")[0]
    shown = {t["kind"]: sorted(set(t) - {"kind"}) for t in tomllib.loads(text)["tiers"]}
    assert shown == {kind: sorted(fields) for kind, fields in every_field().items()}
    here = text.replace("/var/cache", str(tmp_path)).replace("direct = ", "direct = ")
    path = tmp_path / "tiers.toml"
    path.write_text(here)
    secrets = {"CACHE_PASSWORD": "p", "S3_ACCESS_KEY": "a", "S3_SECRET_KEY": "s"}
    tiers = build_tiers(path, environment=secrets)
    assert [tier.name for tier in tiers] == ["memory", "nvme", "files", "redis", "s3"]
    for tier in tiers:
        tier.shutdown()


def test_the_namespace_that_is_shown_is_accepted_and_every_field_is_named():
    (tier,) = build_tiers(tomllib.loads(blocks(TIERS, "toml")[1]))
    assert tier.name == "memory"
    (told,) = re.findall(r"has the fields of a `Namespace`\.(.*?)Tiers with", TIERS, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", told)) == set(Namespace.__struct_fields__)


def test_every_setting_is_explained_with_its_kinds_and_its_default():
    explained = {}
    for names, of, default, _ in table(TIERS, "setting"):
        for name in re.findall(r"`(\w+)`", names):
            explained[name] = (of, default)
    fields = every_field()
    assert set(explained) == {f for some in fields.values() for f in some}
    for name, (of, default) in explained.items():
        having = {kind for kind, some in fields.items() if name in some}
        named = set(re.findall(r"`(\w+)`", of))
        assert having == (set(fields) - named if of.startswith("all") else named), name
        for kind in having:
            parameters = inspect.signature(TIER_CLASSES[kind]).parameters
            if name in parameters and parameters[name].default not in (inspect._empty, None, kind):
                assert f"`{toml(parameters[name].default)}`" in default, (kind, name)


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_every_contract_of_a_tier_is_told_in_its_words():
    assert dict((row[0].strip("`"), row[1]) for row in table(TIERS, "contract")) == {
        c.id: c.words for c in TIER_CONTRACTS.values()
    }


def test_the_table_of_kinds_says_what_each_claims():
    for kind, *_, claims in table(TIERS, "kind"):
        but = set(re.findall(r"`([TD]\d+-\w+)`", claims))
        assert set(TIER_CLASSES[kind.strip("`")].claims) == set(TIER_CONTRACTS) - but


def test_the_extras_that_are_named_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for command in (*commands(TIERS, "pip"), *commands(KIT, "pip")):
        (named,) = re.findall(r"\[([\w,]+)\]", command)
        assert set(named.split(",")) <= set(extras)


@pytest.mark.parametrize("command", commands(TIERS, "tierproof"))
def test_every_line_that_calls_tierproof_names_options_that_there_are(command, capsys):
    assert main([*shlex.split(command)[1:], "--help"]) == 0, capsys.readouterr().err
