"""Modules of PyG layers computed layer by layer: traced, and cut where messages are passed (DGI, Yin et al. 2022)."""
