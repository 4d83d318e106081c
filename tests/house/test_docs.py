"""Every command and every piece of Python that the documents show is run here, or by CI as named below."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.embeddings import Embeddings
from any2vec.testing.planted_site import PlantedSite
from planted_nodes import plant

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
ELSEWHERE = {
    "python3 start.py demo": "by test_demo.py; here: any2vec demo",
    "python3 start.py test": "by .ci/run",
    "python3 start.py test --slow": "by .ci/run",
    ".ci/run": "by CI",
    "source .venv/bin/activate": "by PATH below",
    ".venv/bin/pre-commit install": "by test_pre_commit_hooks_are_local",
    '.venv/bin/python -m pip install -e ".[torch,partition]" -c constraints.txt': "by .ci/run, with its own extras",
    "torchrun --nnodes 4 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HEAD:29500 -m any2vec train skipgram "
    "text.txt --out DIR": "by test_train_hosts.py, with the hosts of one machine",
    "any2vec train skipgram text.txt --hosts 8 --threads 16 --ray HEAD:6379 --out DIR": "by test_cluster_ray",
}
"""commands that are not run here -> what runs them"""
IN_CLONE = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("words", "hosts", "clicks", "reports"))]
"""pages whose commands are run in a clone where the demo has run"""
RUN = (
    *(page.name for page in IN_CLONE),
    "triples.md",
    "recommend.md",
    "pip.md",
    "layers.md",
    "graphs.md",
    "pyg.md",
    "streams.md",
)
"""pages whose commands are run below"""
BENCHMARK = re.compile(r"python benchmarks/(run|words/roofline|pages)\.py\b")
GOLDEN = re.compile(r"python tests/golden/(check|make)\.py\b")
"""what test_golden.py and test_harness.py run"""
HARD = re.compile(r"python tests/(mutants/run\.py (record|draw|judge|show)|(fuzz|kills)/run\.py)\b")
"""what test_mutants.py, test_fuzz.py and test_kills.py run"""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    found = re.findall(r"^```([^\n`]*)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def commands(page: Path) -> list[str]:
    """The command lines of a page's sh blocks, without comments."""
    return [command for text in blocks(page, "sh") for command in commands_of(text)]


def commands_of(text: str) -> list[str]:
    lines = text.replace("\\\n", " ").splitlines()
    return [command for line in lines if (command := re.sub(r"(^|\s)#.*", "", line).strip())]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the demo has run."""
    folder = tmp_path_factory.mktemp("clone")
    run("any2vec demo --out runs/demo", folder)
    (schema,) = blocks(ROOT / "docs" / "clicks.md", "toml")
    (folder / "shop.toml").write_text(schema)
    sell(folder / "orders.csv", 600, seed=1)
    sell(folder / "tomorrow.csv", 50, seed=2)
    return folder


def sell(path: Path, num: int, seed: int) -> None:
    """The file of a shop whose columns the schema of the guide names."""
    draw = random.Random(seed)
    lines = ["bought,price,hour,user,product,country,tags"]
    for _ in range(num):
        product = draw.choice(["teapot", "kettle", "cup", "spoon"])
        tags = "|".join(draw.sample(["new", "blue", "sale"], draw.randrange(3)))
        numbers = f"{int(draw.random() < 0.3)},{draw.uniform(1, 50):.2f},{draw.randrange(24)}"
        lines.append(f"{numbers},u{draw.randrange(40)},{product},{draw.choice(['de', 'fr', 'pl'])},{tags}")
    path.write_text("\n".join(lines) + "\n")


def run(command: str, folder: Path) -> str:
    """Run one command line as a person with an active environment would; its standard output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        shlex.split(command), cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_no_command_is_left_out() -> None:
    """Commands of every page are run below (README), by CI, or are the benchmarks', whose words are looked up below."""
    for page in PAGES:
        assert not blocks(page, ""), f"{page.name}: a fence names no language, so that nobody looks at what is in it"
        assert all(commands_of(text) for text in blocks(page, "sh")), f"{page.name}: a block of sh holds no command"
        for command in commands(page):
            elsewhere = command in ELSEWHERE or any(form.match(command) for form in (BENCHMARK, GOLDEN, HARD))
            is_run = page.name in (*RUN, "extending.md") and "any2vec " in command  # extending: by test_recipes.py
            is_run |= page.parent.name == "tutorials"  # by test_tutorials.py
            is_run |= page.name == "serve.md"
            known = elsewhere or is_run
            assert known, f"{page.name}: nothing runs `{command}`"


