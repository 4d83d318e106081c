"""Planted stand-ins for the public sets, in their files and formats: with them rows can only be seen to start."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

WORDS, LINES, WORDS_A_LINE = 2400, 600, 20
USES = 6
"""of each word, at least: one more than the rows ask for"""
NODES, GROUPS, FEATURES = 300, 4, 40
CLICKS = 600
ENTITIES, RELATIONS = 120, 3
SPLIT_GRAPHS = (
    "graph-amazon/photo", "graph-amazon/computers", "graph-coauthor-physics/physics",
    *(f"graph-citation-full/{name}" for name in ("cora_ml", "citeseer_full", "dblp")),
    *(f"graph-heterophily/{name}" for name in ("chameleon_filtered", "squirrel_filtered", "actor", "tolokers")),
)  # fmt: skip
"""with features, classes and splits, in files alike"""
SPLIT = ("train",) * 140 + ("val",) * 60 + ("test",) * 100
"""of the nodes: as many of them train as in the sets themselves"""


def path(folder: Path, name: str) -> Path:
    """The stand-in for a file, or for a folder of files, of the data folder; written at the first request."""
    for own, write in FILES.items():
        if (own == name or own.startswith(f"{name}/")) and not (folder / own).exists():
            (folder / own).parent.mkdir(parents=True, exist_ok=True)
            write(folder / own)
    if not (folder / name).exists():
        raise KeyError(f"There is no stand-in for {name}; benchmarks/stand_ins.py has them all.")
    return folder / name


def _text(target: Path) -> None:
    """Zipf's law within topics: a word comes with others of its topic. Each comes often enough to be kept."""
    import zstandard

    draw, words = Random(1), _words()
    topics = [words[topic::GROUPS] for topic in range(GROUPS)]
    lines = []
    for own in topics * (LINES // GROUPS):
        lines.append(" ".join(own[int(len(own) ** draw.random()) - 1] for _ in range(WORDS_A_LINE)))
    for own in [list(own) for own in topics] * USES:
        draw.shuffle(own)
        lines += [" ".join(own[at : at + WORDS_A_LINE]) for at in range(0, len(own), WORDS_A_LINE)]
    target.write_bytes(zstandard.ZstdCompressor().compress("\n".join([*lines, ""]).encode()))


def _similarity(target: Path) -> None:
    draw, words = Random(2), _words()
    pairs = [draw.sample(words[:80], 2) for _ in range(40)]
    target.write_text("".join(f"{one}\t{other}\t{draw.uniform(0, 10):.2f}\n" for one, other in pairs))


def _analogies(target: Path) -> None:
    words = _words()[:40]
    queries = (" ".join(words[at : at + 4]) for at in range(0, 36, 2))
    target.write_text(": planted\n" + "".join(f"{query}\n" for query in queries))


def _edges(target: Path) -> None:
    _pack(target, (f"{one} {other}" for one, other in _graph()))


def _labels(target: Path) -> None:
    """A label by group, and a second one for some."""
    labels = [f"{node} {node % GROUPS}" for node in range(NODES)]
    _pack(target, [*labels, *(f"{node} {(node + 1) % GROUPS}" for node in range(0, NODES, 10))])


def _classes(target: Path) -> None:
    _pack(target, (f"{node} {node % GROUPS}" for node in range(NODES)))


def _split(target: Path) -> None:
    _pack(target, (f"{node} {part}" for node, part in enumerate(SPLIT)))


def _splits(target: Path) -> None:
    """Ten splits, all the same."""
    import numpy as np

    with target.open("wb") as file:
        np.savez(file, split=np.tile([("train", "val", "test").index(part) for part in SPLIT], (10, 1)))


def _features(target: Path) -> None:
    """A node has the features of its group, and some others."""
    import numpy as np
    from scipy import sparse

    draw = np.random.default_rng(3)
    group_N1 = np.arange(NODES)[:, None] % GROUPS
    has_NF = draw.random((NODES, FEATURES)) < np.where(np.arange(FEATURES) % GROUPS == group_N1, 0.5, 0.1)
    sparse.save_npz(target, sparse.csr_matrix(has_NF.astype(np.float32)))


def _pages(target: Path) -> None:
    _pack(target, ["id_1,id_2", *(f"{one},{other}" for one, other in _graph())])


def _page_names(target: Path) -> None:
    _pack(target, ["id,label", *(f"{node},{'abcd'[node % GROUPS]}" for node in range(NODES))])


def _languages(target: Path) -> None:
    """Class and language of each node."""
    languages = dict(zip(("train", "val", "test"), ("DE", "ENGB", "ES"), strict=True))
    _pack(target, (f"{node} {node % GROUPS} {languages[part]}" for node, part in enumerate(SPLIT)))


def _criteo(target: Path) -> None:
    """Label, 13 numbers and 26 categories, some of them missing."""
    draw = Random(4)

    def line() -> str:
        numbers = (draw.choice(["", str(draw.randrange(50))]) for _ in range(13))
        categories = (draw.choice(["", f"{draw.randrange(20):08x}"]) for _ in range(26))
        return "\t".join((str(draw.randrange(2)), *numbers, *categories))

    _pack(target, (line() for _ in range(CLICKS)))


def _avazu(target: Path) -> None:
    draw, lines = Random(5), []
    for number in range(CLICKS):
        lines.append(",".join(map(str, (number, draw.randrange(2), 14102100, *(draw.randrange(9) for _ in range(21))))))
    is_test = target.name.startswith("avazu_test")
    names = ["id", "click", "hour", "C1", "banner_pos"]
    names += [f"{of}_{one}" for of in ("site", "app") for one in ("id", "domain", "category")]
    names += [f"device_{one}" for one in ("id", "ip", "model", "type", "conn_type")]
    names += [f"C{number}" for number in range(14, 22)]
    _pack(target, lines[: CLICKS // 10] if is_test else [",".join(names), *lines])


def _users(target: Path) -> None:
    users = (f"{user}\t{20 + user % 40}\t{'MF'[user % 2]}\tother\t{user:05d}" for user in range(1, 41))
    _pack(target, ["user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token", *users])


def _films(target: Path) -> None:
    films = (f"{film}\tFilm {film}\t{1980 + film % 20}\tDrama Comedy" for film in range(1, 41))
    _pack(target, ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq", *films])


def _stars(target: Path) -> None:
    draw = Random(6)
    _pack(target, (f"{draw.randint(1, 40)}\t{draw.randint(1, 40)}\t{draw.randint(1, 5)}\t0" for _ in range(CLICKS)))


def _triples(target: Path) -> None:
    """An archive of train.txt, valid.txt and test.txt; a relation is a step of its own around a ring."""
    draw = Random(7)
    with tarfile.open(target, "w:gz") as archive:
        for side, number in (("train", 600), ("valid", 40), ("test", 40)):
            found = [(draw.randrange(ENTITIES), draw.randrange(RELATIONS)) for _ in range(number)]
            lines = (f"e{head}\tr{relation}\te{(head + 1 + 7 * relation) % ENTITIES}\r\n" for head, relation in found)
            content = "".join(lines).encode()
            member = tarfile.TarInfo(f"{side}.txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _statements(target: Path) -> None:
    """Entities stand to the next one by the relation of their group, and to others by one more."""
    draw = Random(8)
    lines = [f"{node} {node % GROUPS} {(node + 1) % NODES}" for node in range(NODES)]
    _pack(target, [*lines, *(f"{one} {GROUPS} {draw.randrange(NODES)}" for one in range(NODES))])


def _known_classes(target: Path) -> None:
    """Of all entities, with the part that each is of."""
    _pack(target, (f"{node} {node % GROUPS} {'test' if node % 4 == 3 else 'train'}" for node in range(NODES)))


def _words() -> list[str]:
    """The most frequent first."""
    return [f"{'abcdefghij'[number % 10]}{'aeiou'[number % 5]}word{number}" for number in range(WORDS)]


def _graph() -> list[tuple[int, int]]:
    """A ring through all nodes, and edges within groups; each once."""
    draw = Random(8)
    edges = {(node, node + 1) for node in range(NODES - 1)}
    for _ in range(4 * NODES):
        one = draw.randrange(NODES)
        other = draw.randrange(one % GROUPS, NODES, GROUPS)
        if one != other:
            edges.add((min(one, other), max(one, other)))
    return sorted(edges)


def _pack(target: Path, lines: Iterable[str]) -> None:
    target.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def _sets_of_users(target: Path) -> None:
    """A user has items of its group: in the test every third one, else the others."""
    draw, is_test = Random(5), target.name.startswith("test")
    lines = []
    for user in range(NODES):
        own = draw.sample(range(user % GROUPS, NODES, GROUPS), 30)
        lines.append(" ".join(map(str, [user, *(own[::3] if is_test else own[1::3] + own[2::3])])))
    _pack(target, lines)


FILES: dict[str, Callable[[Path], None]] = {
    "text-enwiki2015/enwiki2015.clean.txt.zst": _text,
    **dict.fromkeys(
        (f"wordeval/EN-{name}.txt" for name in ("MEN-TR-3k", "WS-353-ALL", "SIMLEX-999", "MTurk-771", "RW-STANFORD")),
        _similarity,
    ),
    "wordeval/questions-words.txt": _analogies,
    **{f"graph-{name}/{name}.edges.txt.gz": _edges for name in ("blogcatalog", "ppi")},
    **{f"graph-{name}/{name}.labels.txt.gz": _labels for name in ("blogcatalog", "ppi")},
    **{
        f"graph-planetoid/{name}.{kind}": write
        for name in ("cora", "citeseer")
        for kind, write in (
            ("edges.txt.gz", _edges), ("features.npz", _features), ("labels.txt.gz", _classes), ("split.txt.gz", _split)
        )
    },
    **{
        f"graph-rdf/{name}.{kind}.txt.gz": write
        for name in ("aifb", "mutag")
        for kind, write in (("triples", _statements), ("labels", _known_classes))
    },
    "graph-hetero-acm/acm.pa.txt.gz": _edges,
    "graph-hetero-acm/acm.ps.txt.gz": _labels,
    "graph-hetero-acm/acm.labels.txt.gz": _classes,
    "graph-hetero-acm/acm.paper.features.npz": _features,
    "graph-hetero-acm/acm.splits.npz": _splits,
    **{
        f"{graph}.{kind}": write
        for graph in SPLIT_GRAPHS
        for kind, write in (
            ("edges.txt.gz", _edges), ("features.npz", _features), ("labels.txt.gz", _classes), ("splits.npz", _splits)
        )
    },
    "graph-dblp/dblp.ungraph.gz": _edges,
    **{
        f"graph-musae-{graph}.{kind}": write
        for graph in ("facebook/facebook", "github/github")
        for kind, write in (
            ("edges.csv.gz", _pages), ("features.npz", _features), ("labels.csv.gz", _page_names),
            ("splits.npz", _splits),
        )
    },
    "graph-twitch/twitch.edges.txt.gz": _edges,
    "graph-twitch/twitch.features.npz": _features,
    "graph-twitch/twitch.labels.txt.gz": _languages,
    "ctr-criteo10k/criteo_train_first10k.txt.gz": _criteo,
    "ctr-avazu10k/avazu_train.csv.gz": _avazu,
    "ctr-avazu10k/avazu_test.csv.gz": _avazu,
    "rec-ml100k/ml-100k.user.gz": _users,
    "rec-ml100k/ml-100k.item.gz": _films,
    "rec-ml100k/u.data.gz": _stars,
    "rec-ml1m/ml1m.user_movies.txt.gz": _sets_of_users,
    "rec-gowalla/train.txt.gz": _sets_of_users,
    "rec-gowalla/test.txt.gz": _sets_of_users,
    "kg-fb15k-237/FB15k-237.tar.gz": _triples,
    "kg-wn18rr/WN18RR.tar.gz": _triples,
}  # fmt: skip
"""file below the data folder -> what writes its stand-in"""
