"""The recurrent encoder-decoder: its papers' equations in plain loops, no leaks, steps as the whole, every command."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import properties
from kit import Result, along, asked, close, refused, same_weights, teach, tokenizer, write_sides, write_tsv
from qkv import folder
from qkv.attention import ATTENTIONS, SCORES
from qkv.config import from_tree
from qkv.decoding import Translator
from qkv.decoding.beam import beam_search
from qkv.errors import InputError
from qkv.look import look_at, record_attention
from qkv.models import Recurrent, RecurrentConfig, count_parameters
from qkv.objectives import Translation
from qkv.positions import Places

TOKENIZER = tokenizer(size=280)
V, B, S, T, D = len(TOKENIZER), 4, 9, 6, 12
KINDS: dict[str, dict[str, object]] = {
    "default": {},
    "no feeding": {"input_feeding": False},
    "bahdanau": {"decoder": "bahdanau", "attention": "additive", "cell": "gru", "tied": "decoder"},
    "one direction": {"bidirectional": False, "cell": "rnn", "tied": "none", "output_bias": True},
    "no attention": {"attention": "none"},
    "no attention, no feeding": {"attention": "none", "input_feeding": False, "bidirectional": False},
    "deep encoder": {"encoder_layers": 3, "decoder_layers": 1},
    "deep decoder": {"encoder_layers": 1, "decoder_layers": 3, "cell": "gru", "decoder": "bahdanau"},
}
OVER_MEMORY = [name for name, part in ATTENTIONS.items() if "memory" in part.uses] + list(SCORES)
OVER_MEMORY += ["local_m(radius=1)", "local_p(radius=1)"]  # whose places matter in a sentence as short as these


def make(**others: object) -> Recurrent:
    """With weights large enough for attention to choose."""
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "d_model": D, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0, "max_length": 20}
    model = Recurrent(RecurrentConfig(**(sizes | others))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("score.weight"):
                parameter.mul_(8)
    return model


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def model(request: pytest.FixtureRequest) -> Recurrent:
    return make(**request.param)


# -- the papers' equations -------------------------------------------------------------------------------------------


def soft(model: Recurrent, query: Tensor, memory: Tensor, real: Tensor) -> Tensor:
    """One sentence, key by key: sum of softmax(q^T W k) k over real keys; query (D,), memory (S, D)."""
    matrix = model.decoder.memory_attention.score.weight[0]
    scores = [float(query @ matrix @ key) if seen else -math.inf for key, seen in zip(memory, real, strict=True)]
    total = sum(math.exp(score) for score in scores)
    return sum(math.exp(score) / total * key for score, key in zip(scores, memory, strict=True))


def joined_cell(model: Recurrent) -> nn.LSTMCell:
    """torch's cell that reads [y; fed], with the model's two matrices side by side."""
    cell, (w, u, b, b_hidden) = nn.LSTMCell(2 * D, D), model.decoder.recurrence.layers.all_weights[0]
    cell.load_state_dict(
        {"weight_ih": torch.cat((w, model.decoder.feed.weight), 1), "weight_hh": u, "bias_ih": b, "bias_hh": b_hidden}
    )
    return cell


@torch.no_grad()
@pytest.mark.parametrize("decoder", ["luong", "bahdanau"])
def test_the_decoder_is_its_papers_equations(decoder: str, src: Tensor, tgt: Tensor) -> None:
    model = make(decoder=decoder, encoder_layers=1, decoder_layers=1)
    cell, state, hidden = joined_cell(model), model.start(src)[1], model(src, tgt).hidden
    for row in range(B):
        memory, real, (h, c) = state.memory[row], src[row] != 0, [part[row] for part in state.layers[0]]
        fed = torch.zeros(D)
        for t in range(T):
            y = model.target.weight[tgt[row, t]] * math.sqrt(D)
            if decoder == "bahdanau":  # looks first, by the last state
                fed = soft(model, h, memory, real)
                (h,), (c,) = cell(torch.cat((y, fed))[None], (h[None], c[None]))
                expected = torch.tanh(model.decoder.combine.weight @ torch.cat((fed, h)))
            else:
                (h,), (c,) = cell(torch.cat((y, fed))[None], (h[None], c[None]))
                context = soft(model, h, memory, real)
                expected = fed = torch.tanh(model.decoder.combine.weight @ torch.cat((context, h)))
            close(hidden[row, t], expected)


@torch.no_grad()
def test_without_feeding_only_the_fed_weights_are_missing(src: Tensor, tgt: Tensor) -> None:
    """A model that feeds by a matrix of zeros is one that does not: the loop equals torch's single call."""
    loop, whole = make(), make(input_feeding=False)
    loop.decoder.feed.weight.zero_()
    whole.load_state_dict({name: value for name, value in loop.state_dict().items() if "feed" not in name})
    close(whole(src, tgt).logits, loop(src, tgt).logits)