def test_commands_of_the_benchmarks_name_what_is_there() -> None:
    """They take minutes to hours: tables, rows and scripts are looked up, and nothing is measured."""
    found = [command for page in PAGES for command in commands(page) if BENCHMARK.match(command)]
    assert len(found) >= 8
    for command in found:
        assert (ROOT / command.split()[1]).is_file(), command
        if "/run.py" in command:
            rows = [line.split()[0] for line in run(f"{command} --list", ROOT).splitlines()]
            assert all(row in rows for row in re.findall(r"--row (\S+)", command)), command


@pytest.mark.slow
def test_commands_of_the_readme_and_guides(clone: Path) -> None:
    wanted = [command for command in commands_in_clone() if not needs_torch(command)]
    assert len(wanted) >= 16
    said = {command: run(command, clone) for command in wanted}
    assert "list" in next(text for command, text in said.items() if "nearest runs/words tuple" in command)
    assert "lzma" in next(text for command, text in said.items() if "nearest runs/modules bz2" in command)
    assert (clone / "runs" / "words" / "report-map.png").is_file() and (clone / "runs" / "words.txt").is_file()


@pytest.mark.slow
def test_commands_of_the_guides_over_processes(clone: Path) -> None:
    pytest.importorskip("torch", reason="hosts as processes need torch")
    wanted = [command for command in commands_in_clone() if needs_torch(command)]
    assert len(wanted) >= 6
    for command in wanted:
        run(command, clone)


def commands_in_clone() -> list[str]:
    """Each once, for some stand on several pages."""
    found = [command for page in IN_CLONE for command in commands(page) if command not in ELSEWHERE]
    return list(dict.fromkeys(command for command in found if not BENCHMARK.match(command)))


def needs_torch(command: str) -> bool:
    """Hosts as processes, and models of clicks."""
    return any(mark in command for mark in (" --hosts ", "/clicks", " score ", "shop"))


@pytest.mark.slow
@pytest.mark.parametrize("page", IN_CLONE[:2], ids=lambda page: page.name)
def test_python_of_the_readme_and_of_words(page: Path, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone)
    code = "\n".join(blocks(page, "python"))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    assert "list" in output.getvalue()


def test_python_of_the_front_page() -> None:
    (code,) = blocks(ROOT / "docs" / "index.md", "python")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "index.md", "exec"), {})
    assert output.getvalue().count("('") == 3 and "('dog'" in output.getvalue()


def test_the_readme_is_read_in_minutes() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(text.split()) <= 900 and len(lines) <= 150
    assert lines.index("```python") < 25, "Python stands on the first screen"


@pytest.mark.slow
def test_commands_and_python_of_the_page_of_triples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    for name, size in (("train", 400), ("valid", 20), ("test", 20)):
        lines = (f"e{draw.randrange(30)}\tr{draw.randrange(2)}\te{draw.randrange(30)}\n" for _ in range(size))
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    page = ROOT / "docs" / "triples.md"
    assert len(commands(page)) == 6
    for command in commands(page):
        run(command, tmp_path)
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(page, "python")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    assert output.getvalue().count("'e") == 13


