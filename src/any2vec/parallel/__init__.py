"""Parts of one model on several hosts: what travels between them is between neighbours."""
