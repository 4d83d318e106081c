"""Interactions from text, tables, matrices and lists; what is wrong with them is said."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from any2vec.data.interactions.interactions import Interactions, read_interactions
from any2vec.data.interactions.options import InteractionOptions
from any2vec.errors import DataError, InputError

PAIRS = {("a", "x"): 3.0, ("a", "y"): 4.0, ("b", "x"): 6.0}


def pairs_of(found: Interactions) -> dict[tuple[Any, Any], float]:
    weights = found.weight_E if found.weight_E.size else np.ones(len(found))
    return {
        (found.users[user], found.items[item]): weight
        for user, item, weight in zip(found.users_of_pairs(), found.item_E, weights.tolist(), strict=True)
    }


TEXTS = {
    "csv": ("user_id,item,weight\na,x,3\na,y,4\nb,x,5\nb,x,1\n", {}),
    "order": ("count;item;user\n3;x;a\n4;y;a\n6;x;b\n", {}),
    "tsv": ("a\tx\t3\na\ty\t4\nb\tx\t6\n", {"use_columns": "1,2,3"}),
    "spaces": ("# who what\na  x 3\r\na y  4\n\nb x 6\n", {"use_columns": "1,2,3"}),
    "columns": ("who,what,times\na,x,3\na,y,4\nb,x,6\n", {"use_columns": "who,what,times", "header": True}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str, tmp_path: Path) -> None:
    text, options = TEXTS[name]
    (tmp_path / "rows.txt").write_text(text)
    found = read_interactions(str(tmp_path / "rows.txt"), InteractionOptions(**options))
    assert pairs_of(found) == PAIRS and found.report.weighted
    assert found.report.repeated == (name == "csv")


def test_columns_beside_user_and_item_count_where_they_are_weights(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text("1\t5\t3\t881250949\n1\t6\t1\t881250950\n")
    found = read_interactions(tmp_path / "u.data")
    assert pairs_of(found) == {("1", "5"): 1.0, ("1", "6"): 1.0} and found.report.ignored_columns == 2


def test_columns_without_names_are_taken_by_place(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,x,3\na,y,4\nb,x,6\n")
    assert pairs_of(read_interactions(tmp_path / "rows.csv")) == PAIRS
    found = read_interactions(tmp_path / "rows.csv", InteractionOptions(use_columns="1,2"))
    assert pairs_of(found) == dict.fromkeys(PAIRS, 1.0) and found.report.ignored_columns == 1
    for line in ("user,item,stamp\na,x,5\n", "a,x,881250949\n", "a,x,monday\n", "a\tx\t\n"):  # no weights
        (tmp_path / "rows.tsv").write_text(line)
        assert read_interactions(tmp_path / "rows.tsv").report.ignored_columns == 1
    frame = pytest.importorskip("pandas").DataFrame([(user, item, weight) for (user, item), weight in PAIRS.items()])
    assert pairs_of(read_interactions(frame)) == PAIRS


@pytest.mark.parametrize(
    ("text", "num_pairs"),
    [
        ("who,what\n1,2\n3,4\n", 2),  # words over numbers
        ("who,what,weight\nann,tea,2\nbob,tea,1\n", 2),
        ("USER_ID,ITEM_ID\nann,tea\n", 1),
        ("ann,tea\nbob,milk\n", 2),
        ("ann,book\nbob,book\n", 2),  # a usual name of a column that is an item: it comes again
        ("u,tea\nv,milk\n", 2),
        ("ann,2\n5,3\n", 2),
    ],
)
def test_what_a_header_is(text: str, num_pairs: int, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    assert len(read_interactions(tmp_path / "rows.csv")) == num_pairs


def test_a_side_without_a_usual_name_is_the_first_column_that_is_left() -> None:
    table = {"plays": [3, 4, 6], "song": ["x", "y", "x"], "user": ["a", "a", "b"]}
    assert pairs_of(read_interactions(table)) == PAIRS
    assert pairs_of(read_interactions({"plays": [3, 4, 6], "who": ["a", "a", "b"], "what": ["x", "y", "x"]})) == PAIRS


def test_columns_that_are_taken_by_their_place_are_said(tmp_path: Path) -> None:
    """Times were users, and nothing said so."""
    way = "(--use-columns USER,ITEM,WEIGHT or use_columns= names others): "
    left, placed = "columns that were not read " + way, "columns taken by their place " + way

    def notes(source: Any, **options: Any) -> list[str]:
        return read_interactions(source, InteractionOptions(**options)).report.notes

    table = {"ts": [8, 9], "artikel": [1, 2], "kunde": [3, 4]}
    wanted = [placed + "ts as user, artikel as item", left + "kunde"]
    (tmp_path / "rows.csv").write_text("ts,artikel,kunde\n8,1,3\n9,2,4\n")
    assert notes(table) == notes(tmp_path / "rows.csv") == notes([tmp_path / "rows.csv"] * 2) == wanted
    assert notes(table, use_columns="kunde,artikel") == [left + "ts"]
    assert notes({"who": ["a"], "item": ["b"], "plays": [2]}) == [placed + "who as user, item as item, plays as weight"]
    assert notes({"user": ["a"], "item": ["b"]}) == notes({"0": ["a"], "1": ["b"]}) == []
    (tmp_path / "rows.csv").write_text("8,1,new\n9,2,old\n")
    assert notes(tmp_path / "rows.csv") == [left + "1"]


def test_a_first_line_of_csv_that_may_be_a_header_is_said(tmp_path: Path) -> None:
    def notes(name: str, text: str, **options: Any) -> list[str]:
        (tmp_path / name).write_text(text)
        return read_interactions(tmp_path / name, InteractionOptions(**options)).report.notes

    text = "person,friend\nann,bob\ncid,dee\n"
    (said,) = notes("rows.csv", text)
    assert said.startswith("first line read as data") and "--header or header=True" in said
    assert said.endswith("person,friend")
    assert notes("rows.csv", text, header=False) == notes("rows.txt", text) == []
    assert notes("rows.csv", text + "person,bob\n") == notes("rows.csv", "u1,i1\nu2,i2\n") == []
    assert notes("rows.csv", "x,person,friend\n1,ann,bob\n2,cid,dee\n", use_columns="2,3", header=None)[1:] == [said]


def test_a_matrix_is_no_table_of_interactions(tmp_path: Path) -> None:
    """The numbers of a cross table were read as users and items."""
    counts = {f"i{item}": [0, 2, 1] for item in range(5)}
    (tmp_path / "rows.csv").write_text("a,x,3,0,7\nb,y,4,0,8\n")
    for source, side in (
        (counts, "user and item"), ({"user": ["a", "b", "c"]} | counts, "item"), (counts | {"item": [1, 2, 3]}, "user"),
        (tmp_path / "rows.csv", "user and item"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=f"[56] columns and none with a usual name of {side}; .*SciPy sparse one"):
            read_interactions(source)
    found = read_interactions({"user": ["a", "a", "b"], "item": ["x", "y", "x"]} | counts)
    assert pairs_of(found) == dict.fromkeys(PAIRS, 1.0) and found.report.ignored_columns == 5
    assert len(read_interactions(tmp_path / "rows.csv", InteractionOptions(use_columns="1,2"))) == 2


def test_texts_without_a_header_have_the_columns_of_the_one_before(tmp_path: Path) -> None:
    for name, text in (("1.csv", "item,user,rating\nx,a,3\n"), ("2.csv", "y,a,4\nx,b,6\n")):  # as split makes them
        (tmp_path / name).write_text(text)
    found = read_interactions([tmp_path / "1.csv", tmp_path / "2.csv"])
    assert pairs_of(found) == dict.fromkeys(PAIRS, 1.0) and not found.report.weighted
    (tmp_path / "3.csv").write_text("item,user,rating\n")  # a day without any
    assert len(read_interactions([tmp_path / "3.csv", tmp_path / "1.csv"])) == 1


@pytest.mark.parametrize("text", ["a,x,0\n", "a,x,monday\n", "user,item\na,x\n", "a,x\n", "a,book\n"])
def test_weights_are_not_asked_for_where_pairs_alone_count(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    known = read_interactions([("a", "x"), ("a", "book")])
    options = InteractionOptions(use_columns=None if "user" not in text else "user,item,weight")
    found = read_interactions(tmp_path / "rows.csv", options, known=known, is_of_training=True, pairs_only=True)
    assert len(found) == 1 and not found.report.weighted


def test_a_header_beside_columns_by_place(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("item,user,times\nx,a,3\ny,a,4\nx,b,6\n")
    found = read_interactions(tmp_path / "rows.csv", InteractionOptions(use_columns="2,1,3"))
    assert pairs_of(found) == PAIRS
    (tmp_path / "rows.csv").write_text("shopper,article\nann,tea\n")
    (tmp_path / "digits.csv").write_text("0,1,2\na,x,3\n")
    for asked in ("1,2", "0,1,2"):
        found = read_interactions(tmp_path / "digits.csv", InteractionOptions(use_columns=asked, header=True))
        assert list(found.users) == (["x"] if asked == "1,2" else ["a"])
    for header, count in ((True, 1), (False, 2)):
        assert len(read_interactions(tmp_path / "rows.csv", InteractionOptions(header=header))) == count


@pytest.mark.parametrize("mark", [" ", ",", "\t"])
def test_lists(mark: str, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "lists.gz", "wt") as file:
        file.write("".join(mark.join(line) + "\n" for line in (["a", "x", "y"], ["c"], ["b", "x"])))
    options = InteractionOptions(lists=True, delimiter={" ": "space", ",": "comma", "\t": "tab"}[mark])
    found = read_interactions(str(tmp_path / "lists.gz"), options)
    assert pairs_of(found) == dict.fromkeys(PAIRS, 1.0) and not found.weight_E.size


SOURCES: dict[str, Any] = {
    "rows": [("a", "x", 3), ("a", "y", 4), ("b", "x", 6)],
    "table": {"item": ["x", "y", "x"], "user": ["a", "a", "b"], "plays": [3, 4, 6]},
    "records": [{"user": u, "item": i, "count": w} for (u, i), w in PAIRS.items()],
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_in_memory(name: str) -> None:
    assert pairs_of(read_interactions(SOURCES[name])) == PAIRS


def test_integers_stay_integers() -> None:
    dense = np.array([[0, 2], [1, 0], [0, 0]])
    for source in (sparse.csr_matrix(dense), sparse.coo_array(dense)):
        found = read_interactions(source)
        assert list(found.users) == ["0", "1", "2"] and found.users.are_integers and found.items.are_integers
        assert pairs_of(found) == {("0", "1"): 2.0, ("1", "0"): 1.0}
    found = read_interactions(np.array([[7, 1], [7, 2]]))
    assert found.users.are_integers and len(found) == 2


@pytest.mark.parametrize("mark", ["\t", ",", " "])
@pytest.mark.parametrize("form", ["rows", "header", "lists"])
def test_lines_of_comments_are_left_out_and_counted(mark: str, form: str, tmp_path: Path) -> None:
    tags, path = [("#rock", "x"), ("a", "#pop"), ("#jazz", "x")], tmp_path / "tags.txt"
    rows = [*([f"user{mark}item"] if form == "header" else []), *map(mark.join, tags)]
    reading = {"lists": form == "lists", "delimiter": {" ": "space", ",": "comma", "\t": "tab"}[mark]}
    path.write_text("\n".join([f"# made{mark}by", "", *rows, "#", f" \t# me{mark}too"]))
    found = read_interactions(path, InteractionOptions(**reading))
    assert pairs_of(found) == {("a", "#pop"): 1.0} and found.report.comments == 5
    path.write_text("\n".join(rows))
    found = read_interactions(path, InteractionOptions(**reading, comment=""))
    assert pairs_of(found) == pairs_of(read_interactions(tags)) and not found.report.comments
    if form != "lists":
        path.write_text(f"# 1\n\n\na{mark}b\n# 2\n\n{mark.join('abc')}\n")
        with pytest.raises(DataError, match="line 7 has 3 columns"):
            read_interactions(path)


def test_pairs_that_come_again_add_up() -> None:
    log = [("a", "x"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "x")]
    found, ones = read_interactions(log), read_interactions([(*pair, 1) for pair in log])
    assert pairs_of(found) == pairs_of(ones) == {("a", "x"): 3.0, ("a", "y"): 1.0, ("b", "x"): 1.0}
    assert found.report == ones.report and found.report.repeated == 2 and found.report.weighted
    assert not read_interactions([*{*log}]).weight_E.size  # nothing comes again: as before
    given = np.ones(5), ([0, 0, 0, 1, 0], [0, 0, 1, 1, 0])
    coo = sparse.coo_matrix(given, shape=(2, 2))
    for matrix in (coo, coo.tocsr(), sparse.coo_array(given)):
        assert pairs_of(read_interactions(matrix)) == {("0", "0"): 3.0, ("0", "1"): 1.0, ("1", "1"): 1.0}
    assert coo.nnz == 5  # the user's own stays as it is


def test_rows_of_what_is_known() -> None:
    known = read_interactions(SOURCES["rows"])
    found = read_interactions([("b", "y"), ("q", "x"), ("a", "q")], known=known)
    assert pairs_of(found) == {("b", "y"): 1.0} and found.report.unknown == 2
    assert len(found.users) == 2 and read_interactions(known) is known
    assert pairs_of(read_interactions(known, known=(["b"], ["x", "y"]))) == {("b", "x"): 6.0}


def test_turned() -> None:
    found = read_interactions(SOURCES["rows"])
    indptr, users, weights = found.turned()
    assert (indptr.tolist(), users.tolist(), weights.tolist()) == ([0, 2, 3], [0, 1, 0], [3, 6, 4])
    assert found.counts().tolist() == [2, 1]


def test_split_holds_a_share_of_each_user_out() -> None:
    found = read_interactions([(user, item, 1 + item) for user in range(9) for item in range(user + 1)])
    train, test = found.split(0.3, seed=4)
    assert np.diff(test.indptr).tolist() == [int(0.3 * (user + 1)) for user in range(9)]
    assert pairs_of(train) | pairs_of(test) == pairs_of(found) and len(train) + len(test) == len(found)
    assert pairs_of(found.split(0.3, seed=4)[1]) == pairs_of(test) != pairs_of(found.split(0.3, seed=5)[1])
    with pytest.raises(InputError, match="share"):
        found.split(1.5)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "empty"),
        ("# nothing\n", {}, "no interactions"),
        ("user,item\n", {}, "no interactions below the header 'user,item'"),
        ("one\ntwo\n", {}, "one column"),
        ("a,b\nc\n", {"delimiter": "comma"}, "line 2 has 1 columns"),
        ("a,\n", {}, "(empty item|one column)"),
        ("a,b,c\n", {"use_columns": "1,2,3"}, "no numbers"),
        ('a,x\nb,"Weird Al\nc,y\nd,z\n', {}, "a quote without its end"),
        ("a,b,-1\n", {"use_columns": "1,2,3"}, "weight -1"),
        ("a,b,1e39\n", {"use_columns": "1,2,3"}, r"weight 1e\+39; weights are finite and above 0, as float32"),
        ("user,item\na,b\n", {"use_columns": "user,thing"}, "no column 'thing'"),
        ("a,b,0\n", {}, "weight 0; .* The third of three columns without names is the weight"),
        ("a,b,2\n" * 64 + "c,d,monday\n", {}, "no numbers .*use_columns of the first two"),
        ("plays,thing\n2,tea\n", {"header": True}, "2 columns; an interaction needs two beside plays"),
        ("ann,tea\nbob,1\ncarl,2\ndora,3\n", {}, "begins with 'ann, tea'"),
        ("a,b\nc,d\nlone\ne,f\n", {}, "line 3 has 1 columns, not 2: 'lone'"),
        ("a b,c\nd,e f\nlone\n", {}, "line 3 has 1 columns, not 2: 'lone'"),
        ("a,b\n", {"delimiter": ";"}, "split by ;, as asked"),
        ("shopper,article\nann,tea\n", {}, "begins with 'shopper, article'.*--no-header"),
    ],
)
def test_what_is_wrong_with_text(text: str, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        read_interactions(str(tmp_path / "rows.csv"), InteractionOptions(**options))


def test_columns_that_are_named_make_a_header(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("what,times,who\ntea,2,ann\nmilk,1,bob\n")
    found = read_interactions(str(tmp_path / "rows.csv"), InteractionOptions(use_columns="who,what,times"))
    assert list(found.users) == ["ann", "bob"] and sorted(found.items) == ["milk", "tea"]
    (tmp_path / "rows.csv").write_text("1,2\n3,4\n")  # numbers are places, whatever the first line has
    found = read_interactions(str(tmp_path / "rows.csv"), InteractionOptions(use_columns="1,2"))
    assert list(found.users) == ["1", "3"]
    with pytest.raises(DataError, match="no column 'who'"):
        read_interactions(str(tmp_path / "rows.csv"), InteractionOptions(use_columns="who,what"))


@pytest.mark.parametrize(
    ("text", "lists"), [(b"a,b\n\xff,c\n", False), (b"a,b\na,\xff\n", False), (b"a b\na \xff\n", True)]
)
def test_what_is_no_utf8_is_refused(text: bytes, lists: bool, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(text)
    with pytest.raises(DataError, match="is no UTF-8 text"):
        read_interactions(str(tmp_path / "rows.csv"), InteractionOptions(lists=lists))


@pytest.mark.parametrize(
    ("source", "said"),
    [(7, "sparse matrix"), ([("a",)], "user and item"), ([("a", "b", -2)], "weight -2"), ([("a", None)], "strings"),
     (sparse.csr_matrix(-np.eye(2)), "weight -1"), ({"user": ["a", None], "item": ["x", "y"]}, "empty values"),
     ({"user": [0.5], "item": [1]}, "double")],
)  # fmt: skip
def test_what_is_wrong_in_memory(source: Any, said: str) -> None:
    with pytest.raises((DataError, InputError), match=said):
        read_interactions(source)


def test_options_that_do_not_go_together() -> None:
    for options in ({"lists": True, "header": True}, {"use_columns": "user"}, {"delimiter": "xx"}):
        with pytest.raises(InputError):
            InteractionOptions(**options)
    with pytest.raises(InputError, match="lines of text"):
        read_interactions(SOURCES["table"], InteractionOptions(lists=True))


def test_an_empty_table_has_no_interactions() -> None:
    import pyarrow as pa

    with pytest.raises(DataError, match="There are no interactions"):
        read_interactions(pa.table({"user": ["a"], "item": ["b"]})[:0])
