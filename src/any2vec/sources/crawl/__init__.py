"""Pages of the Web as a source: a frontier of links at rank 0, and nodes on any number of hosts that fetch them."""
