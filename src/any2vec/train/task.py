"""A task: one kind of models, their data, their options, registered in one place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec import machine
from any2vec.data.io.files import is_table
from any2vec.errors import DataError, InputError
from any2vec.models.registry import known_models, model_class, model_of
from any2vec.options.hosts import HostOptions
from any2vec.options.run import RunOptions
from any2vec.options.storage import StorageOptions
from any2vec.options.sync import SyncOptions
from any2vec.plan.cost.size import BEST, with_former
from any2vec.registry import Registry, loaded
from any2vec.train.run_folder import claim_folder

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.options.planning import ItemShape, Shape
    from any2vec.plan.cost.size import Forecast, Size
    from any2vec.train.frame import Program
    from any2vec.train.in_memory.validation import Validator
    from any2vec.train.spec import Hooks, Request, RunSpec
    from any2vec.types import Stage

HOSTS = ("hosts", "logical_hosts", "link", "host_timeout", "ray", "restarts")
"""options of hosts that every task has that trains on several"""
RUN = ("epochs", "threads", "seed", "out", "resume", "overwrite", "checkpoint_seconds")
"""options of runs that every task has"""
VALIDATION = ("validate", "patience")
"""options of runs that validate on data beside those of the training"""
CLASSES: Mapping[str, type] = {"run": RunOptions, "hosts": HostOptions, "sync": SyncOptions, "storage": StorageOptions}
"""group of options -> its class, one for all tasks"""


@dataclass(frozen=True)
class Nouns:
    """What a model's vectors belong to, and what its speed counts."""

    rows: str
    items: str


