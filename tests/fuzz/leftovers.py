"""What an input leaves in the folder that it was given in."""

from __future__ import annotations

from pathlib import Path


def left_behind(work: Path, is_refused: bool) -> str:
    """What should not be there afterwards."""
    rest = [path.relative_to(work) for path in work.rglob("*")]
    temporary = [path for path in rest if path.parts[0] == "tmp" and len(path.parts) > 1]
    odd = [str(path) for path in temporary if not path.parts[1].startswith("torchinductor")]  # PyTorch's own, once
    odd += [str(path) for path in rest if path.name.endswith(".tmp") and path not in temporary]
    odd += [str(path) for path in rest if is_refused and path.parts[0].split(".")[0] == "out"]
    return f"left behind: {', '.join(odd)}" if odd else ""
