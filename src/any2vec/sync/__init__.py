"""How hosts agree: rules that merge rows, and drivers that say when and with whom."""
