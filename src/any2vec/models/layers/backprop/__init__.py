"""Layers trained by back-propagation, on one host or pipelined over several."""
