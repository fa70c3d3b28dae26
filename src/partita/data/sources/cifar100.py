"""CIFAR-100. Krizhevsky, 2009, https://www.cs.toronto.edu/~kriz/cifar.html"""

from typing import Literal

from ...errors import PartitaError, unknown
from ..download import Remote
from ..pool import Pool
from ..source import source
from ._cifar import SHAPE, read_cifar
from ._images import Statistics, normalize
from ._named import stored

ARCHIVE = Remote(
    "cifar-100-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    "03b5dce01913d631647c71ecec9e9cb8",
)
CLASSES = {
    "fine": (
        "apple, aquarium fish, baby, bear, beaver, bed, bee, beetle, bicycle, bottle, bowl, boy, bridge, bus, "
        "butterfly, camel, can, castle, caterpillar, cattle, chair, chimpanzee, clock, cloud, cockroach, couch, "
        "crab, crocodile, cup, dinosaur, dolphin, elephant, flatfish, forest, fox, girl, hamster, house, kangaroo, "
        "keyboard, lamp, lawn mower, leopard, lion, lizard, lobster, man, maple tree, motorcycle, mountain, mouse, "
        "mushroom, oak tree, orange, orchid, otter, palm tree, pear, pickup truck, pine tree, plain, plate, poppy, "
        "porcupine, possum, rabbit, raccoon, ray, road, rocket, rose, sea, seal, shark, shrew, skunk, skyscraper, "
        "snail, snake, spider, squirrel, streetcar, sunflower, sweet pepper, table, tank, telephone, television, "
        "tiger, tractor, train, trout, tulip, turtle, wardrobe, whale, willow tree, wolf, woman, worm"
    ),
    "coarse": (
        "aquatic mammals, fish, flowers, food containers, fruit and vegetables, household electrical devices, "
        "household furniture, insects, large carnivores, large man-made outdoor things, large natural outdoor "
        "scenes, large omnivores and herbivores, medium mammals, non-insect invertebrates, people, reptiles, "
        "small mammals, trees, vehicles 1, vehicles 2"
    ),
}
PUBLISHED: Statistics = ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))


@source
def cifar100(
    *,
    labels: Literal["fine", "coarse"] = "fine",
    normalization: Literal["half", "imagenet", "published", "none"] = "half",
) -> Pool:
    """CIFAR-100: 60,000 colour images of 32 x 32 pixels, 100 classes in 20 groups; "published" normalises as FedBABU.

    An .npz file has one kind of labels: cifar100.npz the fine, cifar100_coarse.npz the coarse ones.
    """
    if labels not in CLASSES:
        raise PartitaError(unknown("kind of labels", labels, CLASSES))
    file = "cifar100" if labels == "fine" else "cifar100_coarse"
    names = CLASSES[labels].split(", ")
    pool = stored("cifar100", file=file, classes=len(names), shape=SHAPE) or read_cifar(
        "cifar100",
        ARCHIVE,
        "cifar-100-binary",
        train=["train.bin"],
        test=["test.bin"],
        labels=2,
        label=1 if labels == "fine" else 0,
        classes=len(names),
    )
    return normalize(pool.named(names), normalization, PUBLISHED)
