"""Options of modules of a user's own. Light: no NumPy, no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from any2vec.checks import Number, Whole
from any2vec.errors import InputError
from any2vec.models.networks.config.base import GraphNetwork


@dataclass(frozen=True, kw_only=True)
class OwnModule(GraphNetwork):
    """A `torch.nn.Module` of PyTorch Geometric's layers, from a package or a file of the current folder.

    It is made as `Class(in_channels=..., out_channels=..., **module_args)`, of the columns of features and number of
    classes. Called as forward(x, edge_index), and with edge_attr where that is asked for, it gives a row of scores a
    node. In training the rows of a batch are its seeds, then what each hop has found. All nodes are scored layer by
    layer where torch.fx can trace it.
    """

    name: ClassVar[str] = "module"

    module: str = ""
    """package:Class of the module, or of a function that makes it; in Python also the class, function or module"""
    module_args: str | None = None
    """further arguments of the class, a JSON object; in Python also a dict"""
    edge_attr: bool = False
    """call it as forward(x, edge_index, edge_attr=...), with the features of edges"""
    accelerate: bool = True
    """run PyG's layers by kernels of any2vec, where they know them"""
    num_layers: Annotated[int, Whole(0, 16)] = 0
    """hops that a batch reaches, one each time that the module passes messages, 1..16; 0: as many as fanouts, or as
    num_layers of module_args says, or 2"""
    hidden: Annotated[int, Whole(0, 0)] = field(default=0, metadata={"flag": False})
    """always 0: the module has its own"""
    dropout: Annotated[float, Number(0, 0)] = field(default=0.0, metadata={"flag": False})
    """always 0: the module has its own"""

    def __post_init__(self) -> None:
        from any2vec.models.modules.imported import arguments, arguments_text, check_place, place_of

        if not self.module:
            raise InputError("module is missing; name a class, like --module models:SAGE.")
        object.__setattr__(self, "module", place_of(self.module))
        check_place(self.module)
        object.__setattr__(self, "module_args", arguments_text(self.module_args))
        if self.num_layers == 0:
            parts = self.fanouts.count(",") + 1 if isinstance(self.fanouts, str) else len(self.fanouts or ())
            said = arguments(self.module_args).get("num_layers", 2)
            hops = parts if self.fanouts not in (None, "all") else said if isinstance(said, int) else 2
            object.__setattr__(self, "num_layers", max(1, min(hops, 16)))
        super().__post_init__()

    @property
    def takes_edge_features(self) -> bool:
        return self.edge_attr

    @property
    def dim(self) -> int:
        """0: as many as the last layer of the module takes."""
        return 0
