"""The pictures of docs/reports.md: `python tests/programs/gallery.py`, in the root of the project. Needs Chromium.

The demo is run, and its report, the page of a run under way, and a page of the documentation are looked at.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from browser import Browser

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 860


def call(work: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "any2vec", *arguments], cwd=work, check=True, stdout=subprocess.DEVNULL)


def keep(browser: Browser, name: str) -> None:
    """Write what the window shows, in as many colors as fit a byte."""
    picture = Image.open(io.BytesIO(browser.picture())).convert("RGB").quantize(256)
    picture.save(IMAGES / f"{name}.png", optimize=True)
    print(f"{name}.png: {(IMAGES / f'{name}.png').stat().st_size:,} bytes")


def report(work: Path) -> None:
    call(work, "demo", "--out", "demo")
    with Browser() as browser:
        browser.open((work / "demo" / "modules" / "report.html").as_uri())
        browser.look(WIDTH, HEIGHT)
        browser.wait("document.querySelectorAll('#map circle').length > 50")
        time.sleep(1)
        keep(browser, "report")
        browser.look(WIDTH, HEIGHT, is_dark=True)
        find = "const box = document.getElementById('map-search'); box.value = 'bz2';"
        browser.read(f"{{ {find} box.dispatchEvent(new Event('input')); box.form.requestSubmit(); }}")
        browser.wait("document.getElementById('map-about').innerText")
        browser.read("document.getElementById('map-closer').click()")
        browser.read("document.getElementById('map').closest('section').scrollIntoView()")
        time.sleep(0.5)
        keep(browser, "report-dark")


@contextmanager
def followed(work: Path) -> Iterator[str]:
    """The address of the page of a run under way."""
    train = ["train", "skipgram", "demo/words.txt", "--out", "live", "--epochs", "20000", "--quiet"]
    with subprocess.Popen([sys.executable, "-m", "any2vec", *train], cwd=work) as run:
        while not (work / "live" / "progress.jsonl").exists():
            time.sleep(0.2)
        time.sleep(20)
        watch = [sys.executable, "-m", "any2vec", "watch", "live", "--web"]
        with subprocess.Popen(watch, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout is not None
            found = None
            while found is None:
                found = re.search(r"http://\S+", server.stdout.readline())
            try:
                yield found[0]
            finally:
                server.terminate()
                run.terminate()


def live(work: Path) -> None:
    with followed(work) as address, Browser() as browser:
        browser.open(address)
        browser.look(WIDTH, HEIGHT)
        browser.wait("document.querySelectorAll('#curves svg').length > 1")
        time.sleep(5)
        keep(browser, "watch")


def site(work: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(ROOT / "docs"), str(work / "site")], check=True
    )
    with Browser() as browser:
        browser.open((work / "site" / "tutorials" / "words.html").as_uri())
        browser.look(WIDTH, HEIGHT)
        time.sleep(1)
        keep(browser, "site")


if __name__ == "__main__":
    os.environ["ANY2VEC_CACHE"] = os.environ.get("ANY2VEC_CACHE", str(ROOT / "runs" / "cache"))
    with tempfile.TemporaryDirectory(prefix="gallery-") as folder:
        report(Path(folder))
        live(Path(folder))
        site(Path(folder))
