"""The characters that NIST's forms ask for, in the order in which data sets of them number their classes."""

from string import ascii_lowercase, ascii_uppercase, digits

DIGITS = tuple(digits)
CAPITALS = tuple(ascii_uppercase)
CHARACTERS = (*DIGITS, *CAPITALS, *ascii_lowercase)
MERGED = (*DIGITS, *CAPITALS, *"abdefghnqrt")
"""Small letters that look like their capitals count as these."""