@torch.no_grad()
@pytest.mark.parametrize(("encoder", "decoder", "sources"), [(2, 2, [0, 1]), (3, 1, [2]), (1, 3, [0, 0, 0])])
def test_the_decoder_starts_from_the_encoders_last_states(
    encoder: int, decoder: int, sources: list[int], src: Tensor
) -> None:
    one = make(bidirectional=False, encoder_layers=encoder, decoder_layers=decoder)
    last = one.encode(src)[2]
    for layer, source in zip(one.start(src)[1].layers, sources, strict=True):
        assert all(torch.equal(part, other) for part, other in zip(layer, last[source], strict=True))
    both = make(encoder_layers=encoder, decoder_layers=decoder)
    last = both.encode(src)[2]
    for layer, source in zip(both.start(src)[1].layers, sources, strict=True):
        for part, bridge, forwards, backwards in zip(
            layer, both.bridges, last[2 * source], last[2 * source + 1], strict=True
        ):
            close(part, forwards @ bridge.weight[:, :D].T + backwards @ bridge.weight[:, D:].T + bridge.bias)


@torch.no_grad()
def test_without_attention_the_first_state_is_all_that_is_known_of_the_source(src: Tensor, tgt: Tensor) -> None:
    for attention in ("none", "general"):
        model = make(attention=attention)
        state, at = model.start(src)[1], Places.span(0, T, src.device)
        clean = model.decoder(model.target(tgt), state, at.over(state.memory))
        _, state = model.start(src)
        state.memory = 10 * along(state.memory)
        changed = model.decoder(model.target(tgt), state, at.over(state.memory))
        assert torch.equal(changed, clean) == (attention == "none")
        assert any(name.startswith("memory") for name, _ in model.named_parameters()) == (attention != "none")


# -- what must hold for every model ----------------------------------------------------------------------------------


def test_every_parameter_gets_a_finite_gradient(model: Recurrent, src: Tensor, tgt: Tensor) -> None:
    Translation().loss(model(src, tgt), asked(tgt.roll(-1, 1))).total.backward()
    properties.every_parameter_has_a_gradient(model, share=1e-7)


@torch.no_grad()
def test_padding_never_leaks_and_a_row_alone_is_the_row_in_a_batch(model: Recurrent, src: Tensor, tgt: Tensor) -> None:
    properties.a_row_alone_is_the_row_in_a_batch(model, src, tgt)
    clean, real = model(src, tgt).logits, tgt != 0
    close(model(nn.functional.pad(src, (0, 5)), tgt).logits[real], clean[real])
    model.source.weight[0] += 100 * along(model.source.weight[0])  # the row of padding
    close(model(src, tgt).logits[real][:, 1:], clean[real][:, 1:])


@torch.no_grad()
def test_the_future_never_leaks(model: Recurrent, src: Tensor, tgt: Tensor) -> None:
    properties.the_future_never_leaks(lambda read: model(src, read).logits, tgt, V, atol=1e-6)


@torch.no_grad()
def test_one_token_at_a_time_equals_all_at_once_and_can_be_reordered(
    model: Recurrent, src: Tensor, tgt: Tensor
) -> None:
    properties.steps_equal_the_whole(model, src, tgt)
    properties.a_reordered_state_goes_on_with_other_rows(model, src, tgt)


def test_a_source_of_nothing_but_padding_harms_nobody(model: Recurrent, src: Tensor, tgt: Tensor) -> None:
    properties.a_source_of_nothing_but_padding_harms_nobody(model, src, tgt)


