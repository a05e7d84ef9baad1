"""Language modelling from both sides: what is asked, and what it costs, against the definition."""

import pytest
import torch

from kit import batch
from qkv.data import Place, generator
from qkv.models import Elmo, ElmoConfig
from qkv.objectives import BidirectionalLM
from qkv.text.tokenizer import EOS, PAD, UNK, Tokenizer

TOKENIZER = Tokenizer.train(["a dog sees a cat"] * 3, kind="words", vocab_size=270)
ROWS = [[EOS, *TOKENIZER.encode("a zoo sees")], [EOS, *TOKENIZER.encode("dog")], [EOS]]


def test_each_word_is_asked_for_from_both_sides() -> None:
    """But at the ends of a row, where one side has nothing; a strange word is <unk>, and asked for once."""
    asked = BidirectionalLM().knowing(TOKENIZER).prepare(batch(*([row] for row in ROWS)), generator(0, Place()))
    a, dog, sees = (TOKENIZER.encode(word)[0] for word in ("a", "dog", "sees"))
    zoo = [PAD] * 3  # the letters of the word behind its beginning
    assert asked.labels[0].tolist() == [[PAD, a, UNK, *zoo, sees], [EOS, a, UNK, *zoo, PAD]]
    assert asked.labels[1, :, :3].tolist() == [[PAD, dog, PAD], [EOS, PAD, PAD]]
    assert not asked.labels[2].any()
    assert asked.count == 3 + 1


def test_the_loss_is_half_of_both_likelihoods() -> None:
    torch.manual_seed(0)
    model = Elmo(ElmoConfig(vocab_size=len(TOKENIZER), d_model=8, d_cell=6, highways=1)).eval()
    model.know(TOKENIZER)
    objective = BidirectionalLM().knowing(TOKENIZER)
    asked = objective.prepare(batch(*([row] for row in ROWS)), generator(0, Place()))
    loss = objective.loss(model(**asked.inputs), asked)
    expected = {"ahead": 0.0, "back": 0.0}
    for row in ROWS:
        spelled = model.spelling(torch.tensor([row]))
        states, words = model.states(spelled)[-1][0], spelled.words[0].tolist()
        for place, word in enumerate(words):
            for name, half, there in (("ahead", slice(0, 4), place - 1), ("back", slice(4, 8), place + 1)):
                if 0 <= there < len(words):
                    log_p = (model.projection.weight @ states[there, half] + model.projection.bias).log_softmax(dim=0)
                    expected[name] -= log_p[word].item()
    assert {name: loss.parts[name].item() for name in expected} == pytest.approx(expected, rel=1e-5)
    assert loss.total.item() == pytest.approx((expected["ahead"] + expected["back"]) / 2, rel=1e-5)
    assert loss.parts["likelihood"].item() == loss.total.item()
