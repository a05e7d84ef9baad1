"""The convolutional model beside a transcription of its paper; what it sees; padding, steps, commands, learning."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import properties
from kit import (
    DIGITS,
    Result,
    along,
    asked,
    close,
    padded,
    refused,
    same_weights,
    teach,
    tokenizer,
    write_sides,
    write_tsv,
)
from qkv import folder
from qkv.attention import ATTENTIONS, SCORES
from qkv.config import from_tree
from qkv.decoding import beam_search
from qkv.errors import InputError
from qkv.look import look_at, record_attention
from qkv.models import Convolutional, ConvolutionalConfig, count_parameters
from qkv.objectives import Translation
from qkv.opening import load_translator
from qkv.positions import POSITIONS

V, B, S, T = 23, 4, 9, 7
IN_MEMORY = [name for name, part in ATTENTIONS.items() if "memory" in part.uses]
PARTS = [
    *(("learned", name, "all") for name in ["none", *SCORES, *IN_MEMORY]),
    *(("sinusoidal", "dot", "decoder"), ("none", "dot", "none"), ("sinusoidal", "none", "none")),
]


def config(**others: object) -> ConvolutionalConfig:
    sizes = {"vocab_size": V, "d_model": 8, "encoder_layers": 2, "decoder_layers": 3, "max_length": 20, "dropout": 0.0}
    return ConvolutionalConfig(**(sizes | others))


def make(**others: object) -> Convolutional:
    """With biases, and with tables so large that attention chooses."""
    torch.manual_seed(0)
    model = Convolutional(config(**others)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
            elif name in ("source.weight", "target.weight"):
                parameter.mul_(8)
    return model


@pytest.fixture(params=PARTS, ids="-".join)
def model(request: pytest.FixtureRequest) -> Convolutional:
    position, attention, tied = request.param
    return make(position=position, attention=attention, tied=tied, dilation="bytenet")


# -- the paper -------------------------------------------------------------------------------------------------------


def by_hand(model: Convolutional, src: Tensor, tgt: Tensor) -> Tensor:
    """Gehring et al. 2017, section 3, for one sentence without padding, token by token; gradients are the true ones."""
    w, half = dict(model.named_parameters()), math.sqrt(0.5)
    kernel = model.config.kernel

    def linear(name: str, x: Tensor) -> Tensor:
        direction = w[f"{name}.direction"]
        rows = [w[f"{name}.length"][i] * row / row.square().sum().sqrt() for i, row in enumerate(direction)]
        return torch.stack(rows) @ x + w[f"{name}.bias"]

    def gated(name: str, states: list[Tensor], first: int) -> Tensor:
        """The window of `kernel` states that begins at a place, which may lie outside."""
        window = [
            states[t] if 0 <= t < len(states) else torch.zeros_like(states[0]) for t in range(first, first + kernel)
        ]
        a, b = linear(name, torch.cat(window)).chunk(2)
        return a * torch.sigmoid(b)

    e = [w["source.weight"][token] + w["encoder.position.weight"][t] for t, token in enumerate(src.tolist())]
    z = [linear("encoder.enter", x) for x in e]
    for layer in range(model.config.encoder_layers):
        name = f"encoder.blocks.{layer}.gated.convolution"
        z = [(gated(name, z, t - kernel // 2) + z[t]) * half for t in range(len(z))]
    z = [linear("encoder.leave", x) for x in z]

    g = [w["target.weight"][token] + w["decoder.position.weight"][t] for t, token in enumerate(tgt.tolist())]
    h = [linear("decoder.enter", x) for x in g]
    for layer in range(model.config.decoder_layers):
        name, new = f"decoder.blocks.{layer}", []
        for t in range(len(h)):
            y = gated(f"{name}.gated.convolution", h, t - kernel + 1)
            d = (linear(f"{name}.memory_attention.query", y) + g[t]) * half
            weights = torch.softmax(torch.stack([d @ key for key in z]), dim=0)
            context = sum(a * (key + word) * half for a, key, word in zip(weights, z, e, strict=True))
            context = context * len(z) * math.sqrt(1 / len(z))
            y = (linear(f"{name}.memory_attention.output", context) + y) * half
            new.append((y + h[t]) * half)
        h = new
    table = w.get("vocabulary.weight", w["source.weight"])
    return torch.stack([table @ linear("decoder.leave", x) + w["vocabulary.bias"] for x in h])


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_it_computes_what_the_paper_says(kernel: int, src: Tensor, tgt: Tensor) -> None:
    model = make(kernel=kernel, tied="none").double()
    model.target.weight.data.copy_(model.source.weight)
    logits = model(src, tgt).logits
    for row in range(B):
        words, read = src[row][src[row] != 0], tgt[row][tgt[row] != 0]
        close(logits[row, : len(read)], by_hand(model, words, read), atol=1e-10)


def test_only_the_encoders_gradient_is_scaled(src: Tensor, tgt: Tensor) -> None:
    """Section 3.5: by the number of attentions, here 1 / (2 * 3) as in fairseq; not for the source's embeddings."""
    model = make(tied="none").double()
    names, parameters = zip(*model.named_parameters(), strict=True)
    ours = model(src[:1], tgt[1:2]).logits[0]
    true = by_hand(model, src[0], tgt[1])
    found, expected = (
        dict(zip(names, torch.autograd.grad((y * along(y)).sum(), parameters), strict=True)) for y in (ours, true)
    )
    for name in names:
        if name.startswith(("encoder.enter", "encoder.blocks", "encoder.leave")):
            assert expected[name].any(), name
            close(found[name] * 6, expected[name], atol=1e-10)
        elif name in ("source.weight", "encoder.position.weight"):  # whole by way of the values, scaled by the encoder
            assert not torch.allclose(found[name], expected[name])
            assert not torch.allclose(found[name] * 6, expected[name])
        else:
            close(found[name], expected[name], atol=1e-10)


