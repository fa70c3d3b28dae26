"""Sums of masked vectors: exact, also where sites are lost; nothing else can be opened."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from partita.deploy.masks import Member, unmasked
from partita.errors import PartitaError
from partita.tensors import Tensors

pytest.importorskip("flwr", reason="flwr is not installed")
NUMBERS = (0, 2, 3, 7)


def vector(number: int) -> Tensors:
    draw = torch.Generator().manual_seed(number)
    wide = torch.randint(-(2**40), 2**40, (3, 5), generator=draw)
    return {"b": wide, "a": torch.tensor(number - 2), "c": torch.zeros(0, dtype=torch.int64)}


def agreed(threshold: int, numbers: Sequence[int] = NUMBERS) -> tuple[dict[int, Member], dict[int, dict[int, bytes]]]:
    """Members that have sent their envelopes: by receiver, then by sender."""
    members = {number: Member(number) for number in numbers}
    keys = {number: member.keys for number, member in members.items()}
    sent = {number: member.shares(keys, threshold) for number, member in members.items()}
    return members, {to: {who: sent[who][to] for who in numbers if who != to} for to in numbers}


@pytest.mark.parametrize("lost", [(), (2,), (0,), (7,)])
def test_the_sum_of_those_who_are_there_is_exact(lost: tuple[int, ...]) -> None:
    members, envelopes = agreed(3)
    keys = {number: member.keys for number, member in members.items()}
    there = [number for number in NUMBERS if number not in lost]
    vectors = {number: members[number].masked(envelopes[number], vector(number)) for number in there}
    # One does not answer any more; three are enough.
    shares = {number: members[number].revealed(there, lost) for number in there[:3]}
    found = unmasked(vectors, keys, shares, lost)
    expected = {name: sum(vector(number)[name] for number in there) for name in "abc"}
    assert all(torch.equal(found[name], torch.as_tensor(expected[name])) for name in "abc")


def test_a_vector_looks_random_and_does_not_repeat() -> None:
    """Zeros with masks: bytes are spread evenly, and two rounds have nothing in common."""
    found = []
    for _ in range(2):
        members, envelopes = agreed(3)
        found.append(members[2].masked(envelopes[2], {"a": torch.zeros(20_000, dtype=torch.int64)})["a"].numpy())
    counts = np.bincount(found[0].view(np.uint8), minlength=256)
    assert 400 < counts.min() <= counts.max() < 870, "625 each on average, with a standard deviation of 25"
    assert not (found[0] == found[1]).any()


def test_both_secrets_of_a_site_are_never_opened() -> None:
    members, envelopes = agreed(3)
    member = members[0]
    member.masked(envelopes[0], vector(0))
    for there, lost in (
        ([0, 2, 3, 7], [7]),
        ([0, 2, 3], []),
        ([2, 3, 7], [0]),
        ([0, 2], [3, 7]),
        ([0, 2, 3, 9], [7]),
    ):
        with pytest.raises(PartitaError, match=r"opens one secret of each site|at least 3 must be in it"):
            member.revealed(there, lost)
    member.revealed([0, 2, 3], [7])
    with pytest.raises(PartitaError, match="once"):
        member.revealed([0, 2, 3, 7], [])


def test_a_server_cannot_make_the_circle_small_or_change_it() -> None:
    members = {number: Member(number) for number in NUMBERS}
    keys = {number: member.keys for number, member in members.items()}
    for given, threshold in ((keys, 2), (keys, 5), ({0: keys[0], 2: keys[2]}, 2)):
        with pytest.raises(PartitaError, match="is refused"):
            members[0].shares(given, threshold)
    for wrong in ({**keys, 0: keys[2]}, {**keys, 2: keys[3]}, {2: keys[2], 3: keys[3], 7: keys[7]}):
        with pytest.raises(PartitaError, match="not those of this site, or one comes twice"):
            members[0].shares(wrong, 3)
    members[0].shares(keys, 3)
    with pytest.raises(PartitaError, match="a second sum in a round, is refused"):
        members[0].shares(keys, 3)


def test_envelopes_are_opened_by_those_they_are_for() -> None:
    members, envelopes = agreed(3)
    for wrong in (
        {**envelopes[0], 2: envelopes[0][3]},
        {**envelopes[0], 2: envelopes[3][2]},
        {**envelopes[0], 2: b"nonsense"},
        {2: envelopes[0][2]},
    ):
        with pytest.raises(PartitaError, match=r"cannot be opened|masks once, after the envelopes of enough"):
            members[0].masked(wrong, vector(0))
    members[0].masked(envelopes[0], vector(0))
    with pytest.raises(PartitaError, match="masks once"):
        members[0].masked(envelopes[0], vector(0))


def test_masks_of_flower_can_be_tried_out() -> None:
    """Why they are not used: the seed of a pair is folded into 28 bits. If this changes, Flower's can be used."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    one, other = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    seed = generate_shared_key(one, other.public_key())
    folded = np.bitwise_xor.reduce(np.frombuffer(seed, dtype="<u4"))
    assert not folded & 0x80808080
    whole, tried = (pseudo_rand_gen(each, 1 << 24, [(100,)])[0] for each in (seed, folded.tobytes()))
    assert (whole == tried).all()
