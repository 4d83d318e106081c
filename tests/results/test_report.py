"""The page of a run: complete, self-contained, safe with any key, the same twice."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError, StorageError
from any2vec.report import figures, write_report
from any2vec.report.compare import compare_runs, write_comparison
from any2vec.report.figures import LIGHT, draw_curves
from any2vec.report.layout import clusters, flatten, place_labels
from any2vec.report.page import SIGNATURE
from any2vec.report.run import pictures_of, read_json_lines, read_run
from any2vec.report.tables import scores, spell_name, value_text

NASTY = ["<script>alert(1)</script>", "$x^2", "日本", "a" * 200, "&amp;", "'\"", "_under_", "tab\there", "\u202e", "🙂"]


def make_run(folder: Path, keys: list[str], dim: int = 8) -> Path:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(len(keys), dim)).astype(np.float32)
    Embeddings(keys, vectors, counts=np.arange(len(keys), 0, -1)).save(folder)
    records = [
        {"seconds": 0.5 * one, "epoch": one // 4, "epochs": 2, "loss": 3.0 / (one + 1), "items_per_s": 1e6}
        for one in range(8)
    ]
    (folder / "progress.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    about = {
        "settings": {"model": {"model": "skipgram", "dim": dim}, "data": {"lowercase": True}},
        "machine": {"cpu": "a processor", "memory_bytes": 25_000_000_000},
        "summary": {"items_per_s": 1234567.0, "loss": 0.375, "peak_rss_bytes": 312_000_000},
        "checksum": "0123abcd",
    }
    (folder / "run.json").write_text(json.dumps(about))
    return folder


class Page(HTMLParser):
    """What the page shows and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.shown: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "img", "source", "br", "input"}:
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "srcset", "href"}]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


def test_page_holds_everything_and_fetches_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", NASTY + [f"word{one}" for one in range(60)])
    scores = [
        {"task": "similarity", "spearman": 0.71, "sets": {"<WS>": {"pairs": 353}}},
        {"task": "nodes", "rows": [{"f1": 0.5}]},
    ]
    page = write_report(run, evaluation=scores, items=["word7"])
    assert page == run / "report.html"
    text = page.read_text(encoding="utf-8")
    parsed = Page(text)
    assert (
        all(address.startswith("data:image/png;base64,") for address in parsed.addresses) and len(parsed.addresses) == 4
    )
    assert "url(" not in text and "@import" not in text and "fetch(" not in text
    assert re.findall(r"<script[^>]*>", text) == ['<script type="application/json" id="map-data">', "<script>"]
    assert "default-src 'none'; img-src data:; style-src 'sha256-" in text and "unsafe" not in text
    shown = " ".join(parsed.shown)
    assert "0123abcd" not in shown
    for words in (
        "skipgram · run",
        "word7",
        NASTY[0],
        "1.23 M",
        "312 MB",
        "0.3750",
        "a processor",
        "lowercase",
        "<WS>",
        "353",
    ):
        assert words in shown, words
    for name in ("map", "curves"):
        with Image.open(run / f"report-{name}.png") as picture:
            assert picture.width == 1600 and len(picture.convert("RGB").getcolors(1 << 24)) > 5


def test_evaluations_are_named_by_all_their_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["a", "b", "c"])
    of_files = ("/x/a/test.tsv, /x/a/more.tsv", "/x/b/test.tsv")
    found = [{"task": "similarity", "data": data, "spearman": 0.5} for data in of_files]
    text = write_report(run, evaluation=found).read_text()
    for heading in ("similarity · test.tsv, more.tsv", "similarity · test.tsv"):
        assert f"<h3>{heading}</h3>" in text


def test_sums_without_questions_are_left_out() -> None:
    empty = {"correct": 0, "covered": 0, "questions": 0, "accuracy": None}
    asked = {"correct": 1, "covered": 2, "questions": 3, "accuracy": 0.5}
    result = {"task": "analogy", "sections": [{"name": "", **asked}], "semantic": empty, "syntactic": empty}
    page = scores(result | {"total": asked})
    assert "total" in page and "semantic" not in page and "syntactic" not in page


def test_memory_is_that_of_the_process_where_it_is_known(tmp_path: Path) -> None:
    """The tile says what the curve beside it says; runs of long ago know the whole alone."""
    run = make_run(tmp_path / "run", ["a", "b", "c"])
    assert "312 MB" in write_report(run).read_text()
    about = json.loads((run / "run.json").read_text())
    about["summary"]["peak_anon_bytes"] = 95_000_000
    (run / "run.json").write_text(json.dumps(about))
    page = write_report(run).read_text()
    assert "<b>95 MB</b><span>peak memory</span>" in page


