"""Triples from text, N-Triples, tables and lists: the same rows whatever the form, and whatever is wrong is told."""

from __future__ import annotations

import errno
import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from arrow_tables import ArrayTable, StreamTable

from any2vec.data.io.files import read_blocks
from any2vec.data.triples.triples import LINK, TripleOptions, Triples, read_triples
from any2vec.errors import DataError, FormatError, InputError, StorageError

FAMILY = [("anna", "mother", "ben"), ("ben", "knows", "carl"), ("anna", "mother", "dora"), ("ben", "knows", "carl")]
_DEFAULTS: dict[str, Any] = dict(read_blocks.__kwdefaults__ or {})
ENTITIES, RELATIONS = ["anna", "ben", "carl", "dora"], ["mother", "knows"]
ROWS = [[0, 0, 1], [1, 1, 2], [0, 0, 3], [1, 1, 2]]


def check(found: Triples) -> None:
    assert found.rows().tolist() == ROWS
    assert list(found.entities) == ENTITIES and list(found.relations) == RELATIONS
    assert found.report.duplicates == 1 and len(found) == found.report.num_triples == 4


def lines(mark: str, end: str = "\n") -> str:
    return "".join(mark.join(triple) + end for triple in FAMILY)


@pytest.mark.parametrize(
    "text",
    [
        lines("\t"),
        lines("\t", "\r\n"),
        lines(","),
        lines(";"),
        lines(", "),
        lines(" ; "),
        lines(" "),
        "head\trelation\ttail\n" + lines("\t"),
        "# of a family\n\n" + lines("\t"),
        "\ufeff" + lines("\t"),
        lines("\t").rstrip("\n"),
        "".join(f'"{head}","{relation}","{tail}"\n' for head, relation, tail in FAMILY),
        "".join(f"<{head}> <{relation}> <{tail}> .\n" for head, relation, tail in FAMILY)
        + '<anna> <name> "Anna"@en .\n',
        "".join(f"{head}\t{relation}\t{tail}\t0.5\n" for head, relation, tail in FAMILY),
    ],
)
def test_text_of_every_form(text: str, tmp_path: Path) -> None:
    path = tmp_path / "family.txt"
    path.write_bytes(text.encode())
    check(read_triples(path))
    packed = tmp_path / "family.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    check(read_triples(str(packed)))


@pytest.mark.parametrize("header", ["head tail relation", "source target type", "Src dst weight"])
@pytest.mark.parametrize("mark", ["\t", ",", " "])
def test_a_header_says_which_column_is_which(header: str, mark: str, tmp_path: Path) -> None:
    rows = [header.split(), *((head, tail, relation) for head, relation, tail in FAMILY)]
    path = tmp_path / "family.txt"
    path.write_text("".join(mark.join(row) + "\n" for row in rows))
    check(read_triples(path))
    check(read_triples(path, is_relation_last=True))
    path.write_text("".join(mark.join(row) + "\n" for row in [("relation", "head", "tail"), ("knows", "a", "b")]))
    assert list(read_triples(path, TripleOptions(header=True)).entities) == ["a", "b"]


@pytest.mark.parametrize("mark", ["\t", ",", ";", " "])
@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("id head relation tail", {}), ("tail relation head", {}), ("relation head tail", {}),
        ("o x P y Subject z", {}),
        ("tail head", {}), ("source target rel_name rel", {}), (" head relation tail", {}), (" tail head", {}),
        ("a b c d", {"use_columns": "d,a,c"}), ("head relation tail x", {"use_columns": "tail,x,head"}),
        (" a b c", {"use_columns": "c,b,a"}),
    ],
)  # fmt: skip
def test_text_with_names_is_read_as_a_table(header: str, options: Any, mark: str, tmp_path: Path) -> None:
    """`id,head,relation,tail` was read by place, and `tail,relation,head` had a triple of names, and ends swapped."""
    names = header.split(" ")
    if mark == " " and not names[0]:
        pytest.skip("of white space nothing stands before an index's mark")
    rows = [[f"{name or 'row'}-{row}" for name in names] for row in range(5)]
    path = tmp_path / "named.txt"
    path.write_text("".join(mark.join(row) + "\n" for row in [names, *rows]))
    table = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True) if name}
    reading = TripleOptions(**options)
    found, wanted = read_triples(path, reading), read_triples(table, reading)
    assert [list(found.entities), list(found.relations)] == [list(wanted.entities), list(wanted.relations)]
    assert np.array_equal(found.rows(), wanted.rows()) and len(found) == 5
    assert found.report.ignored_columns == wanted.report.ignored_columns + (not names[0])
    same = read_triples(path, reading, known=found, is_of_training=True)
    assert np.array_equal(same.rows(), found.rows())


