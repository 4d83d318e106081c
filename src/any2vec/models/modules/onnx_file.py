"""A module of PyG's layers as an ONNX file, where torch can write it."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import torch

from any2vec.data.io.storage import atomic_file, check_file_free
from any2vec.errors import InputError
from any2vec.nn.layerwise.trace import first_line, small_graph

_OPSET = 18
"""of ONNX: the first one whose scatter operators sum and find maxima"""
_FREE = {"x": {0: "nodes"}, "edge_index": {1: "edges"}, "scores": {0: "nodes"}}


def write_onnx(module: torch.nn.Module, num_features: int, path: Path) -> None:
    """Write a module that is called as (x, edge_index); numbers of nodes and edges are free.

    Raises:
        InputError: the package onnx is missing, or torch cannot write this module.
        StorageError: the file is there, or cannot be written.
    """
    check_file_free(path, overwrite=False)
    if importlib.util.find_spec("onnx") is None:
        raise InputError("ONNX files are written by torch with the package onnx; pip install onnx.")
    probe = small_graph(num_features)
    names: dict[str, Any] = {"input_names": ["x", "edge_index"], "output_names": ["scores"], "dynamic_axes": _FREE}
    with atomic_file(path, False) as temporary:
        try:
            with warnings.catch_warnings():  # torch recommends its other exporter
                warnings.simplefilter("ignore")
                given = probe.x_ND, probe.edge_index
                torch.onnx.export(module.eval(), given, str(temporary), dynamo=False, opset_version=_OPSET, **names)
        except Exception as error:
            raise InputError(
                f"torch cannot write this network as ONNX ({first_line(error)}); to_pyg gives it as a module of PyG."
            ) from error
