"""What heads are for: one head mixes the two tokens that it is asked for, several keep them apart."""

from qkv.why.kinds import two_targets


def test_one_head_cannot_hold_two_answers_and_four_can() -> None:
    right = {heads: share for heads, _, share in two_targets().rows}
    assert right[1] < 0.6
    assert right[4] > 0.99