def test_names_of_columns_that_say_too_little(tmp_path: Path) -> None:
    path = tmp_path / "named.csv"
    path.write_text("tail,relation,head,tail\na,b,c,d\n")
    with pytest.raises(DataError, match="two columns named 'tail' in its header; rename one"):
        read_triples(path)
    path.write_text("id,head,relation,tail\n1,a,r,b\n2,b,r,\n")
    with pytest.raises(DataError, match="row 3 has nothing in column 4"):
        read_triples(path)
    path.write_text("id,head,relation,tail\n1,a,r,b\n")
    with pytest.raises(InputError, match=r"names columns by the header, and .*named\.csv is read without"):
        read_triples(path, TripleOptions(use_columns="id,head,tail", header=False))
    with pytest.raises(InputError, match="use_columns of text is head,relation,tail, got 'head,tail'"):
        read_triples(path, TripleOptions(use_columns="head,tail"))
    with pytest.raises(DataError, match="has no column 'tale'"):
        read_triples(path, TripleOptions(use_columns="head,relation,tale"))
    with pytest.raises(InputError, match="does not go with relations that stand last"):
        read_triples(path, TripleOptions(use_columns="id,head,tail"), is_relation_last=True)
    assert len(read_triples(path, TripleOptions(use_columns="id,head,tail", header=False), is_of_training=True)) == 2
    path.write_text("<a> <r> <b> .\n")
    with pytest.raises(InputError, match="is N-Triples"):
        read_triples(path, TripleOptions(use_columns="a,r,b"))
    path.write_text(",x,y,kind\n0,anna,ben,knows\n")
    last = read_triples(path, TripleOptions(delimiter="comma", header=True), is_relation_last=True)
    assert (list(last.entities), list(last.relations)) == (["anna", "ben"], ["knows"])