def test_in_bfloat16_it_is_the_same_but_for_rounding(model: Recurrent, src: Tensor, tgt: Tensor) -> None:
    exact = Translation().loss(model(src, tgt), asked(tgt))
    with torch.autocast("cpu", torch.bfloat16):
        loss = Translation().loss(model.train()(src, tgt), asked(tgt))
    loss.total.backward()
    assert loss.total.item() == pytest.approx(exact.total.item(), rel=0.02)
    assert all(p.grad.isfinite().all() for p in model.parameters())


@torch.no_grad()
def test_saved_is_loaded_and_float64_is_float32(model: Recurrent, src: Tensor, tgt: Tensor, tmp_path: Path) -> None:
    logits = model(src, tgt).logits
    folder.save(tmp_path, model, TOKENIZER, {})
    loaded = folder.load(tmp_path).model
    assert loaded.config == model.config
    assert torch.equal(loaded(src, tgt).logits, logits)
    assert len(list(loaded.parameters())) == len(list(model.parameters()))
    close(model.double()(src, tgt).logits.float(), logits)


def test_one_beam_search_serves_it_whatever_the_batch(model: Recurrent, src: Tensor) -> None:
    together = beam_search(model, src, [8] * B, beam=3)
    for row in range(B):
        alone = beam_search(model, src[row][src[row] != 0][None], [8], beam=3)[0]
        assert [found.tokens for found in alone] == [found.tokens for found in together[row]]


# -- attention and dropout -------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("attention", OVER_MEMORY)
@pytest.mark.parametrize("others", [{}, {"input_feeding": False}, {"decoder": "bahdanau"}], ids=str)
def test_any_attention_over_a_memory_will_do(
    attention: str, others: dict[str, object], src: Tensor, tgt: Tensor
) -> None:
    model = make(attention=attention, **others)
    assert model(src, tgt).logits.isfinite().all()
    properties.steps_equal_the_whole(model, src, tgt)


@pytest.mark.parametrize("others", [{}, {"input_feeding": False}, {"decoder": "bahdanau"}], ids=str)
@pytest.mark.parametrize("attention", SCORES)
def test_attention_is_recorded_and_sums_to_one_over_real_tokens(
    attention: str, others: dict[str, object], src: Tensor, tgt: Tensor
) -> None:
    model = make(attention=attention, **others)
    before = model(src, tgt).logits
    with record_attention(model) as maps:
        close(model(src, tgt).logits, before)
    assert set(maps) == {"decoder.memory_attention"}
    weights = torch.cat(maps.calls["decoder.memory_attention"], dim=2)  # (B, 1, T, S)
    assert weights.shape == (B, 1, T, S)
    close(weights.sum(dim=-1), torch.ones(B, 1, T))
    assert not weights.masked_select((src == 0)[:, None, None, :]).any()
    assert weights.masked_select((src != 0)[:, None, None, :]).all()


def test_pictures_have_a_row_for_each_word() -> None:
    look = look_at(Translator(make(input_feeding=False), TOKENIZER, {}), "the cat", "the mat sat")
    assert look.cross().shape == (1, len(look.target), len(look.source))


def test_what_hard_attention_draws_reaches_the_objective(src: Tensor, tgt: Tensor) -> None:
    model = make(attention="hard(sampling=1.0)").train()
    outputs = model(src, tgt)
    assert len(outputs.choices) == T  # with input feeding, each step draws for itself
    sum(choice.log_p.sum() for choice in outputs.choices).backward()
    assert model.encoder.layers.weight_ih_l0.grad.any()


def test_dropout_between_layers_is_drawn_for_each_step() -> None:
    model = make(dropout=0.25, decoder_layers=3).train()
    x = torch.zeros(50, 7, D)
    masks = model.decoder.masks(x)
    assert [mask.shape for mask in masks] == [(2, 50, D)] * 7
    values = torch.stack(masks)
    close(values.unique(), torch.tensor([0, 4 / 3]))
    assert (values == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)  # 8400 values: 6 standard errors
    assert not torch.equal(masks[0], masks[1])
    assert model.eval().decoder.masks(x) == [None] * 7


@pytest.mark.parametrize("others", [{}, {"input_feeding": False}, {"decoder": "bahdanau"}], ids=str)
def test_dropout_changes_training_and_nothing_else(others: dict[str, object], src: Tensor, tgt: Tensor) -> None:
    model = make(dropout=0.5, **others).train()
    assert not torch.equal(model(src, tgt).hidden, model(src, tgt).hidden)
    torch.testing.assert_close(model.eval()(src, tgt).hidden, make(**others)(src, tgt).hidden)


