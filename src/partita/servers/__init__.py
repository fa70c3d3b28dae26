"""How does a server aggregate? One file for each rule: file name = function name = its name in settings."""