@pytest.mark.parametrize("rows", ["s r t\nt p o\n", "s r t\na r b\n", "s t\nt u\n", "t r s\na p t\n", "r s t\nr a b\n"])
def test_a_triple_like_a_header_stays(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "letters.txt"
    path.write_text(rows)
    assert len(read_triples(path)) == 2 and next(iter(read_triples(path).entities)) == rows[0]


@pytest.mark.parametrize("mark", [",", ";"])
def test_a_first_line_may_have_the_delimiter_in_quotes(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "quoted.csv"
    path.write_text(f'"Smith{mark} Ann"{mark}likes{mark}b\n"b"{mark}likes{mark}c\n')
    assert list(read_triples(path).entities) == [f"Smith{mark} Ann", "b", "c"]
    path.write_text(f"a{mark}likes{mark} \n")
    with pytest.raises(DataError, match="row 1 has nothing in column 3"):
        read_triples(path)


def test_a_table_without_relations_by_name_is_asked_about() -> None:
    columns = {"source": ["a"], "target": ["b"], "type": ["knows"]}
    with pytest.raises(DataError, match=r"no column of relations .* use_columns: source,RELATION,target"):
        read_triples(columns)
    found = read_triples(columns, TripleOptions(use_columns="source,type,target"))
    middle = read_triples({name: columns[name] for name in ("source", "type", "target")})
    assert list(found.relations) == list(middle.relations) == ["knows"]


def test_columns_that_are_taken_by_their_place_are_said(tmp_path: Path) -> None:
    names = ["who", "what", "whom", "when"]
    (tmp_path / "t.csv").write_text("\n".join(map(",".join, (names, "abcd", "bbad"))) + "\n")
    found = read_triples(tmp_path / "t.csv", TripleOptions(header=True)).report.notes
    assert found == read_triples({name: ["a"] for name in names}).report.notes
    placed, left = found
    assert placed.endswith("--use-columns HEAD,RELATION,TAIL or use_columns= names others): who as head, what as "
                           "relation, whom as tail")  # fmt: skip
    assert left.startswith("columns that were not read") and left.endswith(": when")
    (two,) = read_triples({"a": ["x"], "b": ["y"]}).report.notes
    assert two.endswith("(--use-columns HEAD,TAIL or use_columns= names others): a as head, b as tail")
    (tmp_path / "t.csv").write_text("a,b,c,d\n")
    assert [note[-3:] for note in read_triples(tmp_path / "t.csv").report.notes] == [": 1"]


def test_tables_and_lists(tmp_path: Path) -> None:
    heads, relations, tails = map(list, zip(*FAMILY, strict=True))
    table = pa.table({"tail": tails, "weight": [1.0] * 4, "head": heads, "relation": relations})
    pq.write_table(table, tmp_path / "family.parquet")
    feather.write_feather(table, tmp_path / "family.feather")
    for name in ("family.parquet", "family.feather"):
        found = read_triples(tmp_path / name)
        check(found)
        assert found.report.ignored_columns == 1
    for source in (StreamTable(table), ArrayTable(table)):
        found = read_triples(source)
        check(found)
        assert found.report.ignored_columns == 1
    check(read_triples(FAMILY))
    check(read_triples(np.array(FAMILY).astype("S")))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"head": ["a"]}, "The StreamTable has 1 column; a triple has three"),
        ({"head": ["a", None], "tail": ["b", "c"]}, "The StreamTable has empty values in column head"),
        ({"head": ["a"], "tail": [0.5]}, "The StreamTable has double in column tail; names are strings or integers"),
        ({"head": pa.array([], pa.string()), "tail": pa.array([], pa.string())}, "The StreamTable holds no triples"),
        ({"head": ["a", ""], "tail": ["b", "c"]}, "The StreamTable: row 2 has nothing in column head"),
        ({"head": pa.array([b"\xff"]), "tail": ["b"]}, "The StreamTable cannot be read as a table .*UTF8"),
    ],
)
def test_tables_in_memory_that_are_no_triples(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_triples(StreamTable(pa.table(columns)))


def test_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["head", "head"])
    with pytest.raises(DataError, match="two columns named 'head'"):
        read_triples(StreamTable(table))


def test_what_was_left_out_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "family.nt"
    path.write_text('<a> <r> <b> . # yes\n<a> <name> "A \\"a\\" <x>"^^<string> .\n_:n1 <r> <a> .\n')
    found = read_triples(path)
    assert list(found.entities) == ["a", "_:n1", "b"] and (len(found), found.report.literals) == (2, 1)


TAGS = [("#rock", "r", "x"), ("a", "r", "#rock"), ("#pop", "s", "a")]