def test_stages_have_a_section(tmp_path: Path) -> None:
    """Of a run that has any; whatever stands in their place in a summary, a page is written."""
    run = make_run(tmp_path / "run", ["a", "b", "c"])
    about = json.loads((run / "run.json").read_text())
    about["summary"] |= {
        "seconds_by_stage": {"sample": 1.0, "look_ahead": 0.0, "read": 2.5, "<gather>": 0.5, "train": 3.0},
        "waits_by_stage": {"sample": {"for_input": 0.0, "for_room": 3.0}, "train": {"for_input": 1.0}},
        "bytes_read": 5_000_000_000, "rows_read": 0, "data": {"num_features": 10},
    }  # fmt: skip
    (run / "run.json").write_text(json.dumps(about))
    text = write_report(run).read_text()
    shown = Page(text).shown
    start = shown.index("Stages")
    assert shown[shown.index("read", start) :][:5] == ["read", "2.5000", "0.0000", "0.0000", "0%"]
    assert shown[shown.index("sample", start) :][:5] == ["sample", "1.0000", "0.0000", "3.0000", "75%"]
    assert "<gather>" in shown and "look ahead" not in shown and "Read 2 GB/s" in " ".join(shown)
    assert (run / "report-stages.png").is_file() and "multiply-adds/s" in text
    for odd in (None, [], {"train": "long", "read": float("nan")}, {"train": True}):
        about["summary"] |= {"seconds_by_stage": odd, "waits_by_stage": odd}
        (run / "run.json").write_text(json.dumps(about))
        assert "Stages" not in Page(write_report(run).read_text()).shown


def test_a_compilation_that_was_none_is_not_reported(tmp_path: Path) -> None:
    """Where all kernels came from the cache; what took seconds is told."""
    run = make_run(tmp_path / "run", ["a", "b", "c"])
    about = json.loads((run / "run.json").read_text())
    for seconds, is_sent in ((0.0001963, False), (9.5, True), (None, False)):
        about["summary"]["compile_seconds"] = seconds
        (run / "run.json").write_text(json.dumps(about))
        assert ("compile seconds" in write_report(run).read_text()) is is_sent


def test_another_place_and_the_same_picture_twice(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [f"word{one}" for one in range(40)])
    first = write_report(run, tmp_path / "a" / "page.html")
    second = write_report(run, tmp_path / "b" / "page.html")
    assert sorted(one.name for one in first.parent.iterdir()) == ["page-curves.png", "page-map.png", "page.html"]
    assert first.with_name("page-map.png").read_bytes() == second.with_name("page-map.png").read_bytes()
    assert not (run / "report.html").exists()


def test_nothing_but_a_report_is_replaced_unasked(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [f"word{one}" for one in range(40)])
    for name in ("page.html", "page-map.png", "page-curves.png"):
        mine = tmp_path / name
        mine.write_text("mine")
        with pytest.raises(StorageError, match=f"{name} exists and is not of a report that any2vec wrote"):
            write_report(run, tmp_path / "page.html")
        assert mine.read_text() == "mine" and len(list(tmp_path.iterdir())) == 2
        mine.unlink()
    (tmp_path / "page.html").write_text("mine")
    first = write_report(run, tmp_path / "page.html", overwrite=True, title=SIGNATURE).read_text()
    assert first.count(SIGNATURE) == 1
    assert write_report(run, tmp_path / "page.html").read_text() != first


def test_pictures_of_the_page_before_go(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [f"word{one}" for one in range(40)])
    (run / "report-stages.png").write_bytes(b"left by a run that was trained anew")
    page = write_report(run)
    assert {path.name for path in pictures_of(page)} == {"report-map.png", "report-curves.png", "report-stages.png"}
    write_report(run)
    assert {path.name for path in pictures_of(page)} == {"report-map.png", "report-curves.png"}
    other = tmp_path / "words-2-map.png"
    other.write_bytes(b"of another page")
    assert other not in pictures_of(write_report(run, tmp_path / "words.html"))


def test_a_stream_has_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [f"word{one}" for one in range(40)])
    (run / "stream.json").write_text((run / "run.json").read_text())
    (run / "run.json").unlink()
    log = run / "progress.jsonl"
    log.write_text(log.read_text().replace("items_per_s", "words_per_s"))
    text = write_report(run).read_text()
    assert "a processor" in text and draw_curves(read_run(run).progress, LIGHT) is not None


