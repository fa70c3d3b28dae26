"""Reference networks. One file each: file name = function name = CLI name; each names its groups and blocks."""
