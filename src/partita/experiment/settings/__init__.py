"""How do settings from a file or a command line become an experiment?"""
