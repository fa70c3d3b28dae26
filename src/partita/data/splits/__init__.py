"""How are data divided? One file per split: file name = function name = the name in settings."""
