"""What the command line can do: one file for each group of commands."""
