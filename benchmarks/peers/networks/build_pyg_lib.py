"""Builds pyg-lib's part for the processor and installs it beside the interpreter that runs this.

SOURCE BUILD: the repository with its submodule third_party/parallel-hashmap; a folder for what is built. As its own
build does it, but without METIS and CUDA; -march=native. Takes some ten minutes on two cores.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from torch.utils import cpp_extension


def main(source: Path, build: Path) -> None:
    code, headers = source / "pyg_lib" / "csrc", source / "third_party" / "parallel-hashmap"
    if not (headers / "parallel_hashmap").is_dir():
        sys.exit(f"{headers} is empty: git submodule update --init third_party/parallel-hashmap")
    build.mkdir(parents=True, exist_ok=True)
    (build / "lock").unlink(missing_ok=True)  # of a build that was killed, for whose end PyTorch would wait for ever
    settings = (code / "config.h.in").read_text()
    _write(code / "config.h", settings.replace("@WITH_MKL_BLAS@", "0").replace("@NO_METIS@", "1"))
    files = []
    for path in sorted(code.rglob("*.cpp")):  # names of objects are those of files alone, and some come twice
        files.append(build / "_".join(path.relative_to(code).parts))
        _write(files[-1], f'#include "{path}"\n')
    cpp_extension.load(
        name="libpyg", sources=list(map(str, files)), extra_include_paths=[str(source), str(headers)],
        extra_cflags=["-O3", "-DNDEBUG", "-march=native", "-fopenmp", "-std=c++20", "-DPy_LIMITED_API=0x030A0000"],
        extra_ldflags=["-fopenmp"], build_directory=str(build), is_python_module=False,
    )  # fmt: skip
    target = Path(sysconfig.get_path("purelib")) / "pyg_lib"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "pyg_lib", target, ignore=shutil.ignore_patterns("csrc", "__pycache__"))
    shutil.copy(build / "libpyg.so", target)


def _write(path: Path, text: str) -> None:
    """Only where it says something else, so that nothing is built again for it."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
