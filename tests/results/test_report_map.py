"""What a report says of classes, which items its map has, and the map in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.attributed.predictions import PREDICTIONS, NodePredictions, Predicted, class_shares
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError
from any2vec.report import write_report
from any2vec.report.figures import LIGHT, draw_map, draw_stages
from any2vec.report.items import OTHER, choose_items
from any2vec.report.scores import Confusions, by_class, classes_section, confusions, headlines
from any2vec.report.stages import StageSeconds
from browser import Browser

CLASSES = ["a", "b", "c"]
KNOWN = np.array([0, 0, 0, 1, 1, 2, -1])
SAID = np.array([0, 0, 1, 1, 0, 2, 2])
ROWS = {"train": np.array([5]), "val": np.array([], int), "test": np.array([0, 1, 2, 3, 4])}


def kept(folder: Path, label_N: np.ndarray = KNOWN) -> Predicted:
    score_NC = np.where(np.eye(3)[SAID] > 0, 2.0, -1.0).astype(np.float32)
    predictions = NodePredictions(list(range(10, 17)), CLASSES, score_NC, class_shares, label_N, ROWS)
    predictions.write(folder / PREDICTIONS)
    found = Predicted.read(folder)
    assert found is not None
    return found


def test_predictions_are_kept_as_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    found = kept(tmp_path)
    assert found.node == list(range(10, 17)) and found.label == ["a", "a", "a", "b", "b", "c", None]
    assert found.predicted == [CLASSES[at] for at in SAID] and found.split == ["test"] * 5 + ["train", None]
    share = np.exp(2) / (np.exp(2) + 2 * np.exp(-1))
    written = parquet.read_table(tmp_path / PREDICTIONS)["probability"].to_pylist()
    assert written == pytest.approx([share] * 7, rel=1e-6)
    assert Predicted.read(tmp_path / "nothing") is None
    (tmp_path / PREDICTIONS).write_bytes(b"PAR1 and nonsense")
    with pytest.raises(FormatError, match="is damaged"):
        Predicted.read(tmp_path)


def test_infinite_scores_share_alike() -> None:
    score_NC = np.array([[np.inf, 0, np.inf], [-np.inf, 3, 3], [-np.inf] * 3], np.float32)
    assert class_shares(score_NC).tolist() == [[0.5, 0, 0.5], [0, 0.5, 0.5], pytest.approx([1 / 3] * 3)]


def test_nodes_of_several_classes_have_lists(tmp_path: Path) -> None:
    several = np.array([[1, 1, 0]] * 7)
    found = kept(tmp_path, several)
    assert found.label == [["a", "b"]] * 7 and found.predicted == [[CLASSES[at]] for at in SAID]
    assert confusions(found) is None


def test_confusions_of_the_test_nodes(tmp_path: Path) -> None:
    found = confusions(kept(tmp_path))
    assert found is not None and found.part == "test" and found.classes == ["a", "b"]
    assert found.count_CC.tolist() == [[2, 1], [1, 1]]
    of_a, of_b = by_class(found)
    assert of_a == {"class": "a", "nodes": 3, "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    assert of_b == {"class": "b", "nodes": 2, "precision": 0.5, "recall": 0.5, "f1": 0.5}
    text = classes_section(found._replace(classes=["<b>", "b"]))
    assert '<td class="number h7">2</td>' in text and "<b>" not in text  # 2 of 3: seven tenths, rounded up


def test_scores_stand_first() -> None:
    evaluation = [
        {"task": "similarity", "data": "dir/men.txt", "spearman": 0.7123},
        {"task": "nodes", "data": "l.tsv", "scores": [{"micro_f1": 0.1}, {"micro_f1": 0.25}]},
        {"task": "triples", "data": "t.tsv", "mrr": None},
        {"task": "of another package", "data": "x"},
    ]
    validated = {"val_accuracy": 0.25, "best_epoch": 2, "validation": [{"epoch": 2, "val_accuracy": 0.25, "mrr": 1.0}]}
    assert headlines(validated, []) == [("accuracy, validation nodes", "0.250")]
    assert headlines({"test_accuracy": 0.5, "val_accuracy": None}, evaluation) == [
        ("accuracy, test nodes", "0.500"), ("Spearman, men.txt", "0.712"), ("micro-F1, l.tsv", "0.250"),
    ]  # fmt: skip


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 4)).astype(np.float32)


def test_the_most_frequent_items_are_on_the_map() -> None:
    vectors = rows(50)
    vectors[49] = 0
    embeddings = Embeddings([f"k{one}" for one in range(50)], vectors, counts=np.arange(50))
    found = choose_items(embeddings, None, 10, 1)
    assert found.rows.tolist() == list(range(48, 38, -1)) and found.is_ranked
    assert found.caption == "Map of the 10 most frequent of 50 items" and len(found.legend) == 1


def test_frequent_items_without_a_vector_leave_their_place_to_others() -> None:
    vectors = rows(50)
    vectors[1:7] = 0
    embeddings = Embeddings([f"k{one}" for one in range(50)], vectors, counts=np.arange(50, 0, -1))
    assert choose_items(embeddings, None, 10, 1).rows.tolist() == [0, *range(7, 16)]


def test_items_without_counts_are_drawn() -> None:
    embeddings = Embeddings([f"k{one}" for one in range(50)], rows(50))
    found = choose_items(embeddings, None, 10, 1)
    assert len(set(found.rows.tolist())) == 10 and found.rows.max() >= 10 and not found.is_ranked
    assert found.caption == "Map of 10 of 50 items, drawn at random"
    assert choose_items(embeddings, None, 10, 2).rows.tolist() != found.rows.tolist()


def test_colors_are_classes_where_there_are_any() -> None:
    embeddings = Embeddings([f"k{one}" for one in range(40)], rows(40))
    classes = [None, *(f"c{one % 13:02}" for one in range(39))]
    found = choose_items(embeddings, classes, 100, 1)
    assert len(found.legend) == 10 and found.kind == "class"  # of 13, for there are ten colors
    for row, group in zip(found.rows.tolist(), found.group_N.tolist(), strict=True):
        name = classes[row]
        assert group == (found.legend.index(name) if name in found.legend else OTHER)


def test_each_column_of_clicks_has_its_share() -> None:
    keys = [f"user=u{one}" for one in range(90)] + [f"item=i{one}" for one in range(10)]
    embeddings = Embeddings(keys, rows(100), counts=np.ones(100), meta={"model": {"model": "deepfm"}})
    found = choose_items(embeddings, None, 40, 1)
    assert found.legend == ("item", "user") and np.bincount(found.group_N).tolist() == [10, 30]


def test_columns_of_hashed_values_are_columns(tmp_path: Path) -> None:
    keys = [f"user#{one}" for one in range(40)] + [f"item#{one}" for one in range(40)]
    embeddings = Embeddings(keys, rows(80), counts=np.ones(80), meta={"model": {"model": "deepfm"}})
    assert choose_items(embeddings, None, 40, 1).legend == ("item", "user")


def test_the_size_of_the_map_has_bounds(tmp_path: Path) -> None:
    Embeddings(["a", "b", "c"], rows(3)).save(tmp_path / "run")
    with pytest.raises(InputError, match="map_items must be a whole number from 3 to 10,000, got 2"):
        write_report(tmp_path / "run", map_items=2)


def test_all_neighbors_are_asked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question goes over all vectors: of 200,000 of them, one by one is most of a report's time."""
    Embeddings([f"k{one}" for one in range(50)], rows(50), counts=np.arange(50)).save(tmp_path / "run")
    asked: list[int] = []
    nearest = Embeddings.nearest

    def counting(embeddings: Embeddings, query: list[str], k: int) -> object:
        asked.append(len(query))
        return nearest(embeddings, query, k)

    monkeypatch.setattr(Embeddings, "nearest", counting)
    write_report(tmp_path / "run", items=["k3"], map_items=10)
    assert asked == [12 + 10]  # the table's, and the map's


