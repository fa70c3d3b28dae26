"""One file per way to aggregate: file name = function name = CLI name; keyword arguments are the settings."""
