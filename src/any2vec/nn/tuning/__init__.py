"""GCoD's tuning of a graph (You et al., HPCA 2022): edges weighed by ADMM, pruned, and a network trained again."""