def test_tables_start_as_the_paper_draws_them() -> None:
    """Section 3.5: embeddings from N(0, 0.1), and what is read is what is drawn."""
    torch.manual_seed(0)
    model = Convolutional(config(vocab_size=500, d_model=64, max_length=200))
    for table in (model.source.weight, model.encoder.position.weight, model.decoder.position.weight):
        assert table.std().item() == pytest.approx(0.1, rel=0.02)
    assert torch.equal(model.source(torch.tensor([[7]]))[0, 0], model.source.weight[7])


def test_the_first_loss_is_that_of_a_guess() -> None:
    """States are as small as the embeddings, so all words begin about equally probable: ln V."""
    torch.manual_seed(0)
    model = Convolutional(config(vocab_size=500, d_model=64, encoder_layers=6, decoder_layers=6)).eval()
    src, tgt = torch.randint(4, 500, (24, 10)), torch.randint(4, 500, (24, 13))
    question = asked(tgt[:, 1:])
    loss = Translation().loss(model(src, tgt[:, :-1]), question)
    assert loss.total.item() / question.count == pytest.approx(math.log(500), abs=0.15)


def test_it_has_as_many_parameters_as_it_should() -> None:
    """Tiny: 6 layers a side, 128 wide. A map has a matrix, a length and a bias for each row."""
    d, layers, vocabulary, length = 128, 6, 6000, 256
    linear, window = d * d + 2 * d, 2 * d * 3 * d + 2 * 2 * d
    stacks = 2 * (length * d + 2 * linear + layers * window) + layers * 2 * linear
    model = Convolutional(
        ConvolutionalConfig(**Convolutional.presets["tiny"], vocab_size=vocabulary, max_length=length)
    )
    assert count_parameters(model) == stacks + vocabulary * d + vocabulary
    assert 2e6 < count_parameters(model) < 3e6


@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_every_preset_names_only_sizes_that_exist(preset: str) -> None:
    from_tree(ConvolutionalConfig, Convolutional.presets[preset])


# -- what it sees ----------------------------------------------------------------------------------------------------


