"""Virtual environments of the peers under `.venvs/`, made by pip with pinned versions, once."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.table import NotMeasuredError

FOLDER = Path(__file__).resolve().parents[1] / ".venvs"

PINS: dict[str, tuple[str, ...]] = {
    "gensim": ("gensim==4.4.0", "numpy==2.2.6", "scipy==1.15.3"),
    # PecanPy 2.0.9 needs numpy 1 (its nptyping names types that numpy 2 removed); numba 0.60 works with numpy 1.26.
    "pecanpy": (
        "pecanpy==2.0.9",
        "gensim==4.4.0",
        "numpy==1.26.4",
        "numba==0.60.0",
        "numba-progress==1.2.0",
        "nptyping==2.5.0",
        "scipy==1.15.3",
    ),
    "fastnode2vec": ("fastnode2vec==0.0.7", "gensim==4.4.0", "numpy==2.2.6", "numba==0.61.2", "scipy==1.15.3"),
    "lightgbm": ("lightgbm==4.7.0", "scikit-learn==1.9.1", "numpy==2.4.6", "scipy==1.17.1"),
    "implicit": ("implicit==0.7.3", "numpy==2.4.6", "scipy==1.17.1", "threadpoolctl==3.8.0", "tqdm==4.70.1"),
    # fbgemm's CPU build 1.8 loads beside torch 2.13; 1.9 does not.
    "torchrec": (
        "fbgemm-gpu-cpu==1.8.0",
        "torch==2.13.0+cpu",
        "numpy==2.4.6",
        "tensordict==0.15.3",
        "torchmetrics==1.0.3",
        "pyre-extensions==0.0.32",
        "tqdm==4.70.1",
    ),
    "pykeen": (
        "pykeen==1.11.1",
        "torch==2.13.0+cpu",
        "numpy==2.4.6",
        "pandas==3.1.1",
        "scipy==1.17.1",
        "scikit-learn==1.9.1",
        "class-resolver==0.8.2",
        "torch-max-mem==0.1.6",
        "torch-ppr==0.0.8",
        "docdata==0.0.5",
        "pystow==0.10.3",
        "optuna==5.0.0",
    ),
    # Of 2020, the newest on the package index; it asks setuptools for its own version.
    "pbg": (
        "torchbiggraph==1.0.0",
        "torch==2.13.0+cpu",
        "numpy==2.4.6",
        "h5py==3.16.0",
        "attrs==26.1.0",
        "tqdm==4.70.1",
        "setuptools==80.9.0",
    ),
    # Wheels of pyg-lib stand on no index of pip's: it is built, with ninja and setuptools.
    "pyg": ("torch==2.13.0+cpu", "torch_geometric==2.8.1", "numpy==2.4.6", "ninja==1.13.2", "setuptools==80.9.0"),
    # What reads files of edges beside PyG, which needs no compiled extension for that.
    "pyg-tables": (
        "torch==2.13.0+cpu", "torch_geometric==2.8.1", "numpy==2.4.6", "pandas==3.1.1", "pyarrow==26.0.1",
    ),
    # Its libraries load beside torch 2.2.1 at the latest, which without an index of its own comes with CUDA's.
    "dgl": (
        "dgl==2.1.0", "torch==2.2.1", "torchdata==0.7.1", "numpy==1.26.4", "pandas==2.2.3", "pyyaml==6.0.2",
        "pydantic==2.10.6", "setuptools==69.5.1",
    ),
}  # fmt: skip
MODULES = {"pbg": "torchbiggraph", "pyg": "pyg_lib", "pyg-tables": "torch_geometric"}
"""environment -> module of the peer, where it is not named like the environment"""
ALONE: dict[str, tuple[str, ...]] = {"torchrec": ("torchrec==1.8.0",)}
"""installed after the pins and without what they ask for: torchrec asks for fbgemm's CUDA build"""
BUILT: dict[str, tuple[str, str, str]] = {"pyg": ("pyg-lib", "build_pyg_lib.py", "ANY2VEC_PYG_LIB")}
"""what no pip installs: its name, the script of peers/ that builds it, and the variable that names its repository"""
INDEX: dict[str, str] = dict.fromkeys(
    ("torchrec", "pykeen", "pbg", "pyg", "pyg-tables", "dgl"), "https://download.pytorch.org/whl/cpu"
)
"""where else pip looks when the pins are not all to be had without"""


def python(name: str) -> Path:
    """The interpreter of a peer's environment, made first if it is not there or its pins changed.

    Raises NotMeasuredError with pip's last error when it cannot be made (no network, no wheel for this Python).
    """
    folder, interpreter, wanted = FOLDER / name, _interpreter(name), _pins(name)
    if _is_made(name):
        return interpreter
    print(f"benchmarks: making the environment of {name} ({', '.join(wanted.split())})", file=sys.stderr)
    venv.EnvBuilder(with_pip=True, clear=True, symlinks=os.name != "nt").create(folder)
    error = _install(interpreter, *PINS[name])
    if error and name in INDEX:
        error = _install(interpreter, "--extra-index-url", INDEX[name], *PINS[name])
    if not error and name in ALONE:
        error = _install(interpreter, "--no-deps", *ALONE[name])
    if error:
        raise NotMeasuredError(f"pip could not make the environment of {name}: {error}")
    if name in BUILT:
        _build(name, interpreter)
    (folder / "pins.txt").write_text(wanted)
    return interpreter


def _build(name: str, interpreter: Path) -> None:
    """Build what pip cannot install. Raises NotMeasuredError where its repository is not named, or that fails."""
    what, script, variable = BUILT[name]
    source = os.environ.get(variable)
    if not source:
        raise NotMeasuredError(f"{what} has no wheel; clone its repository with submodules and name it in {variable}")
    path = next((Path(__file__).parent / "peers").glob(f"*/{script}"))
    command = [str(interpreter), str(path), source, str(FOLDER / f"{what}-build")]
    environment = os.environ | {"PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}"}  # ninja's
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotMeasuredError(f"{what} could not be built: {last}")


def installed(name: str) -> Path:
    """The interpreter of a peer's environment where that has been made, or this one where it has the peer.

    Raises NotMeasuredError where neither is so: nothing is installed.
    """
    if _is_made(name):
        return _interpreter(name)
    if importlib.util.find_spec(MODULES.get(name, name)) is not None:
        return Path(sys.executable)
    raise NotMeasuredError(f"the peer {name} is not installed")


def _interpreter(name: str) -> Path:
    return FOLDER / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _pins(name: str) -> str:
    return "\n".join((*PINS[name], *ALONE.get(name, ()))) + "\n"


def _is_made(name: str) -> bool:
    stamp = FOLDER / name / "pins.txt"
    return _interpreter(name).exists() and stamp.exists() and stamp.read_text() == _pins(name)


def _install(interpreter: Path, *arguments: str) -> str:
    """Run pip install, wheels alone; pip's last error, or "" when all went well."""
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no message"]
    return lines[-1] if done.returncode else ""
