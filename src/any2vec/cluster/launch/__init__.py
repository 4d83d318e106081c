"""How processes become hosts: started, watched, joined, ended."""
