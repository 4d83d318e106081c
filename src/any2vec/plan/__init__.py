"""Pure decisions that return frozen plans: no process group, no file, no socket."""
