"""ELMo against loops, and by the properties that its paper names; from running text to tags."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import qkv
from corpora import CORPORA
from kit import along, close, draw, refused, same, stirred, weights
from qkv import folder
from qkv.errors import InputError
from qkv.look import look_at
from qkv.models import Elmo, ElmoConfig, Headed, count_parameters
from qkv.models.elmo import ScalarMix
from qkv.text.tokenizer import EOS, PAD, UNK, Tokenizer

TOKENIZER = Tokenizer.train(["the dog sees the cat and a bank ."] * 3, kind="words", vocab_size=275)
SMALL = {"vocab_size": len(TOKENIZER), "d_model": 8, "d_cell": 6, "letters": 12, "highways": 1, "feature_dropout": 0.0}


def build(**settings: Any) -> Elmo:
    torch.manual_seed(0)
    model = stirred(Elmo(ElmoConfig(**{**SMALL, **settings})), 0.3).eval()
    model.know(TOKENIZER)
    return model


def ids(*texts: str) -> Tensor:
    """Each between two </s>, padded on the right."""
    rows = [torch.tensor([EOS, *TOKENIZER.encode(text), EOS]) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


# -- words by their letters ------------------------------------------------------------------------------------------


def test_symbols_are_those_of_the_released_model() -> None:
    """Bytes of UTF-8, then 256 to 260 for the ends of sentences and words and for nothing; each plus one."""
    spelled = build().spelling(ids("a zoë", "strawberries", "dog"))
    begin, end, none = 259, 260, 261
    a, z, o = (ord(letter) + 1 for letter in "azo")
    assert spelled.letters[0].tolist() == [
        [begin, 258, end, *[none] * 9],  # </s>
        [begin, a, end, *[none] * 9],
        [begin, z, o, 0xC3 + 1, 0xAB + 1, end, *[none] * 6],
        [begin, 258, end, *[none] * 9],
    ]
    assert spelled.letters[1, 1].tolist() == [begin, *(ord(letter) + 1 for letter in "strawberri"), end]
    assert not spelled.letters[1, 3].any()
    assert spelled.words[0].tolist() == [EOS, *TOKENIZER.encode("a"), UNK, EOS]
    assert spelled.number[0, :8].tolist() == [0, 1, *[2] * 5, 3]


def test_a_word_that_was_never_seen_has_a_vector_of_its_letters() -> None:
    model = build()

    def vector(word: str) -> Tensor:
        return model.states(model.spelling(ids(word)))[0][0, 1]

    assert vector("zoo").any()
    assert not torch.allclose(vector("zoo"), vector("zoa"))
    assert not torch.allclose(vector("犬"), vector("猫"))
    by_letters = torch.tensor([[TOKENIZER.encode("zzz")[0], *(4 + byte for byte in b"dog")]])
    close(model.states(model.spelling(by_letters))[0][0, 0], vector("dog"))  # a token and its letters are one word


def test_sub_words_of_any_tokenizer_are_read_as_the_words_that_they_spell() -> None:
    pieces = Tokenizer.train(["the dog the dogs"] * 3, kind="byte_bpe", vocab_size=264)
    model = build(vocab_size=len(pieces))
    model.know(pieces)
    found = model.spelling(torch.tensor([[EOS, *pieces.encode("catdogs the"), EOS]]))
    read = [bytes(n - 1 for n in word if n <= 256).decode() for word in found.letters[0].tolist()]
    assert read == ["", "catdogs", "the", ""]  # though nothing in "catdogs" says that a word begins with it


# -- two directions --------------------------------------------------------------------------------------------------


def test_layers_are_what_loops_say() -> None:
    """Each row alone, each direction in its order, each step by the equations; from the second layer on what goes in is
    added to what comes out."""
    model, rows = build(layers=3, cell_clip=0.2, projection_clip=0.05), ids("the zoo sees a dog", "cat", "the bank .")
    together = model.double().states(model.spelling(rows))
    assert (together[1].abs() == 0.05).any(), "some are clipped"
    for number, row in enumerate(rows):
        spelled = model.spelling(row[None])
        n = int((spelled.words != PAD).sum())
        x = [model.bilm.characters.plain(one[None])[0] for one in spelled.letters[0, :n]]
        expected = [torch.stack([torch.cat((one, one)) for one in x])]
        ahead, back = x, x[::-1]
        for i, (right, left) in enumerate(zip(model.bilm.ahead, model.bilm.back, strict=True)):
            ahead, back = steps(right, ahead, bool(i)), steps(left, back, bool(i))
            expected.append(torch.cat((torch.stack(ahead), torch.stack(back[::-1])), dim=1))
        for found, right_one in zip(together, expected, strict=True):
            close(found[number, :n], right_one)
            assert not found[number, n:].any()


def steps(lstm: Any, given: list[Tensor], adds: bool) -> list[Tensor]:
    h, c, found = torch.zeros(4).double(), torch.zeros(6).double(), []
    for x in given:
        a = lstm.input.weight @ x + lstm.input.bias + lstm.state.weight @ h
        i, f, g, o = a[:6].sigmoid(), a[6:12].sigmoid(), a[12:18].tanh(), a[18:].sigmoid()
        c = (f * c + i * g).clip(-0.2, 0.2)
        h = (lstm.projection.weight @ (o * c.tanh())).clip(-0.05, 0.05)
        found.append(h + x if adds else h)
    return found


@pytest.mark.parametrize("layer", [1, 2])
def test_neither_direction_sees_what_the_other_reads(layer: int) -> None:
    """By the Jacobian: a state depends on its own word and on all before it, or on all after it, and on no others."""
    model, kept = build(cell_clip=0.0, projection_clip=0.0), list[Tensor]()
    handle = model.bilm.characters.register_forward_hook(lambda *said: kept.append(said[2]))
    spelled = model.spelling(ids("the dog sees a cat"))
    states = model.states(spelled)[layer][0]  # (W, D)
    handle.remove()
    for place in range(len(states)):
        for half, seen in ((slice(0, 4), range(place + 1)), (slice(4, 8), range(place, len(states)))):
            said = (states[place, half] * along(states[place, half])).sum()
            (slope,) = torch.autograd.grad(said, kept[0], retain_graph=True)  # (W, D): of each word's vector
            assert slope.any(dim=1).nonzero()[:, 0].tolist() == list(seen)


def test_what_should_stand_somewhere_is_said_without_a_look_at_it() -> None:
    model = build()
    clean, other = (model(ids(text)).hidden for text in ("the dog sees a cat", "the dog and a cat"))
    differs = (clean[0] - other[0]).abs().amax(dim=1)
    assert (differs > 1e-4).tolist() == [True, True, True, False, True, True, True]
    assert differs[3] < 1e-6
    outputs = model(ids("the dog"))
    halves = outputs.hidden.chunk(2, dim=2)
    logits = sum(half @ model.projection.weight.T for half in halves) + model.projection.bias
    close(outputs.logits, logits)


def test_the_paper_has_93_6_million_parameters() -> None:
    """18.0 for characters and 75.6 for LSTMs, which is 4 (C (D + P) 4 + 4 C + C P) with C = 4096 and D = P = 512."""
    with torch.device("meta"):
        model = Elmo(ElmoConfig(**Elmo.presets["base"], predicts=False))
    assert round(count_parameters(model.bilm.characters) / 1e6, 1) == 18.0
    lstms = count_parameters(model) - count_parameters(model.bilm.characters)
    assert lstms == 4 * (4 * 4096 * (512 + 512) + 4 * 4096 + 4096 * 512)


# -- features --------------------------------------------------------------------------------------------------------


def test_the_mix_of_layers() -> None:
    mix, layers = ScalarMix(3), [draw(2, 5, 4, seed=seed) for seed in range(3)]
    with torch.no_grad():
        mix.gamma.fill_(1.7)
        close(mix(layers), 1.7 * (layers[0] + layers[1] + layers[2]) / 3)
        mix.weights.copy_(torch.tensor([0.0, 2.0, 1.0]).log())
        close(mix(layers), 1.7 * (2 * layers[1] + layers[2]) / 3)


def test_features_are_the_mix_with_word_vectors_beside_it() -> None:
    given = ids("the zoo sees", "dog")
    mixed = build(features="mix", d_words=5)
    spelled = mixed.spelling(given)
    found = mixed.encode(given)
    assert found.shape == (*given.shape, mixed.width) == (*given.shape, 13)
    close(found[:, 1, 5:], mixed.mix(mixed.states(spelled))[:, 1])
    close(found[0, 2, :5], mixed.words.weight[UNK])  # zoo
    close(found[0, 2], found[0, 5])  # and all its tokens
    close(build(features="top").encode(given)[:, 0], build().states(spelled)[-1][:, 0])


@pytest.mark.parametrize("features", ["top", "mix", "none"])
def test_a_bilstm_stands_on_words(features: str) -> None:
    """Not on their letters: a strange word is one step, and padding none."""
    model, given = build(features=features, d_words=5, d_tagger=3), ids("the zoo sees", "dog")
    found = model.encode(given)
    assert found.shape == (*given.shape, 6)
    close(model.encode(given[1:, :3]), found[1:, :3])
    states, _ = model.tagger(kept_inputs(model, given[:1]))
    close(found[0, [0, 1, 2, 6, 7]], states[0])


def kept_inputs(model: Elmo, given: Tensor) -> Tensor:
    """What the BiLSTM reads of one text."""
    kept = list[Tensor]()
    handle = model.tagger.register_forward_hook(lambda _, inputs, __: kept.append(inputs[0]))
    model.encode(given)
    handle.remove()
    return kept[0]


def test_the_same_spelling_has_another_sense_elsewhere() -> None:
    """Of one word in two sentences: the first layer is the same, the others are not."""
    model = build()
    texts = ("the bank sees a cat", "the bank and the dog .")
    layers = model.states(model.spelling(ids(*texts)))
    cosines = [torch.cosine_similarity(*layer[:, 2], dim=0).item() for layer in layers]
    assert cosines[0] == pytest.approx(1, abs=1e-6)
    assert max(cosines[1:]) < 0.9999


@refused([
    ({"d_model": 7}, "even, not 7"),
    ({"filters": [2, 0]}, r"filters=\[2, 0\] over words of letters=12 symbols cannot be"),
    ({"letters": 2}, "letters of 3 or more"),
    ({"d_tagger": -1}, "d_tagger must be at least 0, not -1"),
    ({"features": "none"}, "nothing stands for a word; give d_words"),
])  # fmt: skip
def test_sizes_that_cannot_be(wrong: dict[str, Any]) -> None:
    ElmoConfig(**{**SMALL, **wrong})


def test_a_mask_of_who_sees_whom_is_refused() -> None:
    with pytest.raises(InputError, match="an LSTM reads one word after another"):
        build().encode(ids("dog"), mask=torch.ones(1, 3, 3, dtype=torch.bool))


# -- from text to tags -----------------------------------------------------------------------------------------------


def test_from_running_text_to_tags(tmp_path: Path) -> None:
    """A biLM is learned, fills in and stays as it is below a tagger, which reads strange words in use too."""
    text, names = CORPORA["fill"], CORPORA["tag"]
    sizes = {"d_model": 16, "d_cell": 8, "highways": 1, "max_length": 64}
    how = {"quiet": True, "training": {**text.settings()["training"], "steps": 2, "learning_rate": 0.02}}
    data = {"tokenizer": "words", "vocab_size": 300, "window": 12, "batch_tokens": 100}
    qkv.train(text.write(tmp_path), task="fill", architecture="elmo", objective="bidirectional_lm", data=data,
              model=sizes, out=tmp_path / "lm", **how)  # fmt: skip
    assert len(qkv.load(tmp_path / "lm").fill("A dog <mask> zyx.", 3)) == 3
    more = {"features": "mix", "d_words": 4, "d_tagger": 4, "predicts": False}
    training = {**how["training"], "freeze": "backbone.bilm", "average": "running(decay=0.9)"}
    qkv.train(names.write(tmp_path), task="tag", start=tmp_path / "lm", model=more, out=tmp_path / "tagger", quiet=True,
              training=training)  # fmt: skip
    before, after = (folder.load(tmp_path / name).model for name in ("lm", "tagger"))
    assert isinstance(after, Headed)
    assert same(weights(before.bilm), weights(after.backbone.bilm))
    assert after.backbone.mix.weights.any()
    tagger = qkv.load(tmp_path / "tagger")
    one, other = (tagger.predict(f"Ann saw {name}") for name in ("Zyxtown", "Zyxtowm"))
    assert one["probabilities"][2] != other["probabilities"][2]
    with pytest.raises(InputError, match="elmo models neither translate nor read"):
        look_at(tagger, "Ann saw Rome")