def test_names_that_are_no_text_have_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run\udcff", [f"word{one}" for one in range(40)])
    assert "folder run\\udcff" in write_report(run).read_text(encoding="utf-8")
    assert "<h1>a\\udc80</h1>" in write_report(run, title="a\udc80").read_text(encoding="utf-8")
    shutil.copytree(run, tmp_path / "other")
    page = write_comparison(compare_runs([run, tmp_path / "other"]), tmp_path / "page.html")
    assert "<th>run\\udcff</th>" in page.read_text(encoding="utf-8")


def test_lines_end_where_they_end_alone(tmp_path: Path) -> None:
    log = tmp_path / "evaluation.jsonl"
    log.write_bytes('{"data": "a\u2028b\u0085c"}\r\n\n{"data": "d"}\n'.encode())
    assert [one["data"] for one in read_json_lines(log)] == ["a\u2028b\u0085c", "d"]


def test_the_full_log_of_a_stream_comes_first(tmp_path: Path) -> None:
    """What a stream wrote again behind a checkpoint counts once; without the first records the axis begins late."""

    def lines(*seconds: int) -> str:
        return "".join(json.dumps({"seconds": one, "loss": 1.0}) + "\n" for one in seconds)

    run = make_run(tmp_path / "run", ["a", "b", "c"])
    (run / "progress.1.jsonl").write_text(lines(100, 101, 102, 103))
    (run / "progress.jsonl").write_text(lines(102, 103, 104))
    assert [one["seconds"] for one in read_run(run).progress] == [100, 101, 102, 103, 104]
    (run / "progress.jsonl").write_text("")
    assert [one["seconds"] for one in read_run(run).progress] == [100, 101, 102, 103]


def test_an_axis_begins_where_the_records_do(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "_png", lambda figure: (drawn.append(figure), b"")[-1])
    for first, start in ((1, 0), (100, 100)):
        draw_curves([{"seconds": first + one, "loss": 1.0} for one in range(4)], LIGHT)
        assert drawn[-1].axes[0].get_xlim()[0] == start


@pytest.mark.parametrize("count", [1, 3, 11])
def test_tiny_runs(tmp_path: Path, count: int) -> None:
    run = make_run(tmp_path / "run", [f"k{one}" for one in range(count)], dim=1 if count == 3 else 4)
    Page(write_report(run).read_text(encoding="utf-8"))


def test_a_bare_embedding_folder_has_a_page_too(tmp_path: Path) -> None:
    Embeddings(["a", "b", "c", "d"], np.array([[0, 0], [1, 0], [0, 1], [1, 1]], np.float32)).save(tmp_path / "e")
    assert "curves" not in write_report(tmp_path / "e").read_text(encoding="utf-8")


def test_half_a_last_line_is_forgiven_and_damage_is_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["a", "b", "c"])
    progress = run / "progress.jsonl"
    whole = progress.read_text()
    progress.write_text(whole + '{"seconds": 4.')
    write_report(run)
    progress.write_text("nonsense\n" + whole)
    with pytest.raises(FormatError, match="line 1"):
        write_report(run)


def test_vectors_near_the_end_of_float32_are_drawn(tmp_path: Path) -> None:
    rows = (np.random.default_rng(0).uniform(-1, 1, (40, 4)) * 1e38).astype(np.float32)
    Embeddings([str(row) for row in range(40)], rows).save(tmp_path / "run")
    assert "Map of all 40 items" in write_report(tmp_path / "run").read_text()
    Embeddings([str(row) for row in range(40)], rows * 3).save(tmp_path / "longer")
    with pytest.raises(FormatError, match="too long for a float32 norm"):
        write_report(tmp_path / "longer")


