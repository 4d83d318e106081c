"""What the columns of a file of clicks are: the label, the numbers, the categories, and how those become rows.

Light to import: no NumPy, no Arrow. A schema file is TOML whose keys are the fields of `ClickSchema`:

    label = "click"
    dense = ["price"]
    categorical = ["user", "site"]
    multi_valued = ["genres"]
    [column.site]
    ids = "vocabulary"
    min_count = 5
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from any2vec.checks import check_choice, check_number, check_whole, did_you_mean, parse_toml, plain_fields, plain_number
from any2vec.data.options import check_delimiter
from any2vec.errors import DataError, InputError

IDS = ("hash", "vocabulary")
POOLINGS = ("sum", "mean")
TRANSFORMS = ("log", "none", "standard")
MAX_HASH_ROWS = (1 << 31) - 1
_OF_CATEGORIES = ("ids", "hash_rows", "min_count", "source", "characters")
_OF_BAGS = ("separator", "pooling")
_OF_NUMBERS = ("transform",)


@dataclass(frozen=True, kw_only=True)
class ClickColumn:
    """One categorical column, every option settled."""

    name: str
    source: str
    """the column of the file"""
    is_multi_valued: bool
    ids: str
    hash_rows: int
    min_count: int
    separator: str
    pooling: str
    characters: tuple[int, int] | None
    """only the bytes [start, stop) of the text count"""


@dataclass(frozen=True, kw_only=True)
class ClickSchema:
    """How a file of clicks is read. Columns of the file that are not named here are left out."""

    label: str = "label"
    """the column of labels"""
    label_from: float | None = None
    """labels at or above it are 1, others 0 (stars, say); by default labels must be 0 or 1"""
    dense: tuple[str, ...] = ()
    """columns of numbers"""
    categorical: tuple[str, ...] = ()
    """columns of one value a row"""
    multi_valued: tuple[str, ...] = ()
    """columns of any number of values a row: text with a separator, or lists in Parquet and Arrow"""
    dense_transform: str = "log"
    """log: `sign(x) log(1 + |x|)`; none; standard: (x - mean) / standard deviation of the training file"""
    ids: str = "hash"
    """hash: a value's row comes from its text; vocabulary: each value has its own row"""
    hash_rows: int = 100_000
    """rows of a hashed column, 3..2**31 - 1; the first two stand for missing and (unused here) rare values"""
    min_count: int = 1
    """values that occur less often share the row of rare ones (vocabulary), 1..2**31 - 1"""
    separator: str = "|"
    """between the values of a multi-valued column in text"""
    pooling: str = "sum"
    """sum or mean of the vectors of a multi-valued column"""
    delimiter: str | None = None
    """between columns: tab, comma, semicolon, pipe, space or one character; by default tab if the first line has one,
    else comma; double quotes are understood unless it is tab"""
    header: bool | None = None
    """whether the first line names the columns; by default it does if it holds one of the names needed"""
    column_names: tuple[str, ...] = ()
    """names of all columns of a file without a header, in order; the label's may be missing in rows to be scored"""
    column: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    """options of single columns: ids, hash_rows, min_count, separator, pooling, transform (dense), source (the column
    of the file, if named otherwise), characters ([start, stop): only that part of the text)"""

    def __post_init__(self) -> None:
        plain_fields(self)
        for name in ("dense", "categorical", "multi_valued", "column_names"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        object.__setattr__(self, "column", _options(self.column))
        _check(self)

    # ---- what follows from the fields -------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[ClickColumn, ...]:
        """The F columns of the table: the categorical, then the multi-valued ones."""
        return tuple(self._settled(name) for name in (*self.categorical, *self.multi_valued))

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that every file must have, without the label."""
        return tuple(dict.fromkeys((*self.dense, *(column.source for column in self.columns))))

    def transform(self, name: str) -> str:
        """The transform of a dense column, by its name."""
        return str(self.column.get(name, {}).get("transform", self.dense_transform))

    def _settled(self, name: str) -> ClickColumn:
        own = self.column.get(name, {})
        kept = {key: own.get(key, getattr(self, key)) for key in ("ids", "hash_rows", "min_count", *_OF_BAGS)}
        return ClickColumn(
            name=name,
            source=own.get("source", name),
            is_multi_valued=name in self.multi_valued,
            characters=own.get("characters"),
            **kept,
        )

    # ---- where schemas come from ------------------------------------------------------------------------------------

    @classmethod
    def of(cls, schema: ClickSchema | Mapping[str, Any] | str | Path) -> ClickSchema:
        """A schema as it is, a dict of its fields, one that is known by name (`criteo`, `avazu`), or the path of a
        TOML file.

        Raises:
            InputError: it is none of these, or the dict or file holds what is not legal.
            DataError: the file cannot be read.
        """
        if isinstance(schema, ClickSchema):
            return schema
        if isinstance(schema, Mapping):
            return cls.from_dict(schema)
        if not isinstance(schema, str | Path):
            raise InputError(
                f"schema takes ClickSchema(...), a dict of its fields, {', '.join(KNOWN)} or the path of a TOML file, "
                f"got {schema!r:.80}; such as schema=ClickSchema(label=..., categorical=[...])."
            )
        if isinstance(schema, str) and schema in KNOWN:
            return cls.known(schema)
        if not Path(schema).exists():
            raise InputError(f"There is no schema {str(schema)!r}; give a TOML file, or one of {', '.join(KNOWN)}.")
        return cls.load(schema)

    @classmethod
    def known(cls, name: str) -> ClickSchema:
        """The schema of a public format by its name: `criteo` (Kaggle display advertising) or `avazu`."""
        if name not in KNOWN:
            raise InputError(f"There is no schema {name!r}; {did_you_mean(name, KNOWN)}")
        return cls.from_dict(KNOWN[name])

    @classmethod
    def load(cls, path: str | Path) -> ClickSchema:
        """Read the TOML file at `path`.

        Raises:
            DataError: it cannot be read, or is not TOML.
            InputError: a key is unknown, or a value is not legal.
        """
        try:
            content = parse_toml(Path(path).read_text("utf-8"))
        except OSError as error:
            raise DataError(f"Cannot read the schema {path}: {error.strerror or error}.") from error
        except ValueError as error:
            raise DataError(f"The schema {path} is not TOML: {error}.") from error
        try:
            return cls.from_dict(content)
        except InputError as error:
            raise InputError(f"In the schema {path}: {error}") from None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ClickSchema:
        """From content that `to_dict` gave. InputError: a key is unknown, or a value is not legal."""
        legal = [item.name for item in fields(cls)]
        for key in content:
            if key not in legal:
                raise InputError(f"there is no schema key {key!r}; {did_you_mean(str(key), legal)}")
        return cls(**content)

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON and `from_dict` know it."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
        own = {name: dict(options) for name, options in self.column.items()}
        for options in own.values():
            options.update({key: list(value) for key, value in options.items() if isinstance(value, tuple)})
        return plain | {"column": own}


# ---- checks ---------------------------------------------------------------------------------------------------------


def _names(field_name: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
    names = tuple(value) if is_list else ()
    if not is_list or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"{field_name} must be a list of names of columns, got {value!r}.")
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InputError(f"{field_name} names {twice!r} twice; name it once.")
    return names


def _options(column: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(column, Mapping) or not all(isinstance(own, Mapping) for own in column.values()):
        raise InputError(f"column must hold a table of options for each column ([column.NAME]), got {column!r}.")
    legal = (*_OF_CATEGORIES, *_OF_BAGS, *_OF_NUMBERS)
    for name, own in column.items():
        for key in own:
            if key not in legal:
                raise InputError(f"column.{name}: there is no option {key!r}; {did_you_mean(str(key), legal)}")
    return {
        name: {key: tuple(value) if isinstance(value, list) else plain_number(value) for key, value in own.items()}
        for name, own in column.items()
    }


def _check(schema: ClickSchema) -> None:
    _check_text("label", schema.label)
    if schema.label_from is not None:
        check_number("label_from", schema.label_from, -1e300, 1e300)
    if schema.header not in (True, False, None):
        raise InputError(f"header must be true or false, got {schema.header!r}.")
    if schema.delimiter is not None:
        _check_text("delimiter", schema.delimiter)
        check_delimiter(schema.delimiter)
    _check_categories("", {key: getattr(schema, key) for key in ("ids", "hash_rows", "min_count", *_OF_BAGS)})
    check_choice("dense_transform", schema.dense_transform, TRANSFORMS)
    _check_columns(schema)


def _check_columns(schema: ClickSchema) -> None:
    categories = (*schema.categorical, *schema.multi_valued)
    if not categories:
        raise InputError("a schema needs at least one column in categorical or multi_valued.")
    if both := set(schema.categorical) & set(schema.multi_valued):
        raise InputError(f"{min(both)!r} is named in categorical and in multi_valued; name it in one.")
    for name, own in schema.column.items():
        if name not in (*categories, *schema.dense):
            raise InputError(
                f"column.{name} has options, but is no column; {did_you_mean(name, (*categories, *schema.dense))}"
            )
        for key in own:
            fits = {"transform": schema.dense, "separator": schema.multi_valued, "pooling": schema.multi_valued}
            if name not in fits.get(key, categories):
                raise InputError(f"column.{name} cannot have {key}: the column is of another kind.")
        _check_categories(f"column.{name}.", own)
        _check_use(f"column.{name}.", own, {schema._settled(name).ids} if name in categories else set())
        check_choice(f"column.{name}.transform", own.get("transform", "log"), TRANSFORMS)
    if schema.min_count != 1:
        _check_use("", ("min_count",), {column.ids for column in schema.columns})
    if schema.label in schema.needed:
        raise InputError(f"the label {schema.label!r} is named as an input, too; the model would read its answer.")
    if schema.column_names:
        for name in (*schema.needed, schema.label):
            if name not in schema.column_names:
                raise InputError(f"column_names lacks {name!r}; {did_you_mean(name, schema.column_names)}")
    elif schema.header is False:
        raise InputError("a file without a header (header = false) needs column_names.")


def _check_use(where: str, given: Collection[str], ids: Collection[str]) -> None:
    """InputError for an option of categories that none of the columns makes use of, by their ids."""
    for key, wanted in (("min_count", "vocabulary"), ("hash_rows", "hash")):
        if key in given and wanted not in ids:
            raise InputError(f'{where}{key} is for ids = "{wanted}"; set that, or leave it out.')


def _check_categories(where: str, values: Mapping[str, Any]) -> None:
    check_choice(f"{where}ids", values.get("ids", "hash"), IDS)
    check_choice(f"{where}pooling", values.get("pooling", "sum"), POOLINGS)
    check_whole(f"{where}hash_rows", values.get("hash_rows", 3), 3, MAX_HASH_ROWS)
    check_whole(f"{where}min_count", values.get("min_count", 1), 1, MAX_HASH_ROWS)
    for key in ("separator", "source"):
        _check_text(f"{where}{key}", values.get(key, "|"))
    part = values.get("characters", (0, 1))
    if not (
        isinstance(part, tuple) and len(part) == 2 and all(type(at) is int for at in part) and 0 <= part[0] < part[1]
    ):
        raise InputError(f"{where}characters must be [start, stop] with 0 <= start < stop, got {part!r}.")


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} must be a text that is not empty, got {value!r}.")


# ---- formats known by name ------------------------------------------------------------------------------------------

_CRITEO_NUMBERS = tuple(f"I{number}" for number in range(1, 14))
_CRITEO_CATEGORIES = tuple(f"C{number}" for number in range(1, 27))
_AVAZU = (
    "C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category", "device_id",
    "device_ip", "device_model", "device_type", "device_conn_type", "C14", "C15", "C16", "C17", "C18", "C19", "C20",
    "C21",
)  # fmt: skip
KNOWN: dict[str, dict[str, Any]] = {
    "criteo": {
        "label": "label",
        "dense": _CRITEO_NUMBERS,
        "categorical": _CRITEO_CATEGORIES,
        "delimiter": "tab",
        "column_names": ("label", *_CRITEO_NUMBERS, *_CRITEO_CATEGORIES),
    },
    "avazu": {
        "label": "click",
        "categorical": ("hour", *_AVAZU),
        "delimiter": "comma",
        "column_names": ("id", "click", "hour", *_AVAZU),
        "column": {"hour": {"characters": [6, 8]}},  # YYMMDDHH: the hour of the day
    },
}


@dataclass(frozen=True, kw_only=True)
class ClickReading:
    """Columns of a log of clicks; in Python the schema is also a `ClickSchema`."""

    schema: str | None = None
    """meaning of the columns: criteo, avazu, or a TOML file"""

    def resolved(self) -> ClickSchema | None:
        """The schema that is given, named, or stored in a TOML file.

        Raises:
            InputError, DataError: there is none.
        """
        return None if self.schema is None else ClickSchema.of(self.schema)

    def to_dict(self) -> dict[str, Any]:
        """JSON's form, the schema in full: other machines need not have its file."""
        schema = self.resolved()
        return {"schema": None if schema is None else schema.to_dict()}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> ClickReading:
        """What `to_dict` made."""
        schema: Any = found["schema"]
        return cls(schema=None if schema is None else ClickSchema.from_dict(schema))  # type: ignore[arg-type]