class Task(ABC):
    """What a kind of models is, to everything that trains, plans, prints and opens (abstract).

    A task is made once, without arguments, and keeps no state. Its module is light: what compiles or needs PyTorch is
    imported in the methods.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """what its models learn from, for headings: "words and nodes" """
    command: ClassVar[str] = "train"
    """the command that trains it: train, or stream"""
    rank: ClassVar[int] = 100
    """its place in lists"""
    models: ClassVar[Mapping[str, str]]
    """name of a model on the command line -> "module:class" of its config; other packages may bring more"""
    about: ClassVar[Mapping[str, str]] = {}
    """name of a model -> one line for `--help`; of others the first line of the config's docstring"""
    reading: ClassVar[Mapping[str, str]]
    """kind of data -> "module:class" of the options of reading it"""
    has: ClassVar[Mapping[str, tuple[str, ...]]] = {"run": RUN, "hosts": HOSTS}
    """group of options (run, hosts, sync, storage) -> the fields that it has of them"""
    lacks: ClassVar[Mapping[str, str]] = {}
    """option that it has not -> why, to follow "MODEL has no OPTION: " """
    help: ClassVar[Mapping[str, str]] = {}
    """option -> its help, where this task says more than its class"""
    leaves_out: ClassVar[tuple[str, ...]] = ()
    """options of reading that make no sense here"""
    ends: ClassVar[bool] = True
    """whether data end: then there are epochs, and one result that is whole or not there"""
    record: ClassVar[str] = "any2vec.types:Progress"
    """"module:class" of the records of progress"""
    summary_file: ClassVar[str] = "run.json"
    """of a run folder, with the summary of the run"""
    score_options: ClassVar[tuple[str, ...]] = ()
    """options of `any2vec score`, beside those of all, that `score` takes"""
    needs_folder: ClassVar[bool] = True
    """whether the command line asks for --out"""
    warns_always: ClassVar[bool] = False
    """whether warnings are printed with --quiet and --json, too: they mean that the model is of little use"""
    input: ClassVar[str] = "files, folders, globs, or - for standard input"
    """help of the argument that names the data"""
    planning: ClassVar[tuple[str, ...]] = ()
    """"module:class" of what `any2vec plan` goes by: the shape of data that nobody has yet, machines; empty: it has
    none"""

    # ---- what there is ----------------------------------------------------------------------------------------------

    @property
    def known_models(self) -> Registry[Any]:
        """`models`, and those of other packages."""
        return known_models(self.name, self.models)

    def model_class(self, name: str) -> Any:
        """The class of a model's config."""
        return model_class(self.known_models, name)

    def about_model(self, name: str) -> str:
        """One line for `--help`."""
        if name in self.about:
            return self.about[name]
        return (self.model_class(name).__doc__ or name).strip().partition("\n")[0].rstrip(".")

    def model_from(self, options: Mapping[str, Any]) -> Any:
        """The config whose `as_dict` this is; raises as `model_of`."""
        return model_of(options, self.known_models, self.title)

    def reading_of(self, model: str) -> tuple[str, ...]:
        """The kinds of data that a model reads, by its name."""
        return tuple(self.reading)

    def reading_from(self, kind: str, values: Mapping[str, Any]) -> Any:
        """Options of reading from their plain form."""
        cls = loaded(self.reading[kind])
        return cls.from_dict(dict(values)) if hasattr(cls, "from_dict") else cls(**values)

    def run_class(self) -> Any:
        """The class of the options of a run."""
        return RunOptions

    def options_of(self, model: str) -> Mapping[str, tuple[str, ...]]:
        """Group -> fields that a model has, by its name."""
        return self.has

    def why_not(self, model: str, option: str) -> str:
        """Why a model has not got an option."""
        return self.lacks.get(option, f"it makes no sense for models of {self.title}")

    @abstractmethod
    def nouns(self, model: Any) -> Nouns:
        """Of a config."""

    # ---- a run ------------------------------------------------------------------------------------------------------

    def check(self, spec: RunSpec, hooks: Hooks) -> None:  # noqa: B027 (most things go together)
        """Raise InputError for options that do not go together; no file is opened."""

    def num_ranks(self, spec: RunSpec) -> int | None:
        """Processes, or threads, of the run; None where torchrun says it, or for one."""
        return spec.hosts.num_ranks

    def threads(self, spec: RunSpec, local_hosts: int) -> int:
        """Training threads of a host; local_hosts share this machine's cores."""
        return int(spec.run.threads) or max(1, machine.usable_cores() // local_hosts)

    def agreement(self, spec: RunSpec) -> Any:
        """What the task makes of the options of hosts and sync, checked."""
        return None

    @abstractmethod
    def read(self, spec: RunSpec, hooks: Hooks) -> Any:
        """Read the data, once in each process; what is returned has `metadata`, unless `share` makes that.

        Raises:
            InputError, DataError: they cannot be read, or not for this model.
        """

    def shares_reading(self, spec: RunSpec) -> bool:
        """Whether hosts read, or cut, the data together: then what they say meanwhile is part of the run."""
        return False

    def share(self, spec: RunSpec, hooks: Hooks, data: Any, transport: Transport) -> Any:
        """What one host has of the data, with `metadata`; a collective call where `shares_reading`."""
        return data

    def settings(self, spec: RunSpec, data: Any, hosts: int) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        return spec.settings(data.metadata)

    # ---- before a run -----------------------------------------------------------------------------------------------

    def can(self, command: str, model: str) -> bool:
        """Whether `any2vec estimate`, or `plan` (command), is for a model; `why_not` says why it is not."""
        return bool(self.planning) if command == "plan" else type(self).size is not Task.size

    def size(self, spec: RunSpec, metadata: Mapping[str, Any]) -> Size:
        """What one host of a run on data with this metadata needs: --memory, `estimate` and `plan` go by it."""
        raise InputError(f"Nothing is known beforehand of runs of {spec.model.name}: its task has no `size`.")

    def metadata_of(self, spec: RunSpec, shape: Any) -> Mapping[str, Any]:
        """Of data that nobody has yet.

        Raises:
            InputError: their shape does not say enough.
        """
        raise InputError(f"What {spec.model.name} needs follows from its data: give an INPUT, and leave out --rows.")

    def estimate(self, spec: RunSpec, shape: ItemShape, hooks: Hooks) -> dict[str, Any]:
        """What a run on one host needs, JSON-ready."""
        return self.sized(spec, self.known(spec, shape, hooks))

    def known(self, spec: RunSpec, shape: Shape, hooks: Hooks) -> Mapping[str, Any]:
        """Metadata of data that are read, or, where their shape has rows, of those that nobody has yet."""
        if shape.rows is not None:
            return self.metadata_of(spec, shape)
        found: Mapping[str, Any] = self.read(spec, hooks).metadata
        return found

    def sized(self, spec: RunSpec, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Memory and disk of a run on one host by its `size`, within its budget if it has one."""
        size, process, threads = self.size(spec, metadata), machine.process_bytes(), self.threads(spec, 1)
        fixed = process + size.fixed_bytes(threads)
        plan = size.within(spec.storage.memory_bytes, fixed) or size.whole(fixed)
        has_order = "order" in self.options_of(spec.model.name).get("storage", ())
        order = spec.storage.order_of(spec.model) if has_order else ""
        about = {"dim": spec.model.dim, "epochs": spec.run.epochs or spec.model.default_epochs}
        found = size.as_dict(plan, order, process_bytes=process, threads=threads) | about
        return with_best(found, found["tables"], spec)

    def plan(self, spec: RunSpec, shape: Any, machines: Any, stage: Stage) -> Forecast:
        """What a run over hosts needs, takes and sends; shape, machines: of `planning`."""
        raise NotImplementedError

    @contextmanager
    def limits(self, spec: RunSpec) -> Iterator[None]:
        """Kernels and workers multiply small matrices on each of our own threads, which others' would fight."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):
            yield

    def validator(self, spec: RunSpec, data: Any) -> Validator | None:
        """What scores the run behind each epoch, by what `spec.run.validate` names, at rank 0; None: nothing does.

        data: what `share` gave. A task that has the options `validate` and `patience` has a validator.

        Raises:
            InputError, DataError: the data to validate on cannot be read, or are not for this model.
        """
        return None

    @abstractmethod
    def program(self, request: Request, data: Any, transport: Transport) -> Program:
        """What one host of the run does."""

    def claim(self, spec: RunSpec, may_start_again: bool) -> None:
        """See that a run may begin in its folder; of hosts that join rank 0 does it, once they have.

        may_start_again: torchrun may start them again, and they then go on from what they find there.

        Raises:
            StorageError, InputError: as of `run_folder.claim_folder`.
        """
        claim_folder(spec, may_start_again)

    def stored(self, spec: RunSpec, folder: Path, hooks: Hooks) -> RunSpec:
        """The spec with data that processes can read: as they lie, or stored in a folder for them.

        Raises:
            InputError: they are in memory, and this task has no file for them.
        """
        return replace(spec, data=file_names(spec.data))

    # ---- a result ---------------------------------------------------------------------------------------------------

    def scorer(self, folder: Path) -> Any:
        """What a run folder has beside its vectors to score with; None: nothing."""
        return None

    def evaluate(self, folder: Path, data: Path) -> Mapping[str, Any]:
        """Scores of a finished run on data that it has not seen: `any2vec evaluate DIR --task NAME --data FILE`.

        Raises:
            InputError: there is no such test; the folder is of another task.
        """
        raise InputError(
            f"There is no test of models of {self.title} by that name; see any2vec evaluate --help, and any2vec score."
        )

    def score(self, folder: Path, data: Path, **options: Any) -> Iterator[str] | None:
        """A line with its score for each row of a file like that of training: `any2vec score DIR FILE`.

        options: those of `score_options` that were given.

        None: rows are not scored, or the command knows more of them.
        """
        return None

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        """A sentence and a command to try with the result."""
        return ""

    def lines(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What the summary says of this task alone, as (name, value) for people."""
        return []


def with_best(found: dict[str, Any], tables: Mapping[str, Any], spec: RunSpec) -> dict[str, Any]:
    """An estimate, with the copy of the best epoch's rows that a run which validates keeps, and its checkpoint has."""
    if spec.run.validate is None:
        return found
    copy = sum(4 * table["rows"] * table["columns"] for table in tables.values())
    sums = ("memory_bytes", "anonymous_bytes", "fixed_bytes")
    disk = with_former(found["disk"] | {BEST: copy})
    return (
        found
        | {name: found[name] + copy for name in sums if name in found}
        | {"memory": found["memory"] | {BEST: copy}, "disk": disk, "disk_peak_bytes": sum(disk.values())}
    )


def refuse_absent(task: Task, spec: RunSpec) -> None:
    """Raise InputError for an option that has a value and that the model has not got."""
    own = task.options_of(spec.model.name)
    for group, cls in CLASSES.items():
        options = getattr(spec, group)
        if not isinstance(options, cls):
            continue
        for item in fields(cls):
            value = getattr(options, item.name)
            default = item.default_factory() if item.default_factory is not MISSING else item.default
            is_given = value is not default and (default is None or value != default)
            if item.name not in own.get(group, ()) and is_given:
                raise InputError(absent(task, spec.model.name, item.name))
    for kind in spec.reading:
        if kind not in task.reading_of(spec.model.name):
            kinds = " and ".join(task.reading_of(spec.model.name))
            raise InputError(f"{spec.model.name} has no options of reading {kind}: it reads {kinds}; leave them out.")


def absent(task: Task, model: str, option: str) -> str:
    """The sentence for an option that a model has not got."""
    return f"{model} has no --{option.replace('_', '-')} ({option}): {task.why_not(model, option)}; leave it out."


def check_spread(spec: RunSpec) -> None:
    """Raise InputError when an option speaks of several hosts and nobody said how many: it would do nothing."""
    if spec.hosts.hosts is None and spec.hosts.restarts:
        raise InputError("--restarts starts processes again; say how many there are, --hosts N, or leave it out.")
    if spec.hosts.logical_hosts is not None and spec.hosts.host_timeout != HostOptions.host_timeout:
        raise InputError("--host-timeout is for processes: logical hosts are threads of this one; leave it out.")
    if spec.hosts.is_distributed:
        return
    for options in (spec.hosts, spec.sync):
        for item in fields(options):
            value = getattr(options, item.name)
            if value != item.default and item.name != "staleness_bound":
                raise InputError(
                    f"--{item.name.replace('_', '-')} ({item.name} = {value!r}) is for several hosts; say how many, "
                    "--hosts N or --logical-hosts N, or leave it out."
                )


def check_validation(spec: RunSpec, has_data: bool) -> None:
    """Raise InputError or DataError for options of validation that cannot be.

    has_data: whether the model validates on data of their own, and not on a split of those of the training.
    """
    given, share = spec.run.validate, spec.run.validation_share
    if given is None:
        if spec.run.patience and has_data:
            raise InputError("patience waits for a better validation score; say what to validate on, --validate.")
        return
    if isinstance(given, float | int) and share is None:
        raise InputError(f"validate as a share of the data must be between 0 and 1, got {given!r}.")
    is_path = isinstance(given, str | Path) and not any(sign in str(given) for sign in "*?[")
    if is_path and share is None and not Path(str(given)).exists():
        raise DataError(f"There is no file {given} to validate on; check the path, or give a share between 0 and 1.")
    if spec.storage.memory is not None:
        raise InputError("The best state is kept in memory beside the tables; leave out --memory, or --validate.")


def file_names(data: Any) -> str | list[str]:
    """Paths as strings, one or a list as given, of data that are files.

    Raises:
        InputError: they are none.
    """
    names = data if isinstance(data, list | tuple) else [data]
    if hasattr(data, "path") and not is_table(data):  # stored, and opened already
        return str(data.path)
    if all(isinstance(name, str | Path) and str(name) != "-" for name in names) and all(map(_is_there, names)):
        return [str(name) for name in data] if isinstance(data, list | tuple) else str(data)
    raise InputError(
        "Processes read files, and these data are in memory or come through a pipe; write them to a file, "
        "store them with any2vec.encode_text(...), or use logical_hosts."
    )


def _is_there(name: str | Path) -> bool:
    if any(sign in str(name) for sign in "*?["):
        return True
    try:  # a sentence may be no name at all: too long, or with a NUL in it
        return Path(name).exists()
    except (OSError, ValueError):
        return False
