"""One file per algorithm: file name = function name = CLI name; keyword arguments are the hyperparameters."""
