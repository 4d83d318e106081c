"""Readers and writers: bytes and text become memory-mappable integer arrays in one versioned format on disk."""
