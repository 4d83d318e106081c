"""A trained model of implicit feedback, ready to recommend: rows of users and of items.

Legend: U users, I items, D numbers of a row, B users of a block, K answers, E pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec import machine
from any2vec.checks import check_whole, parse_json
from any2vec.data.interactions.interactions import Interactions, read_interactions
from any2vec.data.interactions.options import InteractionOptions
from any2vec.data.io.ahead import made_ahead
from any2vec.data.io.files import is_table
from any2vec.data.vocab.user_keys import Key, UserKeys, listed, text_of, warn_missing
from any2vec.embeddings import Embeddings, Neighbors
from any2vec.errors import FormatError, InputError, UnknownKeyError
from any2vec.formats.safetensors_file import read_safetensors, write_safetensors
from any2vec.formats.vocabulary import read_vocabulary, write_vocabulary
from any2vec.kernels.recommend.top_items import best_items
from any2vec.models.recommend.config import RECOMMEND_MODELS, RecommendModel
from any2vec.models.registry import known_models, model_of

USERS, USER_NAMES = "users.safetensors", "users.tsv"
"""files in the run folder: the rows of users and the items' biases, and the users' names"""
_BLOCK_NUMBERS = 1 << 23
"""scores of a block"""


class Recommender:
    """Ranks items for users, by the dot product of their rows and, where the model has them, the items' biases.

    Args:
        users, items: their keys, by row.
        user_UD, item_ID: float32. bias_I: float32 (I,); None: there are none.
        options: how the interactions of training were read; others are read alike where they can be.
    """

    def __init__(
        self, model: RecommendModel, users: Sequence[Any], items: Sequence[Any], user_UD: np.ndarray,
        item_ID: np.ndarray, bias_I: np.ndarray | None = None, options: InteractionOptions | None = None,
    ) -> None:  # fmt: skip
        self.model, self.options = model, options or InteractionOptions()
        self.users, self.items = UserKeys(users), UserKeys(items)
        self.user_vectors, self.item_vectors, self.item_bias = user_UD, item_ID, bias_I
        self._ranked_ID = of_length_one(item_ID) if model.is_cosine else item_ID

    def __repr__(self) -> str:
        return f"Recommender({self.model.name}, {len(self.users):,} users, {len(self.items):,} items)"

    def recommend(self, users: Key | Iterable[Key], k: int = 10, exclude: Any = None) -> Neighbors | list[Neighbors]:
        """The k best items of a user, best first, as (item, score); of several users a list of those.

        Of several, unknown users have empty lists, and a warning names them.

        Args:
            users: a user, or many: a list, an array, a column, a table of one column.
            exclude: what is not recommended: interactions in any form that `read_interactions` takes (a file, a table,
                pairs), of which each user's own are left out; or a list of items, left out for all users. Names that
                the model lacks do not matter beside others that it has.

        Raises:
            UnknownKeyError: the user is unknown; of several, all are.
            InputError: k is no number from 1, or exclude is none of these: a list without one item of the model.
        """
        is_one = text_of(users) is not None
        asked: list[Any] = [users] if is_one else listed(users)  # type: ignore[arg-type]
        row_B = self.users.rows(asked)
        is_there = row_B >= 0
        if not is_there.any():
            self.rows_of(asked)  # says so
        elif not is_there.all():
            known = f"{len(self.users):,} of the training data"
            warn_missing("users", asked, is_there, known, "have no items", stacklevel=2)
        blocks = self.best(row_B[is_there], k, self.known(self._interactions(asked, exclude)))
        answers = iter([answer for block in blocks for answer in self.named(*block)])
        lists = [next(answers) if is_known else [] for is_known in is_there.tolist()]
        return lists[0] if is_one else lists

    def _interactions(self, asked: list[Any], exclude: Any) -> Any:
        """What `recommend` leaves out, as interactions: a list of items becomes pairs of each user with each."""
        if hasattr(exclude, "tocoo"):
            self._check_matrix(exclude.shape)
            return exclude
        if exclude is None or isinstance(exclude, str | Path | Interactions) or is_table(exclude):
            return exclude
        if getattr(exclude, "ndim", 1) == 2:
            return exclude if len(exclude) else None
        wanted = "exclude takes interactions (a file, a table, a list of (user, item)) or a list of items"
        try:
            given = listed(exclude)
        except InputError:
            raise InputError(f"{wanted}, got {exclude!r:.80}.") from None
        items = [item for item in given if text_of(item) is not None]
        if not given:
            return None
        if len(items) < len(given):  # pairs, arrays, paths: read as they stand, or as far as an iterator has given them
            is_files = all(isinstance(item, str | Path) for item in given)
            return given if is_files or isinstance(exclude, Iterator) else exclude
        if (self.items.rows(given) >= 0).any():
            return [(user, item) for user in asked for item in given] or None
        if all(isinstance(item, str) and Path(item).exists() for item in given):
            return given
        raise InputError(
            f"{wanted}; none of {', '.join(map(repr, given[:3]))}{', ...' if len(given) > 3 else ''} is among the "
            f"{len(self.items):,} items of the model, nor a file."
        )

    def _check_matrix(self, shape: tuple[int, ...]) -> None:
        """InputError where rows and columns of a matrix are not the users and items: its rows of some users, say."""
        for noun, keys, place in (("users", self.users, 0), ("items", self.items, 1)):
            numbers = [int(name) for name in keys.names if name.isdecimal()]
            if not numbers:
                raise InputError(
                    f"exclude is a matrix, whose {noun} are 0, 1, 2 ..., and the model's have names, {keys[0]!r} "
                    "first; give pairs of user and item."
                )
            if len(shape) != 2 or (place == 0 and max(numbers) >= shape[0]):
                raise InputError(
                    f"exclude is a matrix of shape {shape}, which has no row for user {max(numbers)} of the model; "
                    "give the whole matrix: the rows of the users that you ask for are found in it."
                )

    def rows_of(self, users: Sequence[Key]) -> np.ndarray:
        """int64 (B,). UnknownKeyError: the training data lack a user."""
        row_B = self.users.rows(users)
        if (row_B < 0).any():
            user = users[int(np.argmax(row_B < 0))]
            raise UnknownKeyError(f"user {user!r} is not among the {len(self.users):,} of the training data.")
        return row_B

    def known(self, interactions: Any, options: InteractionOptions | None = None) -> Interactions | None:
        """Interactions in this model's rows, those with other users or items left out; None stays None.

        options: how they are read; None: as those of training, a table by the same columns where it has them.
        """
        if interactions is None:
            return None
        if isinstance(interactions, Interactions) and (interactions.users, interactions.items) == (
            self.users.names, self.items.names,
        ):  # fmt: skip
            return interactions
        known = [*self.users.names], [*self.items.names]
        return read_interactions(
            interactions, options or self.options, known=known, is_of_training=options is None, pairs_only=True
        )

    def best(
        self, row_B: np.ndarray, k: int, exclude: Interactions | None = None, threads: int = 0
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For users row_B, a block after the other: (rows of the K best items int32 (B, K), scores float32 (B, K)).

        K is k, or the number of items; -1 and -inf stand where fewer are left. exclude: in this model's rows (`known`).
        threads: 0: all usable cores; any number gives the same bits. Memory O(threads) of 40 MB: two blocks a thread at
        most are scored ahead of who takes them.
        """
        check_whole("k", k, 1, 2**31 - 1)
        size = max(1, min(512, _BLOCK_NUMBERS // max(1, len(self.items))))
        starts = range(0, len(row_B), size)

        def work(start: int) -> tuple[np.ndarray, np.ndarray]:
            return self._best(np.asarray(row_B[start : start + size], np.int64), k, exclude)

        workers = min(threads or machine.usable_cores(), len(starts))
        if workers <= 1:
            yield from map(work, starts)
            return
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):
            yield from made_ahead(work, starts, workers, "answers")

    def scores(self, row_B: np.ndarray) -> np.ndarray:
        """Of all items for users by row, row_B int (B,): float32 (B, I)."""
        with np.errstate(over="ignore", invalid="ignore"):
            score_BI = self.user_vectors[row_B] @ self._ranked_ID.T
        if self.item_bias is not None:
            score_BI += self.item_bias
        return np.ascontiguousarray(score_BI, np.float32)

    def _best(self, row_B: np.ndarray, k: int, exclude: Interactions | None) -> tuple[np.ndarray, np.ndarray]:
        if exclude is None:
            return self.best_apart_from(row_B, k, np.zeros(len(row_B) + 1, np.int64), np.zeros(0, np.int32))
        return self.best_apart_from(row_B, k, *exclude.of_users(row_B))

    def best_apart_from(
        self, row_B: np.ndarray, k: int, indptr_B: np.ndarray, left_out_E: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A block of `best`, without the items left_out_E[indptr_B[b] : indptr_B[b + 1]] of each user b of it.

        row_B, k: as of `best`. indptr_B: int64 (B + 1,). left_out_E: int32 (E,), rows of items.
        """
        shape = len(row_B), min(k, len(self.items))
        item_BK, best_BK = np.empty(shape, np.int32), np.empty(shape, np.float32)
        best_items(self.scores(row_B), indptr_B, left_out_E, item_BK, best_BK)
        return item_BK, best_BK

    def named(self, item_BK: np.ndarray, best_BK: np.ndarray) -> list[Neighbors]:
        """Of item_BK and best_BK, (B, K) as of `best`, items by key; places that are not taken are left out."""
        return [
            [(self.items[row], score) for row, score in zip(rows, scores, strict=True) if row >= 0]
            for rows, scores in zip(item_BK.tolist(), best_BK.tolist(), strict=True)
        ]

    # ---- on disk ----------------------------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """What a run folder has besides the items' vectors: file name -> something with `write(path)`."""
        return {USERS: _Rows(self), USER_NAMES: _Names(self.users.names)}

    @classmethod
    def load(cls, folder: Path | str) -> Recommender:
        """Open the folder of a finished run.

        Raises:
            FormatError: it is none of a model of implicit feedback, or damaged.
        """
        folder = Path(folder)
        if not (folder / USERS).exists():
            raise FormatError(
                f"{folder} holds no model of implicit feedback; give the folder of a finished run of bpr, als or "
                "item2vec."
            )
        items = Embeddings.load(folder)
        try:
            users, _ = read_vocabulary(folder / USER_NAMES)
            tensors, metadata = read_safetensors(folder / USERS, mmap=False, ranks=(1, 2))
            about = parse_json(metadata["any2vec"])
            model = model_of(about["model"], known_models("recommend", RECOMMEND_MODELS), "implicit feedback")
            options = InteractionOptions(**about["reading"])
            user_UD, bias_I = tensors["users"], tensors.get("bias")
        except (KeyError, OSError, ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"{folder / USERS} is damaged: {error}; train again.") from error
        except InputError as error:
            raise FormatError(f"{folder / USERS} is damaged: {error}") from error
        sizes = {"users": (user_UD.shape, (len(users), model.dim)), "items": (items.vectors.shape[1], model.dim)}
        if bias_I is not None:
            sizes["bias"] = bias_I.shape, (len(items),)
        for name, (found, wanted) in sizes.items():
            if found != wanted:
                raise FormatError(f"{folder} is damaged: {name} of shape {found} where {wanted} belong; train again.")
        keys = UserKeys(users, bool(about.get("integer_users")))
        return cls(model, keys, items.keys, user_UD, np.ascontiguousarray(items.vectors), bias_I, options)


def of_length_one(row_VD: np.ndarray) -> np.ndarray:
    """Rows divided by their length; 0 stays 0."""
    length_V1 = np.linalg.norm(row_VD, axis=1, keepdims=True)
    return np.divide(row_VD, length_V1, out=np.zeros_like(row_VD), where=length_V1 > 0)


def mean_items(data: Interactions, item_ID: np.ndarray) -> np.ndarray:
    """float32 (U, D): of each user the mean of its items' rows of length 1; 0 where it has none."""
    unit_ID, user_UD = of_length_one(item_ID), np.zeros((len(data.users), item_ID.shape[1]), np.float32)
    has = np.flatnonzero(np.diff(data.indptr))
    for start in range(0, len(has), 4096):
        user_B = has[start : start + 4096]
        first, last = data.indptr[user_B[0]], data.indptr[user_B[-1] + 1]
        user_UD[user_B] = np.add.reduceat(unit_ID[data.item_E[first:last]], data.indptr[user_B] - first)
    user_UD[has] /= np.diff(data.indptr)[has, None]
    return user_UD


@dataclass(frozen=True)
class _Rows:
    of: Recommender

    def write(self, path: Path) -> None:
        about = {
            "model": self.of.model.as_dict(), "integer_users": self.of.users.are_integers,
            "reading": asdict(self.of.options),
        }  # fmt: skip
        tensors = {"users": self.of.user_vectors}
        if self.of.item_bias is not None:
            tensors["bias"] = self.of.item_bias
        with path.open("wb") as file:
            write_safetensors(file, tensors, "float32", {"any2vec": json.dumps(about)})


@dataclass(frozen=True)
class _Names:
    names: Sequence[str]

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            write_vocabulary(file, self.names, None)
