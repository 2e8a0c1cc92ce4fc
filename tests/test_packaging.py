"""What is built, what is committed, and what `import tierproof` costs."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tierproof
from tierproof import _entry

ROOT = Path(__file__).parent.parent
ROOMS = ("model", "impl", "properties")
LINKS = ROOT / "src" / "tierproof"


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )


def python(code: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", code)


def modules_of(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build sdist, and from it the wheel, of a copy: an old build/ must not lend it modules."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    leavings = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*ROOMS, "src"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=leavings)
    out = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def expected_modules() -> set[str]:
    own = {f"tierproof/{path.name}" for path in LINKS.glob("*.py")}
    rooms = {f"tierproof/{path.relative_to(ROOT)}" for room in ROOMS for path in modules_of(room)}
    return own | rooms | {"tierproof/py.typed"}


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_linked_into_the_package(room):
    link = LINKS / room
    assert link.is_symlink(), f"{link} must be a link; a copy would drift from {room}/"
    assert os.readlink(link) == f"../../{room}"
    assert (link / "__init__.py").samefile(ROOT / room / "__init__.py")


def test_every_top_level_folder_with_modules_is_a_room_or_the_tests():
    folders = {path.parent.name for path in ROOT.glob("*/*.py")} - {
        "build",
        "dist",
        "tierproof-counterexamples",  # written by a check that found something; git ignores it
    }
    assert folders == {*ROOMS, "tests"}, "link a new room into src/tierproof and name it here"


def test_every_folder_with_modules_is_a_package():
    bare = {
        str(path.parent.relative_to(ROOT))
        for room in ROOMS
        for path in modules_of(room)
        if not (path.parent / "__init__.py").exists()
    }
    assert not bare, f"setuptools leaves these out of the wheel: {sorted(bare)}"


def test_the_wheel_holds_every_module_and_no_generic_name(built):
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    info = f"tierproof-{tierproof.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"tierproof", info}
    inside = {name for name in names if name.startswith("tierproof/")}
    assert expected_modules() <= inside, expected_modules() - inside
    assert not {name for name in inside - expected_modules() if name.endswith(".py")}
    assert f"{info}/licenses/LICENSE" in names


def test_the_sdist_holds_every_module(built):
    (sdist,) = built.glob("*.tar.gz")
    top = f"tierproof-{tierproof.__version__}"
    with tarfile.open(sdist) as archive:
        names = set(archive.getnames())
    missing = {name for name in expected_modules() if f"{top}/src/{name}" not in names}
    assert not missing


def test_the_version_is_in_the_changelog():
    assert f"\n## {tierproof.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_importing_the_package_imports_nothing_else():
    done = python(
        "import sys, tierproof\n"
        "heavy = {'numpy', 'torch', 'z3', 'hypothesis', 'typer', 'tierproof.impl'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    assert done.returncode == 0, done.stderr


def test_every_name_of_the_facade_exists():
    for name in tierproof.__all__:
        assert getattr(tierproof, name) is not None
    assert set(tierproof.__all__) <= set(dir(tierproof))


def test_the_facade_names_what_it_does_not_have():
    with pytest.raises(AttributeError, match="module 'tierproof' has no attribute 'Manager'"):
        tierproof.Manager  # noqa: B018


def test_serving_needs_the_base_install_only():
    optional = ["torch", "obstore", "valkey", "typer", "rich", "z3", "cvc5", "hypothesis", "pytest"]
    done = python(
        f"import sys\nsys.modules.update(dict.fromkeys({optional}))\n"
        "import tierproof\n[getattr(tierproof, name) for name in tierproof.__all__]"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("missing", sorted(_entry._KIT))
def test_the_console_script_names_the_extra_that_is_missing(missing):
    # A module that is None in sys.modules raises ModuleNotFoundError when it is imported.
    done = python(
        f"import sys\nsys.modules[{missing!r}] = None\n"
        "import types\ncli = types.ModuleType('tierproof.properties.cli')\n"
        f"def main():\n    import {missing}\n"
        "cli.main = main\nsys.modules['tierproof.properties.cli'] = cli\n"
        "from tierproof._entry import main\nsys.exit(main())"
    )
    assert done.returncode == 2
    assert "pip install '.[kit]'" in done.stderr
    assert missing in done.stderr
    assert "Traceback" not in done.stderr


def test_the_real_command_line_names_the_extra_on_a_base_install():
    done = python(
        f"import sys\nsys.modules.update(dict.fromkeys({sorted(_entry._KIT)}))\n"
        "sys.argv = ['tierproof', 'verify']\n"
        "from tierproof._entry import main\nsys.exit(main())"
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "pip install '.[kit]'" in done.stderr


def test_a_module_of_ours_that_is_missing_is_not_blamed_on_an_extra():
    done = python(
        "import sys\nsys.modules['tierproof.properties.cli'] = None\n"
        "from tierproof._entry import main\nsys.exit(main())"
    )
    assert done.returncode == 3
    assert "ModuleNotFoundError" in done.stderr


def test_an_interrupted_start_is_reported_as_interrupted():
    done = python(
        "import sys, types\ncli = types.ModuleType('tierproof.properties.cli')\n"
        "def main():\n    raise KeyboardInterrupt\n"
        "cli.main = main\nsys.modules['tierproof.properties.cli'] = cli\n"
        "from tierproof._entry import main\nsys.exit(main())"
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_every_dependency_is_pinned_in_the_constraints():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(item for extra in extras for item in extra)]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {item.partition(">=")[0].partition("[")[0].lower().replace("_", "-") for item in wanted}
    assert names - pinned == {"tierproof"}


@pytest.mark.parametrize("room", [*ROOMS, "src"])
def test_no_module_is_longer_than_four_hundred_lines(room):
    long = {
        str(path.relative_to(ROOT)): lines
        for path in modules_of(room)
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert not long, f"split by nouns of the domain: {long}"


def test_no_tracked_file_names_a_machine_or_a_registry():
    listed = run("git", "ls-files", "-z")
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    # Put together here, so that this file does not name them.
    banned = [
        "/" + "work/",
        "/" + "root/",
        "/" + "opt/",
        "pypi" + ".org",
        "python" + "hosted",
        "download." + "pytorch",
        "npm" + "js.",
        "deb." + "debian",
    ]
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_symlink() or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        found += [f"{name}: {word}" for word in banned if word in text]
    assert not found
