"""What kernels of every kind are built of: the decorator, random numbers, registers, hashes."""
