"""Files: read, unpacked, locked, written whole or not at all."""
