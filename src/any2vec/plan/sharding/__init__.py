"""Who owns which row, node, column or layer."""
