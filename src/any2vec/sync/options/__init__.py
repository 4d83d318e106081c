"""How a run is spread over hosts and how they agree, as users say it. Light: no numba, no NumPy."""