@pytest.mark.slow
def test_commands_and_python_of_the_page_of_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvicorn", reason="serving needs the extra serve")
    pytest.importorskip("faiss", reason="its index needs the extra faiss")
    if shutil.which("curl") is None:
        pytest.skip("the page shows curl")
    keys = ["king", "queen", "man", "woman", *(f"w{n}" for n in range(50))]
    Embeddings(keys, np.random.default_rng(1).standard_normal((54, 8))).save(tmp_path / "runs" / "words")
    lines = (f"e{n}\tr{n % 2}\te{(n * 7 + 1) % 30}\n" for n in range(30))
    (tmp_path / "train.tsv").write_text("".join(lines))
    run("any2vec train complex train.tsv --dim 8 --epochs 1 --out runs/entities", tmp_path)
    page = ROOT / "docs" / "serve.md"
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    wanted = [command.replace("8485", port) for command in commands(page)]
    served, asked = wanted[0], [command for command in wanted if command.startswith("curl ")]
    assert len(asked) == 6 and served.startswith("any2vec serve ")
    command = [sys.executable, "-m", *shlex.split(served)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None and "Serving words, graph at http" in server.stderr.readline()
            for one in asked:
                assert "error" not in (answer := run(f"{one} --fail --retry 5 --retry-connrefused", tmp_path)), answer
            output = io.StringIO()
            (code,) = blocks(page, "python")
            with contextlib.redirect_stdout(output):
                exec(compile(code.replace("8485", port), page.name, "exec"), {})
            assert output.getvalue().count("'key'") == 3
        finally:
            server.terminate()
        assert server.wait(30) == 0
    for command in wanted[len(asked) + 1 :]:
        run(command, tmp_path)
    assert (tmp_path / "index.faiss").is_file() and (tmp_path / "words.usearch").is_file()


@pytest.mark.slow
def test_commands_and_python_of_the_page_of_recommending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="models of clicks need torch")
    page, draw = ROOT / "docs" / "recommend.md", random.Random(1)
    users, items = [547, 12, *range(100, 140)], [1193, *range(20)]
    rows = [f"{user}\t{item}\n" for user in users for item in draw.sample(items, 10)]
    (tmp_path / "likes.tsv").write_text("user\titem\n" + "".join(rows[::2]) + "7\t1193\n")
    (tmp_path / "test.tsv").write_text("user\titem\n" + "".join(rows[1::2]))
    (tmp_path / "plays.csv").write_text("who,what,times\n" + "".join(rows).replace("\n", "\t3\n").replace("\t", ","))
    clicks = (f"{draw.randrange(2)},{draw.choice(users)},de,p{draw.randrange(9)}" for _ in range(300))
    (tmp_path / "clicks.csv").write_text("\n".join(["click,user,country,product", *clicks, "1,547,de,p1", ""]))
    (tmp_path / "shop.toml").write_text('label = "click"\ncategorical = ["user", "country", "product"]\n')
    run("any2vec train fm clicks.csv --schema shop.toml --dim 4 --out runs/clicks", tmp_path)
    said = [run(command, tmp_path) for command in commands(page)]
    assert "recall" in said[3] and "probability" in said[-1] and (tmp_path / "lists.tsv").exists()
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec("\n".join(blocks(page, "python")), {})
    lists, score = printed.getvalue().splitlines()[:2], printed.getvalue().splitlines()[2]
    assert len(lists) == 2 and 0 < float(score) < 1


@pytest.mark.slow
def test_commands_and_python_of_the_page_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    topics = [[f"{name}{number}" for number in range(30)] for name in "abcd"]
    lines = (" ".join(draw.choices(draw.choice(topics), k=12)) for _ in range(3000))
    (tmp_path / "text.txt").write_text("\n".join(lines))
    page = ROOT / "docs" / "pip.md"
    assert len(commands(page)) == 5
    said = [run(command, tmp_path) for command in commands(page)]
    assert "relative scaled" in said[2] and "relative scaled" in said[4]
    assert (tmp_path / "runs" / "dimension.png").is_file()
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(page, "python")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    dim, loss = output.getvalue().split()
    assert int(dim) >= 0 and 0 < float(loss) < 1


