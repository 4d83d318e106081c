"""A file as an inflow."""

from __future__ import annotations

import numpy as np

from any2vec.sources.line_batch import LineBatch


class FileInflow:
    def __init__(self, path, position=None):
        self.file = open(path, "rb")
        self.at = 0 if position is None else position["at"]
        self.file.seek(self.at)
        self.is_over = False

    def take(self, timeout):
        block = self.file.read(1 << 16) + self.file.readline()
        if not block:
            self.is_over = True
            return None
        text = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", np.uint8)
        stops = np.flatnonzero(text == 10) + 1
        offsets = self.at + np.concatenate([[0], stops[:-1]])
        self.at += len(block)
        return LineBatch(0, text, stops, offsets.astype(np.uint64), offsets, {"at": self.at})

    def close(self):
        self.file.close()