def test_wrong_folder_and_unknown_item(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        write_report(tmp_path / "nothing")
    with pytest.raises(InputError, match="zebra"):
        write_report(make_run(tmp_path / "run", ["a", "b", "c"]), items=["zebra"])


def test_layout_is_deterministic_and_finite() -> None:
    vectors = np.repeat(np.eye(6), 10, axis=0)  # rows that coincide
    points = flatten(vectors, 3)
    assert points.shape == (60, 2) and np.isfinite(points).all()
    assert np.array_equal(points, flatten(vectors, 3))
    assert len(set(clusters(vectors, 3))) <= 7


def test_labels_never_trace() -> None:
    rng = np.random.default_rng(5)
    points, sizes = rng.random((200, 2)) * [800, 500], np.column_stack([rng.uniform(20, 90, 200), np.full(200, 12.0)])
    placed = place_labels(points, sizes, 4.0, 800, 500)
    assert 40 < len(placed) < 200 and placed[0][0] == 0
    boxes = [(left, bottom, left + sizes[index, 0], bottom + sizes[index, 1]) for index, left, bottom in placed]
    for one, box in enumerate(boxes):
        assert min(box) >= 0 and box[2] <= 800 and box[3] <= 500
        for other in boxes[:one]:
            assert box[2] <= other[0] or other[2] <= box[0] or box[3] <= other[1] or other[3] <= box[1]


def test_words_for_values() -> None:
    assert value_text("bytes", 0) == "0 B" and value_text("bytes", 1_500) == "1.5 kB"
    assert value_text("bytes", 24_485_861) == "24.5 MB"
    assert (
        value_text("x", True) == "yes"
        and value_text("x", 12345) == "12,345"
        and value_text("x", 0.00012345) == "0.0001234"
    )
    assert (
        value_text("rss_bytes", 2e9)
        == value_text("bytes_read", 2e9)
        == value_text("bytes_by_kind · rows", 2e9)
        == "2 GB"
        and value_text("x", [1, "a"]) == "1, a"
        and value_text("x", None) == "–"
    )
    assert not re.search(r"e\+", value_text("x", 1234567.0))


def test_monitors_are_labeled_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys such as $x are text, so formulas are switched off: no label may be one."""
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "_png", lambda figure: (figure.canvas.draw(), drawn.append(figure), b"")[-1])
    falling = [10.0**-power for power in range(6)]
    summary = {"lagrangian": falling, "residual": [0.0, *falling[1:]], "decrease": {"fell_p": falling}}
    figures.draw_monitors(summary, figures.LIGHT)
    labels = [label.get_text() for axes in drawn[0].axes for label in axes.get_yticklabels(which="both")]
    assert any(label.startswith("1e") for label in labels) and not any("$" in label for label in labels), labels
    for values in ([4.9, 3.3, 3.1], [0.9, 0.6, 0.35], [18.0, 5.0, 2.1], [2.0, 2.0, 2.0]):  # less than two powers of ten
        figures.draw_monitors({"lagrangian": values}, figures.LIGHT)
        axes = drawn[-1].axes[0]
        low, high = axes.get_ylim()
        places = [*axes.yaxis.get_ticklocs(), *axes.yaxis.get_ticklocs(minor=True)]
        texts = [label.get_text() for label in (*axes.yaxis.get_majorticklabels(), *axes.yaxis.get_minorticklabels())]
        seen = [text for place, text in zip(places, texts, strict=True) if text and low <= place <= high]
        assert len(seen) > 1 and all(float(text) > 0 for text in seen), (values, seen)


def test_monitors_are_figures_where_they_are_too_few_for_a_picture(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["a", "b", "c"])
    about = json.loads((run / "run.json").read_text())
    for values, is_listed in (([4.5, 3.25], True), ([4.5, 3.25, 2.75, 2.5], False)):
        about["summary"]["lagrangian"] = values
        (run / "run.json").write_text(json.dumps(about))
        page = write_report(run, overwrite=True).read_text()
        assert ("4.5, 3.25" in page) == is_listed != ("Training by pdADMM-G" in page)


def test_long_lists_are_told_by_their_ends() -> None:
    assert value_text("x", [0.5, *range(98), 7.25]) == "100 values, 0.5 to 7.25"
    assert value_text("x", list(range(24))).count(",") == 23
    assert value_text("data · bad_bytes", 3) == "3" and value_text("bytes", 3) == "3 B"


def test_names_are_as_people_write_them() -> None:
    assert spell_name("peak_anon_bytes") == "peak memory" and spell_name("items_per_s") == "items per second"
    assert spell_name("messages_per_step") == "messages per step" and spell_name("read_bytes_per_s").endswith("second")
    assert spell_name("log_loss") == "log loss" and spell_name("test_auc") == "test AUC"


def test_the_caption_names_lines_only_where_there_are_some() -> None:
    def records(epochs: int, step: int = 1) -> list[dict[str, Any]]:
        return [{"epoch": epoch, "seconds": 2.0 * epoch} for epoch in range(0, epochs, step)]

    assert figures.epoch_ends(records(4)) == [0.0, 2.0, 4.0]
    assert figures.epoch_ends(records(9, step=2)) == [] == figures.epoch_ends(records(40))
