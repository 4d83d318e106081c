"""What a run folder holds: run.json lists the files of a result, and a result in its place leaves none of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from any2vec import SGC, SkipGram, fit
from any2vec.data.options import NodeOptions
from any2vec.errors import InputError, StorageError
from any2vec.train.run_folder import ABOUT, run_folder, write_result

LINES = [["a", "b"]] * 50
BESIDE = {"run.json", "progress.jsonl"}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def listed(folder: Path) -> Any:
    return json.loads((folder / ABOUT).read_text()).get("files")


def put(folder: Path, files: Any, *names: str) -> None:
    """Give a result other files, and another list of them."""
    about = json.loads((folder / ABOUT).read_text()) | {"files": files}
    (folder / ABOUT).write_text(json.dumps(about))
    for name in names:
        (folder / name).write_text("mine")


def train(out: Path, **how: Any) -> None:
    fit(SkipGram(dim=4, min_count=1), LINES, out=out, epochs=1, threads=1, **how)


def test_a_model_of_another_kind_leaves_nothing_of_the_former(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="graph networks need torch")
    out = tmp_path / "out"
    edges, labels = [(0, 1), (1, 2), (2, 3), (3, 0)], [0, 1, 0, 1]
    split = {"train": [0, 1], "val": [2], "test": [3]}
    features = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    nodes = NodeOptions(features=features, labels=labels, split=split)
    fit(SGC(), edges, nodes=nodes, out=out, epochs=1, threads=1)
    assert "network.safetensors" in names_in(out) and names_in(out) == {*listed(out), *BESIDE}
    train(out, overwrite=True)
    assert names_in(out) == {*listed(out), *BESIDE} == {"meta.json", "vectors.safetensors", "vocabulary.tsv", *BESIDE}


def test_what_is_listed_goes_and_what_is_not_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    train(out)
    put(out, [*listed(out), "mine.bin", "gone.bin", "../beyond.bin", "\ud800", 7, None], "mine.bin", "notes.txt")
    (tmp_path / "beyond.bin").touch()
    train(out, overwrite=True)
    assert names_in(out) == {"meta.json", "vectors.safetensors", "vocabulary.tsv", "notes.txt", *BESIDE}
    assert (tmp_path / "beyond.bin").exists()


@pytest.mark.parametrize("files", [None, 7, "network.safetensors", {"mine.bin": 1}])
def test_results_from_before_the_list_are_known_by_name(files: Any, tmp_path: Path) -> None:
    train(tmp_path / "out")
    put(tmp_path / "out", files, "network.safetensors", "mine.bin")
    train(tmp_path / "out", overwrite=True)
    assert names_in(tmp_path / "out") == {*listed(tmp_path / "out"), "mine.bin", *BESIDE}


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_result_that_is_cut_while_it_is_put_in_place_leaves_nothing(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a name that only the list knows, cut behind so many renames."""

    class Kept:
        def write(self, path: Path) -> None:
            path.write_text("kept")

    class Vectors:
        def save_into(self, folder: Path) -> None:
            (folder / "meta.json").write_text("{}")

    moved, replace = 0, Path.replace

    def cut(self: Path, target: Path) -> Path:
        nonlocal moved
        is_placed = self.parent != target.parent
        moved += is_placed
        if is_placed and moved > at:
            raise OSError("no")
        return replace(self, target)

    parts: Mapping[str, Any] = {"a.mine": Kept(), "z.mine": Kept()}
    with pytest.raises(StorageError, match="no"), run_folder(tmp_path / "out", {}), monkeypatch.context() as patch:
        patch.setattr(Path, "replace", cut)
        write_result(tmp_path / "out", Vectors(), {"threads": 1}, {}, parts)
    assert moved == at + 1
    assert not (tmp_path / "out").exists() or not names_in(tmp_path / "out")


def test_a_finished_run_says_how_its_vectors_are_trained_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    train(out)
    with pytest.raises(InputError, match=r"epochs = 1, this one has 2; .* --init \S+out \(init= in Python\)"):
        fit(SkipGram(dim=4, min_count=1), LINES, out=out, epochs=2, threads=1, resume=True)
    with pytest.raises(InputError, match=r"dim.* or start again with --overwrite\.$"):
        fit(SkipGram(dim=5, min_count=1), LINES, out=out, epochs=1, threads=1, resume=True)
