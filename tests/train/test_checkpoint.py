"""Checkpoints: arrays of any dtype and shape, and those of former versions."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from any2vec.errors import FormatError, InputError
from any2vec.formats.legacy import present_names
from any2vec.formats.safetensors_file import read_arrays, write_arrays
from any2vec.train.checkpoint import FILE, Checkpoint, load_checkpoint, save_checkpoint
from former_runs import CLICKS, LAYERS, STREAM, TRAIN, WORDS, interrupted

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="models of clicks and layers need torch")
STORED = Path(__file__).parents[1] / "fixtures" / "checkpoints"
STATE = {
    "rows": np.arange(6, dtype=np.float32).reshape(2, 3), "alive": np.array([True, False, True]),
    "step": np.array(2**40 + 1), "loss": np.array(0.1, np.float64), "ids": np.zeros(0, np.int64),
    "cube": np.arange(8, dtype=np.uint8).reshape(2, 2, 2),
}  # fmt: skip
EACH = [
    *WORDS, *(pytest.param(name, marks=needs_torch) for name in (*CLICKS, LAYERS)), STREAM,
]  # fmt: skip


SINCE = "fixed.since@"
"""what a former version did not keep: a replica that goes on from it counts its batches to the next sync anew"""


def settings_of(path: Path) -> dict[str, object]:
    return present_names(json.loads(read_arrays(path)[1]["any2vec"])["settings"])


def test_arrays_of_any_type_and_shape_come_back(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / FILE, Checkpoint(STATE, {"at": [1, "x"]}, {"seed": 1}, {"items": 4}))
    found = load_checkpoint(tmp_path / FILE, {"seed": 1})
    assert (found.place, found.settings, found.totals) == ({"at": [1, "x"]}, {"seed": 1}, {"items": 4})
    assert found.state.keys() == STATE.keys()
    for name, array in STATE.items():
        assert found.state[name].dtype == array.dtype and found.state[name].shape == array.shape
        assert np.array_equal(found.state[name], array)


def test_a_run_with_other_settings_is_reported_so(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / FILE, Checkpoint(STATE, {}, {"seed": 1}, {}))
    with pytest.raises(InputError, match="is of a run with seed = 1, this one has 2"):
        load_checkpoint(tmp_path / FILE, {"seed": 2})
    save_checkpoint(tmp_path / FILE, Checkpoint(STATE, {}, {"data": {"corpus": "6e38"}}, {}))
    said = "'6e38', this one has '81b6': its data are others, or were read otherwise; resume with the same data"
    with pytest.raises(InputError, match=rf"is of a run with data\.corpus = {said}"):
        load_checkpoint(tmp_path / FILE, {"data": {"corpus": "81b6"}})
    save_checkpoint(tmp_path / FILE, Checkpoint(STATE, {}, {"data": {"notes": ["as it was said"]}}, {}))
    assert load_checkpoint(tmp_path / FILE, {"data": {"notes": ["as it is said"]}}).settings  # in other words


@pytest.mark.parametrize("about", [{"version": 4}, {"version": 1}, {"format": "any2vec-stream-checkpoint"}, None, [3]])
def test_other_versions_are_refused_in_a_sentence(about: object, tmp_path: Path) -> None:
    whole = {"format": "any2vec-checkpoint", "version": 3, "place": {}, "settings": {}, "totals": {}}
    reported = whole | about if isinstance(about, dict) else about
    with (tmp_path / FILE).open("wb") as file:
        write_arrays(file, STATE, {"any2vec": json.dumps(reported)}, is_checked=True)
    with pytest.raises(FormatError, match=r"is no checkpoint that this version reads; start again with --overwrite\.$"):
        load_checkpoint(tmp_path / FILE, {})


@pytest.mark.parametrize("name", EACH)
def test_the_state_of_a_former_version_has_the_present_form(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    interrupted(name, tmp_path)
    path, former = tmp_path / name / FILE, STORED / f"{name}.safetensors"
    present = load_checkpoint(path, settings_of(path))
    found = load_checkpoint(former, settings_of(former))
    assert found.settings == present.settings and found.place.keys() == present.place.keys()
    assert {key: (array.dtype, array.ndim) for key, array in found.state.items()} == {
        key: (array.dtype, array.ndim) for key, array in present.state.items() if not key.startswith(SINCE)
    }


@pytest.mark.parametrize("name", EACH)
def test_a_run_goes_on_from_a_checkpoint_of_a_former_version(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    interrupted(name, tmp_path)  # for what else lies in the folder
    shutil.copy(STORED / f"{name}.safetensors", tmp_path / name / FILE)
    found = TRAIN[name](name, tmp_path, resume=True)
    shutil.rmtree(tmp_path / name)
    whole = TRAIN[name](name, tmp_path)
    assert list(found.embeddings.keys) == list(whole.embeddings.keys)
    counted = "words" if name == STREAM else "items"
    assert found.summary[counted] == whole.summary[counted]
    if name in CLICKS:  # which pushes meet depends on the clock
        assert np.isfinite(found.embeddings.vectors).all()
    else:  # to the bit on the same CPU
        assert np.allclose(found.embeddings.vectors, whole.embeddings.vectors, rtol=1e-3, atol=1e-5)
