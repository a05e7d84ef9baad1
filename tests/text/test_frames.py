"""Frames: what the papers write around texts; and cutting, beside BERT's own loop, which drops one token at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import tokenizer
from qkv.errors import InputError
from qkv.models import MODELS, Backbone
from qkv.text.frames import ENDS, Frame
from qkv.text.tokenizer import BOS, EOS, Tokenizer

WORDS = tokenizer()
FRAMES = {kind.frame for kind in MODELS.values() if issubclass(kind, Backbone)}
TEXT = st.lists(st.integers(300, 400), max_size=12)


@pytest.mark.parametrize(
    ("model", "one", "two"),
    [
        ("gpt2", [EOS, 7, 8, EOS], [EOS, 7, 8, EOS, 9, EOS]),
        ("bert", [BOS, 7, 8, EOS], [BOS, 7, 8, EOS, 9, EOS]),  # Devlin et al. 2019, Figure 2: [CLS] A [SEP] B [SEP]
        ("roberta", [BOS, 7, 8, EOS], [BOS, 7, 8, EOS, EOS, 9, EOS]),  # fairseq: <s> A </s></s> B </s>
    ],
)
def test_a_model_frames_texts_as_its_paper_does(model: str, one: list[int], two: list[int]) -> None:
    kind = MODELS[model]
    assert issubclass(kind, Backbone)
    assert kind.frame.join(WORDS, [[7, 8]], 20) == (one, False)
    assert kind.frame.join(WORDS, [[7, 8], [9]], 20) == (two, False)


def test_names_of_its_own_are_asked_of_the_vocabulary() -> None:
    frame = Frame(("<s>",), ("<sep>",), ("<cls>",))
    assert frame.specials == ("<sep>", "<cls>")
    assert ENDS.specials == ()
    words = Tokenizer.train(["the cat sat"] * 3, vocab_size=300, specials=frame.specials)
    ids, _ = frame.join(words, [[7], [8]], 9)
    assert ids == [BOS, 7, words.special("<sep>"), 8, words.special("<cls>")]
    with pytest.raises(InputError, match="this vocabulary has no <sep>"):
        frame.join(WORDS, [[7], [8]], 9)


@given(st.lists(TEXT, min_size=1, max_size=2), st.integers(4, 30))
def test_the_longer_text_is_cut_first(texts: list[list[int]], most: int) -> None:
    """The authors' loop: while there are too many, drop the last token of the longer; of equal ones, of the first."""
    for frame in FRAMES:
        if frame.specials:
            continue
        around = [WORDS.special(name) for name in (*frame.before, *frame.after, *frame.between * (len(texts) - 1))]
        parts = [list(text) for text in texts]
        while sum(map(len, parts)) > max(0, most - len(around)):
            max(parts, key=len).pop()
        expected = [*map(WORDS.special, frame.before), *parts[0]]
        for part in parts[1:]:
            expected += [*map(WORDS.special, frame.between), *part]
        ids, is_cut = frame.join(WORDS, texts, most)
        assert ids == [*expected, *map(WORDS.special, frame.after)]
        assert is_cut == (parts != texts)
