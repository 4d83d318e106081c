#!/usr/bin/env python3
"""Set everything up and run the demo or the tests, on a machine that has git and Python 3.11 or newer and nothing else.

    python3 start.py demo [options of any2vec demo]     train on text and a graph that ship with Python, write a report
    python3 start.py test [--slow] [options of pytest]  run the tests; --slow: also those that are slow by nature

The first call makes a virtual environment in `.venv` beside this file and installs any2vec into it (wheels; no
torch); later calls use it again as long as `pyproject.toml` and `constraints.txt` stay as they were.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

OLDEST_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
PIP_LOG = VENV / "install.log"
MOST_WORKERS = 4
WORKER_BYTES = 2 << 30  # what one of the processes that run tests in parallel may need
VALUED = {"-k", "-m", "-n", "-p", "-o", "-c", "-W", "-r"}  # options of pytest that a value follows; others: --NAME
FLAGS = {"--slow", "--lf", "--ff", "--pdb", "--trace", "--collect-only", "--co", "--verbose", "--quiet", "--exitfirst"}
NONE_RAN = 5  # pytest's exit code where it finds no test
SPINNER = "|/-\\"


def fail(message):
    """Print one sentence and end with exit code 2."""
    sys.stderr.write("start.py: " + message + "\n")
    raise SystemExit(2)


def use_new_enough_python():
    """Go on under a newer Python from PATH when this one is too old; fail with the way out when there is none."""
    if sys.version_info >= OLDEST_PYTHON:
        return
    for minor in range(15, OLDEST_PYTHON[1] - 1, -1):
        newer = shutil.which(f"python3.{minor}")
        if newer:
            os.execv(newer, [newer, str(Path(__file__).resolve()), *sys.argv[1:]])
    fail(
        f"any2vec needs Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer, this is {sys.version.split()[0]}; "
        "install a newer Python and run the command again."
    )


def wanted_stamp(extra):
    """What an up-to-date environment was made from: the two files, this folder and the Python that owns it."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    digest.update(str(ROOT).encode())
    return digest.hexdigest() + " " + (extra or "core")


def is_ready(extra):
    """True if the environment works and holds this version of the requirements. The dev environment serves both."""
    stamp = VENV / "any2vec-stamp"
    if not stamp.is_file() or stamp.read_text().strip() not in {wanted_stamp(extra), wanted_stamp("dev")}:
        return False
    return works([str(VENV_PYTHON), "-c", "import any2vec, numpy"])


def works(command):
    """True if the command runs and ends with exit code 0; its output is dropped."""
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def last_line(path):
    """The last line of pip's log that says something, in short."""
    try:
        lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    words = lines[-1].split() if lines else []
    return " ".join(words[:2])[:40] if words and words[0] in {"Collecting", "Downloading", "Installing"} else ""


def run_step(title, command, log):
    """Run a command with its output in `log`; show a spinner on a terminal, one line elsewhere. Returns success."""
    is_terminal = sys.stdout.isatty()
    start = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=str(ROOT), stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        if not is_terminal:
            sys.stdout.write(title + " ...\n")
            sys.stdout.flush()
        turn = 0
        try:
            while process.poll() is None:
                time.sleep(0.1)
                turn += 1
                if is_terminal:
                    seconds = time.monotonic() - start
                    text = f"{SPINNER[turn % 4]} {title}  {seconds:3.0f} s  {last_line(log)}"
                    sys.stdout.write("\r\033[K" + text[: shutil.get_terminal_size().columns - 1])
                    sys.stdout.flush()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    seconds = time.monotonic() - start
    mark = "done" if process.returncode == 0 else "failed"
    clear = "\r\033[K" if is_terminal else ""
    sys.stdout.write(f"{clear}{title}: {mark} in {seconds:.0f} s\n")
    sys.stdout.flush()
    return process.returncode == 0


