"""How are runs made and read in Python? `run` makes one and keeps it, `open` reads it, `compare` compares several."""
