"""Where do clients' data come from? One file per source: file name = function name = CLI name."""