def make_environment():
    """Create `.venv`, anew when what stands there does not run."""
    if works([str(VENV_PYTHON), "-m", "pip", "--version"]) and works(
        [str(VENV_PYTHON), "-c", f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON!r})"]
    ):
        return
    shutil.rmtree(str(VENV), ignore_errors=True)
    try:
        VENV.mkdir(parents=True)
    except OSError as error:
        fail(f"cannot make the folder .venv ({error.strerror}); clone any2vec to a folder that you may write to.")
    if not run_step("Making the environment .venv", [sys.executable, "-m", "venv", str(VENV)], PIP_LOG):
        tail = "".join(PIP_LOG.read_text(errors="replace").splitlines(keepends=True)[-5:])
        sys.stderr.write(tail)
        shutil.rmtree(str(VENV), ignore_errors=True)
        fail("Python's venv does not work here; on Debian and Ubuntu, `apt install python3-venv` brings it.")


def install(extra):
    """Install any2vec (editable) with the pinned dependencies; on failure show pip's own words."""
    target = str(ROOT) + (f"[{extra}]" if extra else "")
    command = [str(VENV_PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--prefer-binary", "-c", str(ROOT / "constraints.txt"), "-e", target]
    PIP_LOG.write_bytes(b"")
    what = "any2vec and its test tools" if extra else "any2vec"
    if not run_step(f"Installing {what} into .venv", command, PIP_LOG):
        lines = [line for line in PIP_LOG.read_text(errors="replace").splitlines() if line.strip()]
        sys.stderr.write("\n".join("    " + line for line in lines[-12:]) + "\n")
        fail("pip could not install any2vec (its last lines are above, all of them in .venv/install.log); "
             "check the network connection and the disk, then run the same command again.")  # fmt: skip
    (VENV / "any2vec-stamp").write_text(wanted_stamp(extra) + "\n")


def prepare(extra):
    """Bring `.venv` up to date for the core (extra "") or the tests (extra "dev")."""
    if is_ready(extra):
        return
    make_environment()
    install(extra)


def num_workers():
    """How many processes run tests in parallel: one for each core, as far as the memory goes."""
    code = "from any2vec import machine as m; print(m.usable_cores(), m.memory_bytes())"
    answer = subprocess.run([str(VENV_PYTHON), "-c", code], stdout=subprocess.PIPE, check=True).stdout
    cores, memory = map(int, answer.split())
    return max(1, min(MOST_WORKERS, cores, memory // WORKER_BYTES))


def pytest_options(options):
    """The user's options of pytest; before them: tests in parallel, and none that is slow, unless the user chose."""
    own = []
    names = {option.split("=")[0] if option.startswith("--") else option[:2] for option in options}
    if not names & {"-n", "--numprocesses", "-s", "--pdb", "--trace"} and "no:xdist" not in " ".join(options):
        own += ["-n", str(num_workers()), "--dist", "loadfile"]  # a file's tests share what its fixtures make
    if not names & {"-m", "--slow"}:
        own += ["-m", "not slow"]
        sys.stdout.write("Tests that are slow by nature are left out; `start.py test --slow` runs all.\n")
    return own + [option for option in options if option != "--slow"]


def check_paths(options):
    """Fail for a path that is not there, before anything runs: pytest's parallel processes say nothing of it."""
    for before, option in zip(["", *options], options, strict=False):
        has_value = before in VALUED or (before.startswith("--") and "=" not in before and before not in FLAGS)
        path = option.split("::")[0]
        if option.startswith("-") or has_value or not ("/" in path or path.endswith(".py") or path == "tests"):
            continue
        if not (ROOT / path).exists():
            fail(f"there is no {path} in {ROOT.name}; give a file or folder of tests, such as tests/house.")


def run_tests(options):
    """Run pytest; its exit code."""
    command = [str(VENV_PYTHON), "-m", "pytest", *pytest_options(options)]
    # Threads of OpenMP that wait by spinning keep the cores from the tests of other processes.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    sys.stdout.flush()
    code = subprocess.run(command, cwd=str(ROOT), env=environment).returncode
    if code == NONE_RAN:
        sys.stderr.write("start.py: no test was run: none matches, or those that do are slow (--slow runs them).\n")
    return code


def main(arguments):
    use_new_enough_python()
    if not arguments or arguments[0] not in {"demo", "test"}:
        sys.stderr.write(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    job, options = arguments[0], arguments[1:]
    if job == "test":
        check_paths(options)
    prepare("dev" if job == "test" else "")
    if job == "test":
        return run_tests(options)
    command = [str(VENV / "bin" / "any2vec"), "demo", "--out", "runs/demo", *options]
    sys.stdout.flush()
    return subprocess.run(command, cwd=str(ROOT)).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
