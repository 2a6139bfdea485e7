"""The package itself: what it imports, what the wheel holds, what the README promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import sgrl

ROOT = Path(__file__).parent.parent


def run_python(script: str, *, cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_leaves_the_heavy_packages_alone() -> None:
    script = "import sys, sgrl; print(*{name.partition('.')[0] for name in sys.modules})"
    imported = set(run_python(script).split())
    assert {"sgrl", "mujoco", "gymnasium"} <= imported
    heavy = {"torch", "matplotlib", "imageio", "PIL", "pandas", "stable_baselines3", "ray", "tyro"}
    assert not imported & heavy


def test_import_is_quick() -> None:
    """Against what it can't do without, measured in the same run; the best of several."""

    def seconds(script: str) -> float:
        start = time.perf_counter()
        run_python(script)
        return time.perf_counter() - start

    pairs = [(seconds("import sgrl"), seconds("import gymnasium, mujoco")) for _ in range(5)]
    ours, theirs = map(min, zip(*pairs, strict=True))
    assert ours < 3 * theirs, f"{ours:.2f} s against {theirs:.2f} s"


def test_a_mujoco_without_batches_is_answered_with_what_to_install() -> None:
    script = """
import sys
sys.modules["mujoco.batch"] = None
try:
    import sgrl
except ImportError as error:
    print(error)
"""
    assert "pip install 'mujoco>=4.0,<5'" in run_python(script)


def test_public_names_exist_and_nothing_else_is_listed() -> None:
    assert dir(sgrl) == sorted(sgrl.__all__)
    assert len(set(sgrl.__all__)) == len(sgrl.__all__)
    for name in sgrl.__all__:
        assert getattr(sgrl, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", sgrl.__version__)
    with pytest.raises(AttributeError, match="no attribute 'maek_env'; it has Morphology, "):
        _ = sgrl.maek_env


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    (built,) = folder.iterdir()
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name) for name in names if name.endswith("/METADATA"))
    assert "sgrl/py.typed" in names
    source = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    assert {str(path) for path in source} == {name for name in names if name.endswith(".py")}
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"sgrl", f"sgrl-{sgrl.__version__}.dist-info"}
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert b"License-Expression: MIT" in metadata
    assert b"Requires-Python: >=3.11" in metadata


def test_the_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    command = (*pip, "install", "--no-deps", "--no-index", f"--target={place}", str(wheel))
    subprocess.run(command, check=True, capture_output=True)
    script = """
import runpy, sys
import sgrl
print(sgrl.__file__, flush=True)
sys.argv = ["sgrl", "envs"]
runpy.run_module("sgrl.cli", run_name="__main__")
"""
    first, *table = run_python(script, cwd=tmp_path, PYTHONPATH=str(place)).splitlines()
    assert Path(first).is_relative_to(place)
    assert sum("3d_" in line and "++" in line for line in table) == 29
    assert (place / "bin" / "sgrl").exists()


def test_the_readme_code_runs(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert block is not None, "README.md shows no Python code"
    run_python(block[1], cwd=tmp_path)


def test_the_readme_links_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#\s]+)\)", readme) + re.findall(r'src="([^"]+)"', readme):
        if "://" not in link and not link.startswith("mailto:"):
            assert (ROOT / link).exists(), link
