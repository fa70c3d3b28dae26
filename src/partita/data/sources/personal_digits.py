"""Digits with personal labels: each of thirty people sorts their images into ten drawers, in an order of their own."""

import numpy as np

from ..pool import Pool, pool
from ..source import source
from .digits import read_digits

PEOPLE = 30
DRAWERS = tuple(f"drawer {number}" for number in range(1, 11))


@source
def personal_digits() -> Pool:
    """Digits of 8 x 8 pixels that 30 people label each in their own way: what is a 3 to all is another class to each.

    The images are dealt out at random and the order of each person's labels is drawn, always the same. Images tell
    people nothing about each other's labels, so one model for all cannot be right, while what makes a 3 is common.
    """
    images, values = read_digits()
    draw = np.random.RandomState(0)
    people = draw.permutation(len(values)) % PEOPLE
    orders = np.stack([draw.permutation(10) for _ in range(PEOPLE)])
    names = np.array([f"person {number:02}" for number in range(1, PEOPLE + 1)])
    labels = orders[people, values]
    return pool("personal_digits", images, labels, classes=10, clients=names[people]).named(DRAWERS)