def gradient_of(table: nn.Module, model: Convolutional, src: Tensor, tgt: Tensor, which: Tensor) -> Tensor:
    """Which embedded tokens the logits at `which` (B, T) depend on, by gradient: (B, S) or (B, T)."""
    kept: list[Tensor] = []
    handle = table.register_forward_hook(lambda module, args, out: kept.append(out))
    logits = model(src, tgt).logits
    handle.remove()
    own = kept[0] if table is model.source else kept[-1]  # one table may serve both
    (gradient,) = torch.autograd.grad((logits * along(logits) * which[:, :, None]).sum(), own)
    return gradient.any(dim=-1)


@pytest.mark.parametrize(
    ("sizes", "field"),
    [
        ({"kernel": 3, "decoder_layers": 2}, 5),
        ({"kernel": 2, "decoder_layers": 3}, 4),
        ({"kernel": 3, "decoder_layers": 3, "dilation": "bytenet"}, 15),
        ({"kernel": 3, "decoder_layers": 16, "dilation": "bytenet"}, 121),
        ({"kernel": 1, "decoder_layers": 4}, 1),
    ],
)
@pytest.mark.parametrize("attention", ["dot", "none"])
def test_a_place_sees_itself_and_its_field_before_it(sizes: dict[str, object], field: int, attention: str) -> None:
    """Four times 1, 2, 4, 8 with windows of 3 is ByteNet's stack: 1 + 4 * 2 * 15 = 121 tokens."""
    model = make(**sizes, attention=attention, tied="decoder", d_model=4, max_length=140).double()
    length = field + 6
    src, tgt = padded([5], V), padded([length], V, seed=2)
    for t in {0, field // 2, length - 4}:
        which = torch.arange(length)[None] == t
        seen = gradient_of(model.target, model, src, tgt, which)[0]
        places = torch.arange(length)
        assert torch.equal(seen, (places <= t) & (places > t - field))


@pytest.mark.parametrize(("sizes", "reach"), [({"kernel": 3}, 2), ({"kernel": 5}, 4), ({"dilation": "bytenet"}, 3)])
def test_the_encoder_sees_as_far_to_either_side(sizes: dict[str, object], reach: int) -> None:
    model, kept = make(**sizes).double(), []
    model.source.register_forward_hook(lambda module, args, out: kept.append(out))
    keys = model.encode(torch.full((1, 15), 5))[0][0, 7]
    (gradient,) = torch.autograd.grad((keys * along(keys)).sum(), kept)
    assert torch.equal(gradient[0].any(dim=-1), (torch.arange(15) - 7).abs() <= reach)


def test_the_future_never_leaks(model: Convolutional, src: Tensor, tgt: Tensor) -> None:
    properties.the_future_never_leaks(lambda read: model(src, read).logits, tgt, V)


def test_source_padding_never_leaks(model: Convolutional, src: Tensor, tgt: Tensor) -> None:
    """More of it changes nothing, nor does what the table says of it, and no gradient goes there."""
    real, is_hard = tgt != 0, model.config.attention in ("hard", "top_k")
    clean = model(src, tgt).logits[real][:, 1:]
    close(model(nn.functional.pad(src, (0, 5)), tgt).logits[real][:, 1:], clean)
    seen = gradient_of(model.source, model, src, tgt, real)
    assert not seen[src == 0].any()
    assert is_hard or seen[src != 0].all()
    with torch.no_grad():
        model.source.weight[0] += 100 * along(model.source.weight[0])
    close(model(src, tgt).logits[real][:, 1:], clean)


def test_a_source_of_nothing_but_padding_harms_nobody(model: Convolutional, src: Tensor, tgt: Tensor) -> None:
    properties.a_source_of_nothing_but_padding_harms_nobody(model, src, tgt)


def test_a_row_alone_equals_the_row_in_a_batch(model: Convolutional, src: Tensor, tgt: Tensor) -> None:
    properties.a_row_alone_is_the_row_in_a_batch(model, src, tgt)


# -- one token after another -----------------------------------------------------------------------------------------


def test_one_token_at_a_time_equals_all_at_once(model: Convolutional, src: Tensor, tgt: Tensor) -> None:
    state = properties.steps_equal_the_whole(model, src, tgt)
    assert [tail.x.shape for tail in state.tails] == [(B, 2, 8), (B, 4, 8), (B, 8, 8)]


def test_a_reordered_state_goes_on_with_other_rows(model: Convolutional, src: Tensor, tgt: Tensor) -> None:
    properties.a_reordered_state_goes_on_with_other_rows(model, src, tgt)


def test_a_beam_wide_enough_finds_all_sentences() -> None:
    """All that have up to 2 of 2 words, each scored by one forward pass; <pad>, <s> and <unk> are never written."""
    model, src, scores = make(vocab_size=6, kernel=2), torch.tensor([[4, 5, 5]]), {}
    for words in [(), (4,), (5,), (4, 4), (4, 5), (5, 4), (5, 5)]:
        logits = model(src, torch.tensor([[1, *words]])).logits[0]
        log_p = logits.index_fill(1, torch.tensor([0, 1, 3]), -torch.inf).log_softmax(-1)
        scores[words] = sum(log_p[t, token].item() for t, token in enumerate([*words, 2]))
    found = beam_search(model, src, [4], beam=15, alpha=0.0)[0]
    assert {tuple(h.tokens): h.score for h in found if len(h.tokens) < 3} == pytest.approx(scores, abs=1e-4)


# -- the rest of qkv -------------------------------------------------------------------------------------------------


def test_every_parameter_gets_a_gradient(model: Convolutional, src: Tensor, tgt: Tensor) -> None:
    Translation().loss(model(src, tgt), asked(tgt.roll(-1, 1))).total.backward()
    is_hard = model.config.attention in ("hard", "top_k")  # the best key has weight 1 whatever the scores
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and not (is_hard and ".query." in name):
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.any(), name


def test_what_hard_attention_draws_reaches_the_objective(src: Tensor, tgt: Tensor) -> None:
    drawn = make(attention="hard(sampling=1.0)").train()(src, tgt).choices
    assert len(drawn) == 3
    assert all(choice.log_p.shape == (B,) for choice in drawn)


@pytest.mark.parametrize("attention", ["dot", "scaled_dot", "additive", "local_p", "none"])
@pytest.mark.parametrize("length", [9, 70])  # a fused kernel begins at 65 keys
def test_half_the_bits_will_do(attention: str, length: int, tgt: Tensor) -> None:
    model, src = make(attention=attention, max_length=80), padded([length, 5, 1, 0], V)
    exact = model(src, tgt).logits
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(src, tgt)
        loss = Translation().loss(outputs, asked(tgt.roll(-1, 1))).total
        _, state = model.start(src)
        steps = torch.stack([model.step(tgt[:, t], state) for t in range(T)], dim=1)
        logits = outputs.logits
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    for found in (logits, steps):
        assert found.dtype == torch.bfloat16
        assert (found - exact).norm() < 0.05 * exact.norm()


def test_attention_is_recorded_under_the_names_of_the_transformer(src: Tensor, tgt: Tensor) -> None:
    names = [f"decoder.blocks.{i}.memory_attention" for i in range(3)]
    for attention in ("dot", "none"):
        model = make(attention=attention)
        with record_attention(model) as maps:
            model(src, tgt)
        assert list(maps) == names
        for weights in maps.values():
            assert weights.shape == (B, 1, T, S)
            close(weights.sum(dim=-1), torch.ones(B, 1, T))
            assert not weights.masked_select((src == 0)[:, None, None]).any()
            mean = (src != 0) / (src != 0).sum(dim=1, keepdim=True)
            assert torch.allclose(weights[:, 0], mean[:, None].expand(B, T, S)) == (attention == "none")


def test_what_is_saved_is_what_is_loaded(tmp_path: Path, src: Tensor, tgt: Tensor) -> None:
    words = tokenizer("a b c d", size=266)
    model = make(vocab_size=len(words), attention="additive(width=5)", tied="decoder")
    folder.save(tmp_path, model, words, {"source": "en", "target": "de"})
    loaded = folder.load(tmp_path).model
    assert loaded.config == model.config
    assert torch.equal(loaded(src, tgt).logits, model(src, tgt).logits)


@refused(
    [
        ({"kernel": 0}, "kernel must be at least 1, not 0"),
        ({"decoder_layers": 0}, "decoder_layers must be at least 1, not 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"dilation": "wavenet"}, "'none' or 'bytenet'"),
        ({"n_heads": 4}, "unknown key 'n_heads'"),
        ({"attention": "dott"}, "unknown attention 'dott'; did you mean 'dot'"),
        ({"attention": "self"}, "'self' is not an attention to swap in"),
        ({"position": "lerned"}, "did you mean 'learned'"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    Convolutional(from_tree(ConvolutionalConfig, {"d_model": 8, "vocab_size": 9, "max_length": 20} | wrong))


@pytest.mark.parametrize("position", POSITIONS)
def test_positions_that_only_touch_the_embeddings_are_taken(position: str) -> None:
    if position in ("none", "learned", "sinusoidal"):
        make(position=position)
    else:
        with pytest.raises(InputError, match=f"'{position}' is not a position for a convolutional model"):
            make(position=position)


def test_the_same_commands_train_it_go_on_translate_and_score(command: Callable[..., Result], tmp_path: Path) -> None:
    """A run that was stopped and went on ends with the very weights of one that was not."""
    pairs = [(f"{a} {b}", f"{DIGITS[a]} {DIGITS[b]}") for a in range(10) for b in range(10)]
    write_tsv(tmp_path / "pairs.tsv", pairs)
    write_sides(pairs[::9], tmp_path / "test.num", tmp_path / "test.en")
    flags = (
        "pairs.tsv --from num --to en --architecture convolutional --model.d-model 32 --model.encoder-layers 1 "
        "--model.decoder-layers 2 --model.dropout 0.1 --data.vocab-size 300 --data.batch-tokens 256 "
        "--training.schedule constant --training.learning-rate 0.01 --training.bleu-sentences 3 --training.threads 1 "
        "--training.validate-every 30 --training.precision float32"
    )

    def qkv(*arguments: str) -> str:
        done = command(*arguments)
        assert done.code == 0, done.err
        return done.out

    qkv("train", *flags.split(), "--steps", "30", "--out", "one")
    qkv("train", *flags.split(), "--steps", "60", "--out", "one")
    qkv("train", *flags.split(), "--steps", "60", "--out", "two")
    assert same_weights(tmp_path / "one", tmp_path / "two")
    assert qkv("translate", "3 1", "--model", "one", "--beam", "4").strip() == "three one"
    assert "BLEU" in qkv("score", "test.num", "test.en", "--model", "one", "--beam", "2")
    assert look_at(load_translator("one"), "3 1").cross().shape[0] == 2


# -- learning --------------------------------------------------------------------------------------------------------


def learn(**others: object) -> list[float]:
    """The loss for each token while a small model learns to write six symbols in reverse."""
    torch.manual_seed(0)
    model = Convolutional(config(vocab_size=12, d_model=32, **others)).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(100):
        src = torch.randint(4, 12, (24, 6))
        tgt = torch.cat((torch.ones_like(src[:, :1]), src.flip(1)), dim=1)
        losses.append(teach(model, optimiser, src, tgt, Translation(label_smoothing=0.0)))
    return losses


def test_it_learns_and_attention_beats_a_mean() -> None:
    """The mean of the source cannot say in few numbers which symbol stood where: a guess costs ln 8 = 2.08."""
    attending, blind = (learn(attention=name, encoder_layers=1, decoder_layers=2) for name in ("dot", "none"))
    assert attending[0] > 2
    assert attending[-1] < 0.2
    assert blind[-1] > attending[-1] + 0.8