def test_names_of_several_lines_stand_on_one() -> None:
    items = choose_items(Embeddings(["a\nb", "c", "d"], rows(3)), None, 3, 1)
    point_N2 = np.array([[0.2, 0.2], [0.5, 0.5], [0.8, 0.8]])
    broken, plain = (draw_map(point_N2, [name, "c", "d"], items, LIGHT) for name in ("a\nb", "a b"))
    assert broken == plain != draw_map(point_N2, ["ab", "c", "d"], items, LIGHT)


def test_a_browser_finds_items_and_their_neighbors(tmp_path: Path) -> None:
    keys = ["<img src=x onerror=alert(1)>", "</script><i>", *(f"word{one}" for one in range(60))]
    Embeddings(keys, rows(62), counts=np.arange(62, 0, -1)).save(tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text(json.dumps({"settings": {"model": {"model": "skipgram"}}}))
    page = write_report(tmp_path / "run")
    nearest = Embeddings.load(tmp_path / "run").nearest("word7", 6)
    with Browser() as browser:
        browser.open(page.as_uri())
        browser.wait("document.querySelectorAll('#map circle').length === 62")
        assert browser.read("document.querySelectorAll('img[src=x], i').length") == 0
        find = "const box = document.getElementById('map-search'); box.value = 'word7';"
        browser.read(f"{{ {find} box.dispatchEvent(new Event('input')); box.form.requestSubmit(); }}")
        assert browser.wait("document.getElementById('map-about').innerText").startswith("word7 · group of")
        chips = browser.read("[...document.querySelectorAll('#map-about .near')].map(one => one.firstChild.data)")
        assert chips == [key for key, _ in nearest]
        assert browser.read("document.getElementById('map-count').textContent") == "1 of 62"
        picked = "document.querySelector('#map circle[r=\"7\"]')"
        x, y = (float(browser.read(f"{picked}.getAttribute('{name}')")) for name in ("cx", "cy"))
        width, height = browser.read("document.querySelector('#map svg').getAttribute('viewBox')").split()[2:]
        assert x == pytest.approx(float(width) / 2) and y == pytest.approx(float(height) / 2)
        browser.read("document.getElementById('map-closer').click()")
        browser.wait("document.querySelectorAll('#map text').length > 3")
        browser.read("document.querySelector('#map-legend button').click()")
        assert browser.read("document.querySelectorAll('#map circle.faint').length") > 0


@pytest.mark.parametrize("width", [1280, 400])
def test_every_point_is_whole_within_the_map(width: int, tmp_path: Path) -> None:
    vectors = rows(200)
    vectors[:, 0] += np.arange(200) // 4 % 2 * 9  # groups of outliers on all sides
    Embeddings([f"w{one}" for one in range(200)], vectors).save(tmp_path / "run")
    page = write_report(tmp_path / "run")
    data = json.loads(page.read_text().split('id="map-data">')[1].split("</script>")[0])
    assert max(up for _, _, up, *_ in data["items"]) > 1 and min(across for _, across, *_ in data["items"]) < 0
    with Browser() as browser:
        browser.open(page.as_uri())
        browser.look(width, 900)
        browser.wait("document.querySelectorAll('#map circle').length === 200")
        inside = "box.left >= map.left && box.top >= map.top && box.right <= map.right && box.bottom <= map.bottom"
        outside = (
            "(() => { const map = document.querySelector('#map svg').getBoundingClientRect();"
            " return [...document.querySelectorAll('#map circle')].filter(dot => {"
            f" const box = dot.getBoundingClientRect(); return !({inside}); }}).length; }})()"
        )
        assert browser.wait(f"{outside} === 0")


def test_the_first_stage_stands_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("any2vec.report.figures._png", lambda figure: drawn.append(figure) or b"")
    draw_stages([StageSeconds("sample", 1.0, 0.0, 0.5), StageSeconds("train", 2.0, 0.5, 0.0)], LIGHT)
    (axes,) = drawn[0].axes
    assert axes.yaxis_inverted() and [label.get_text() for label in axes.get_yticklabels()] == ["sample", "train"]


def test_a_long_class_is_named_by_both_its_ends() -> None:
    names = ["of just 18 letters", "begins_and_then_ends_here"]
    page = classes_section(Confusions("test", names, np.array([[2, 1], [0, 3]])))
    heat = page[page.index("Confusions") :]
    assert heat.count(">of just 18 letters<") == heat.count(">begins_a…ends_here<") == 2
