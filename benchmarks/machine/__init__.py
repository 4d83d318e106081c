"""Limits set on processes of this machine: memory, disks, processors, networks."""
