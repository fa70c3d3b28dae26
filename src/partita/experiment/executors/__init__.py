"""Who carries out jobs? One file for each executor: file name = function name = its name after `--on`."""