# -- sizes and settings ----------------------------------------------------------------------------------------------


def test_the_sizes_are_those_of_the_papers_sums() -> None:
    """By hand, for V = 6000: tiny has between 2 and 3 million; each LSTM has 4 gates over input, state and 2 biases."""
    with torch.device("meta"):
        counts = {name: count_parameters(Recurrent(RecurrentConfig(vocab_size=6000, **preset)))
                  for name, preset in Recurrent.presets.items()}  # fmt: skip
    d = 192
    lstm = 4 * (d * d + d * d + 2 * d)
    bridges, memory, combine, general, feed = 2 * (2 * d * d + d), 2 * d * d, 2 * d * d, d * d, 4 * d * d
    assert counts["tiny"] == 6000 * d + 2 * lstm + bridges + memory + lstm + feed + combine + general
    assert 2e6 < counts["tiny"] < 3e6
    assert list(counts) == ["tiny", "small", "base", "big"]
    assert list(counts.values()) == sorted(counts.values())


@refused(
    [
        ({"decoder_layers": 0}, "decoder_layers must be at least 1, not 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"cell": "lstmm"}, "'lstm', 'gru' or 'rnn'"),
        ({"decoder": "bahdanau", "attention": "none"}, "attention='none' has none; use luong"),
        ({"n_heads": 2}, "unknown key 'n_heads'"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    from_tree(RecurrentConfig, wrong)


def test_an_attention_that_cannot_look_at_a_source_is_refused() -> None:
    with pytest.raises(InputError, match="cannot stand in the memory"):
        make(attention="window")
    with pytest.raises(InputError, match="did you mean 'general'"):
        make(attention="generl")


# -- learning and the command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [{}, {"decoder": "bahdanau", "cell": "gru"}], ids=str)
def test_it_learns_to_copy(others: dict[str, object]) -> None:
    torch.manual_seed(0)
    model = Recurrent(
        RecurrentConfig(vocab_size=11, d_model=32, encoder_layers=1, decoder_layers=1, dropout=0.0, **others)
    )
    optimiser, generator, losses = torch.optim.Adam(model.parameters(), lr=1e-2), torch.Generator().manual_seed(1), []
    for _ in range(100):
        data = torch.randint(1, 11, (32, 6), generator=generator)
        losses.append(teach(model, optimiser, data, data, Translation(label_smoothing=0.0)))
    assert losses[0] > 0.9 * math.log(10)
    assert sum(losses[-10:]) / 10 < 0.5 * losses[0]


def test_every_command_takes_it(command: Callable[..., Result], tmp_path: Path) -> None:
    def qkv(*arguments: object) -> str:
        done = command(*arguments)
        assert done.code == 0, done.err
        return done.out + done.err

    pairs = [(f"{i} dogs play", f"{i} Hunde spielen") for i in range(40)]
    write_tsv(tmp_path / "pairs.tsv", pairs)
    write_sides(pairs[:3], tmp_path / "test.en", tmp_path / "test.de")
    flags = ["--model", "recurrent", "--model.d-model", "16", "--model.cell", "gru", "--model.attention", "additive",
             "--data.batch-tokens", "64", "--training.bleu-sentences", "2", "--training.threads", "1",
             "--training.learning-rate", "0.01", "--training.precision", "float32", "--training.schedule", "constant",
             "--from", "en", "--to", "de"]  # fmt: skip
    told = qkv("train", "pairs.tsv", *flags, "--steps", "2", "--out", "model")
    assert "recurrent of 0.0 M parameters (d_model 16, 1+1 layers of gru, luong, additive attention" in told
    told = qkv("train", "pairs.tsv", *flags, "--steps", "4", "--out", "model")
    assert "going on from step 2" in told
    qkv("train", "pairs.tsv", *flags, "--steps", "4", "--out", "once")
    assert same_weights(tmp_path / "model", tmp_path / "once")
    assert qkv("translate", "7 dogs play", "8 dogs", "--model", "model", "--beam", "2").count("\n") >= 2
    assert "BLEU" in qkv("score", "--model", "model", "test.en", "test.de", "--beam", "1")
    assert "recurrent" in qkv("info", "model")
