"""Pages of the documentation that are made from the code: methods, commands, settings and Python names."""