@pytest.mark.slow
def test_commands_and_python_of_words_from_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the character model needs torch")
    draw = random.Random(1)
    stems = ("seen", "look"), ("heard", "sung")
    topics = [[f"{stem}{end}" for stem in own for end in ("", "ed", "ish")] for own in stems]
    lines = (" ".join(draw.choices(draw.choice(topics), k=12)) for _ in range(1500))
    (tmp_path / "text.txt").write_text("\n".join(lines))
    (tmp_path / "pairs.tsv").write_text("seen\tlooked\t9\nseen\tunheard\t1\nheard\tsung\t8\n")
    page = ROOT / "docs" / "streams.md"
    section = page.read_text().split("## Words from characters\n")[1].split("\n## ")[0]
    wanted = commands_of("".join(re.findall(r"^```sh\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)))
    assert len(wanted) == 5
    said = [run(command, tmp_path) for command in wanted]
    assert "seen" in said[1] and "cosine" in said[3] and "made" in said[4]
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    assert output.getvalue() == "(100,) False\n"


@pytest.mark.slow
def test_commands_and_python_of_the_head_of_the_page_of_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(1)
    words = ["tea", "pot", "cup", "leaf", "milk", "road", "car", "wheel", "bus", "street"]
    lines = (" ".join(draw.choices(words[:5] if draw.random() < 0.5 else words[5:], k=10)) for _ in range(2000))
    (tmp_path / "log.txt").write_text("".join(line + "\n" for line in lines))
    page = ROOT / "docs" / "streams.md"
    head = page.read_text().split("\n## ")[0]
    wanted = commands_of("".join(re.findall(r"^```sh\n(.*?)^```", head, flags=re.MULTILINE | re.DOTALL)))
    assert len(wanted) == 4
    said = [run(command, tmp_path) for command in wanted]
    assert "exactly once" in said[0] and "cup" in said[1] and "ended by seconds" in said[2]
    assert (tmp_path / "live.txt").is_file()
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", head, flags=re.MULTILINE | re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    assert output.getvalue().endswith("] at most once\n")


def test_python_of_the_sources_of_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "streams.md"
    section = page.read_text().split("## Sources\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    assert "of a second source" in output.getvalue()


@pytest.mark.slow
def test_commands_of_crawls(tmp_path: Path) -> None:
    pytest.importorskip("resiliparse", reason="crawls need pip install 'any2vec[crawl]'")
    section = (ROOT / "docs" / "streams.md").read_text().split("## Crawls\n")[1].split("\n## ")[0]
    wanted = commands_of("".join(re.findall(r"^```sh\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)))
    assert len(wanted) == 2
    with PlantedSite(20) as site:
        said = [run(command.replace("http://127.0.0.1:8000/", site.start), tmp_path) for command in wanted]
    lines = len(site.texts) + 1  # the large page is below 1 MiB
    assert f"{lines} lines, exactly once" in said[0]
    assert said[1].startswith("nearest to tea")  # which words those are depends on the order in which pages come


@pytest.mark.slow
def test_commands_and_python_of_the_page_of_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    pairs = [(u, v) for u in range(60) for v in range(u) if draw.random() < (0.3 if u % 2 == v % 2 else 0.02)]
    (tmp_path / "edges.tsv").write_text("".join(f"{u}\t{v}\n" for u, v in pairs))
    (tmp_path / "y.tsv").write_text("".join(f"{node}\t{'odd' if node % 2 else 'even'}\n" for node in range(60)))
    (tmp_path / "s.tsv").write_text("".join(f"{node}\t{'train' if node < 20 else 'test'}\n" for node in range(60)))
    features = [[draw.gauss(node % 2, 0.5) for _ in range(8)] for node in range(60)]
    np.savez(tmp_path / "x.npz", features=np.array(features))
    page = ROOT / "docs" / "layers.md"
    assert len(commands(page)) == 5
    has_torch = importlib.util.find_spec("torch") is not None
    said = [run(command, tmp_path) for command in commands(page) if has_torch or "--hosts" not in command]
    assert "accuracy" in said[0] and json.loads(said[2])["test_accuracy"] > 0.8
    assert len((tmp_path / "runs" / "predicted.tsv").read_text().splitlines()) == 60
    assert "linear model" not in said[0] and (not has_torch or "linear model" in said[3])
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(page, "python")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    assert output.getvalue().split() == ["['even'", "'odd'", "'even']"]


def plant_as_named(folder: Path) -> None:
    """Files of a graph, under the names that pages give them."""
    planted = plant(folder)
    for name, new in {"edges": "edges.tsv", "labels": "y.tsv", "split": "s.tsv", "features": "x.npz"}.items():
        planted[name].rename(folder / new)


@pytest.mark.slow
def test_commands_and_python_of_the_page_of_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_as_named(tmp_path)
    page = ROOT / "docs" / "graphs.md"
    shown = commands(page)
    said = [run(command, tmp_path) for command in shown[:3]]
    assert "all as they were written" in said[1] and json.loads(said[2])["features"] == 12
    pytest.importorskip("torch", reason='graph networks need pip install "any2vec[torch]"')
    said += [run(command, tmp_path) for command in shown[3:]]
    assert len(said) == 10 and json.loads(said[4])["test_accuracy"] > 0.8
    assert 0.5 < json.loads(said[7])["test_auc"] < 1
    assert len((tmp_path / "classes.tsv").read_text().splitlines()) == 90
    monkeypatch.chdir(tmp_path)
    for code in blocks(page, "python"):
        exec(compile(code, page.name, "exec"), {})


@pytest.mark.slow
def test_commands_and_python_of_the_page_of_pyg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch_geometric", reason='the loader needs pip install "any2vec[pyg]"')
    plant_as_named(tmp_path)
    page = ROOT / "docs" / "pyg.md"
    assert len([run(command, tmp_path) for command in commands(page)]) == 3
    assert len((tmp_path / "own.tsv").read_text().splitlines()) == 90
    monkeypatch.chdir(tmp_path)
    done: dict[str, Any] = {}
    for code in blocks(page, "python"):
        exec(compile(code, page.name, "exec"), done)
    assert len(done["out"]) == done["batch"].batch_size


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"(?:\]\(|src=\")([^)#\s\"]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target} is not there"


def test_the_two_commands_stand_at_the_top() -> None:
    assert commands(ROOT / "README.md")[:2] == ["python3 start.py demo", "python3 start.py test"]
    assert "start.py test" in (ROOT / ".ci" / "run").read_text()


def test_pre_commit_hooks_are_local() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"- repo: (\S+)", text) == ["local"]
    assert set(re.findall(r"- id: (\S+)", text)) == {"ruff-check", "ruff-format", "mypy"}
