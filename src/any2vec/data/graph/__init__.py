"""Edge lists and their kin become graphs in compressed sparse rows."""
