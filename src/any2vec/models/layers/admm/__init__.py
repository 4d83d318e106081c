"""Layers trained by pdADMM-G and pdADMM-G-Q."""