@pytest.mark.parametrize("mark", ["\t", ",", " "])
def test_lines_of_comments_are_left_out_wherever_they_stand(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "tags.txt"
    rows = [mark.join(triple) for triple in TAGS]
    for header in ([], [mark.join(("head", "relation", "tail"))]):
        path.write_text("\n".join([f"#made{mark}by{mark}me", "", *header, *rows, "  # one more"]) + "\n")
        found = read_triples(path)
        assert [(found.entities[h], found.entities[t]) for h, _, t in found.rows().tolist()] == [("a", "#rock")]
        assert found.report.comments == 4
        path.write_text("\n".join([*header, *rows]) + "\n")
        found = read_triples(path, TripleOptions(comment=""))
        pq.write_table(pa.table(dict(zip("hrt", map(list, zip(*TAGS, strict=True)), strict=True))), tmp_path / "t.pq")
        for same in (read_triples(TAGS), read_triples(tmp_path / "t.pq")):
            assert found.rows().tolist() == same.rows().tolist() and list(found.entities) == list(same.entities)
            assert found.report == same.report
    path.write_text(f"# 1\n\n\na{mark}r{mark}b\n# 2\n\nb{mark}r\n")
    with pytest.raises(DataError, match="line 7 "):
        read_triples(path)
    with pytest.raises(InputError, match="comment must hold ASCII characters other than white space, got ' '"):
        TripleOptions(comment=" ")


def test_edges_have_one_relation(tmp_path: Path) -> None:
    texts = {"tab": "a\tb\nb\tc\n", "space": "a  b\nb c\n", "header": "head tail\na b\nb c"}
    paths = [tmp_path / f"{name}.txt" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    for source in (*paths, [("a", "b"), ("b", "c")]):
        found = read_triples(source)
        assert found.rows().tolist() == [[0, 0, 1], [1, 0, 2]] and list(found.relations) == [LINK]


def test_names_that_are_not_known_have_no_row() -> None:
    known = read_triples(FAMILY)
    found = read_triples([("ben", "mother", "emil"), ("anna", "hates", "ben")], known=known)
    assert found.rows().tolist() == [[1, 0, -1], [0, -1, 1]] and found.entities is known.entities


def test_names_without_a_row_have_none_when_they_are_read_again(tmp_path: Path) -> None:
    known = read_triples(FAMILY)
    found = read_triples([("ben", "mother", "emil"), ("anna", "hates", "ben")], known=known)
    found.save(tmp_path / "test")
    for source in (found, tmp_path / "test"):
        assert read_triples(source, known=known).rows().tolist() == [[1, 0, -1], [0, -1, 1]]
    assert read_triples(found, known=read_triples([("x", "y", "z")])).rows().tolist() == [[-1] * 3] * 2


def test_a_folder_gives_back_what_was_saved(tmp_path: Path) -> None:
    read_triples(FAMILY).save(tmp_path / "family")
    check(Triples.open(tmp_path / "family"))
    check(read_triples(tmp_path / "family"))
    (tmp_path / "family" / "tail.npy").unlink()
    with pytest.raises(FormatError, match=r"tail\.npy cannot be opened: it is missing"):
        Triples.open(tmp_path / "family")
    with pytest.raises(FormatError, match="is not a folder of any2vec triples"):
        Triples.open(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty"),
        (b"# nothing\n\n", "holds no triples"),
        (b"head\trelation\ttail\n", "holds no triples; give at least one"),
        (b'<a> <r> "only a text" .\n', "holds no triples of entities; give at least one"),
        (b"alone\n", "has one column in its first line"),
        (b"a\tr\tb\nb\tr\n", r"line 2 has 2 columns, not 3: 'b\\tr'"),
        (b"a\tr\tb\na\t\tb\n", "row 2 has nothing in column 2"),
        (b"a r b\na r\n", "line 2 is not three columns: 'a r'"),
        (b"a b\na r b\n", "line 2 is not two columns: 'a r b'"),
        (b"<a> <r> <b> .\n<a> <r>\n", "line 2 is not a statement of N-Triples"),
        (b"a\tr\tb\na\tr\t\xff\n", "is no UTF-8 text"),
        (b"a\tr\tb\nb\t\xff\n", "is no UTF-8 text"),
        (b"a r b\na r \xff\n", "is no UTF-8 text"),
        (b"a\tr\tb\0\n", "NUL byte"),
        (b"a,r,b\nb,r,c\rd,r\n", "line 3 has 2 columns"),
    ],
)
def test_bad_text_is_reported(text: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(text)
    with pytest.raises(DataError, match=said):
        read_triples(path)


def test_a_file_that_is_cut_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "cut.tsv.gz"
    path.write_bytes(gzip.compress(lines("\t").encode() * 1000)[:-20])
    with pytest.raises(DataError, match=r"cut\.tsv\.gz"):
        read_triples(path)


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ([], DataError, "no triples"),
        ([("a", "b"), ("a", "r", "b")], DataError, "three names each"),
        (7, InputError, "got int"),
        ([("a", "r", "b"), ("a", "r", None)], DataError, "Triple 2 has None for a name; names are strings or integers"),
        ([("a", "r", "b"), (float("nan"), "r", "b")], DataError, "Triple 2 has nan for a name"),
        (np.array([[0.0, 1.0, 2.0]]), DataError, "Triple 1 has 0.0 for a name"),
        ([("a", "r", "b"), ("a", "", "b")], DataError, "Triple 2 has '' for a name"),
        ((np.array(["a"]), np.array([b""]), np.array(["b"])), DataError, "Triple 1 has b'' for a name"),
        ("nowhere.tsv", DataError, "nowhere.tsv"),
    ],
)
def test_bad_sources_are_reported(source: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        read_triples(source)


@pytest.mark.parametrize("mark", ["\t", " ", "nt"])
def test_pieces_are_read_as_a_whole(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few lines, and rows that go into files."""
    rng = np.random.default_rng(1)
    triples = [(f"e{h}", f"r{r}", f"e{t}" * (1 + t % 9)) for h, r, t in rng.integers(0, [40, 3, 40], (500, 3)).tolist()]
    form = "<{}> <{}> <{}> ." if mark == "nt" else mark.join(["{}"] * 3)
    path = tmp_path / "triples.txt"
    path.write_text("# first\n\n" + "".join(form.format(*triple) + "\n\n# more\n" for triple in triples))
    for name, value in (("text._PIECE", 64), ("rows.IN_MEMORY", 50), ("rows._SORTED", 30)):
        monkeypatch.setattr(f"any2vec.data.triples.{name}", value)
    monkeypatch.setattr("any2vec.data.io.files.read_blocks.__kwdefaults__", {**_DEFAULTS, "block_bytes": 32})
    found = read_triples(path, cache_dir=tmp_path / "cache")
    assert isinstance(found.head, np.memmap) and not list((tmp_path / "cache" / "triples").iterdir())
    names = [(found.entities[h], found.relations[r], found.entities[t]) for h, r, t in found.rows().tolist()]
    assert names == triples
    assert len(set(found.entities)) == len(found.entities) == len({end for h, _, t in triples for end in (h, t)})
    assert found.report.duplicates == len(triples) - len(set(triples)) > 0
    known = read_triples(path, known=found, cache_dir=tmp_path / "cache")
    assert np.array_equal(known.rows(), found.rows())


@pytest.mark.parametrize(
    ("line", "said"),
    [("a\tr", "line 301 has 2 columns, not 3"), ("a\t\tb", "row 300 has nothing in column 2")],
)
def test_lines_of_later_pieces_are_named(line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text("# first\n" + "a\tr\tb\n" * 299 + line + "\n" + "a\tr\tb\n" * 50)
    monkeypatch.setattr("any2vec.data.triples.text._PIECE", 64)
    monkeypatch.setattr("any2vec.data.io.files.read_blocks.__kwdefaults__", {**_DEFAULTS, "block_bytes": 32})
    with pytest.raises(DataError, match=said):
        read_triples(path)


def test_a_full_disk_under_rows_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("any2vec.data.triples.rows.IN_MEMORY", 1)
    monkeypatch.setattr("any2vec.data.triples.rows.tempfile.TemporaryFile", full)
    with pytest.raises(StorageError, match=r"full|space"):
        read_triples(FAMILY, cache_dir=tmp_path / "cache")


def test_a_delimiter_is_one_character() -> None:
    with pytest.raises(InputError, match=r"one character .*, got '::'"):
        TripleOptions(delimiter="::")


@pytest.mark.data
def test_the_knowledge_graph_has_as_many_triples_as_are_published(tmp_path: Path) -> None:
    path = Path(os.environ.get("ANY2VEC_DATA", "")) / "kg-fb15k-237" / "FB15k-237.tar.gz"
    if not os.environ.get("ANY2VEC_DATA") or not path.is_file():
        pytest.skip(f"ANY2VEC_DATA names no folder with {path.name}: this check of real data was left out")
    with tarfile.open(path) as packed:
        files = {name: tmp_path / f"{name}.txt" for name in ("train", "test")}
        for member in packed.getmembers():
            if (name := Path(member.name).stem) in files and (content := packed.extractfile(member)) is not None:
                files[name].write_bytes(content.read())
    train = read_triples(files["train"])
    test = read_triples(files["test"], known=train)
    assert (len(train), len(train.relations), len(test)) == (272_115, 237, 20_466)
    split = [line.split() for line in files["train"].read_text().splitlines()]
    entities = {name for head, _, tail in split for name in (head, tail)}
    assert len(train.entities) == len(entities)
    unknown = sum(not {line.split()[0], line.split()[2]} <= entities for line in files["test"].read_text().splitlines())
    assert np.count_nonzero((test.rows() < 0).any(axis=1)) == unknown > 0
