"""Anonymous memory after the imports that training needs, nothing done yet: one JSON line."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

TRAINING = ("cli", "data", "kernels", "models", "plan", "sampling", "tables", "train")


def main() -> None:
    missing: dict[str, Any] = {"torch": None}
    sys.modules.update(missing)  # words train without it, and so do not load what needs it
    import any2vec

    for module in pkgutil.walk_packages(any2vec.__path__, "any2vec."):
        if module.name.split(".")[1] in (*TRAINING, "embeddings") and not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    lines = Path("/proc/self/status").read_text().splitlines()
    size = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    print(json.dumps({"bare_anon_bytes": size}))


if __name__ == "__main__":
    main()
