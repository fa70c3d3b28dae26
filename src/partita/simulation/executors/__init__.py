"""Who carries out jobs? One file for each executor."""
