"""What a run will need: memory, bytes, time. Modeled, never measured."""
