"""REINFORCE: an unbiased gradient, a baseline that calms it, and a loss that carries it."""

import copy

import pytest
import torch
from torch import Tensor, nn

from qkv.attention import Choice, build_attention, drawing
from qkv.models import Transformer, TransformerConfig
from qkv.objectives import Asked, Translation
from qkv.objectives.reinforce import surrogate
from qkv.positions import Places

KEYS, WIDTH = 4, 3
CONFIG = TransformerConfig(
    vocab_size=13, d_model=16, d_ff=16, n_heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0,
    memory_attention="hard(sampling=1.0)",
)  # fmt: skip
SRC = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
TGT = torch.tensor([[1, 9, 10, 11, 2], [1, 12, 2, 0, 0]])
ASKED = Asked({"src": SRC, "tgt": TGT[:, :-1]}, TGT[:, 1:], 6)


# -- a toy of four keys, in which the expectation can be written down -------------------------------------------------


def toy() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One query over four keys; the log-likelihood that each choice would give. All that is learned is the query."""
    generator = torch.Generator().manual_seed(3)
    q = torch.randn(WIDTH, generator=generator).requires_grad_()
    k = torch.randn(1, 1, KEYS, WIDTH, generator=generator)
    return q, k, torch.eye(KEYS)[None, None], torch.tensor([-3.0, -1.0, -2.5, -0.5])


def exact_gradient(entropy: float) -> Tensor:
    """Of E_s[log p(y | s)] + l_e H, by summing over the four choices."""
    q, k, _, likelihood = toy()
    weights = (k[0, 0] @ q / WIDTH**0.5).softmax(0)
    (gradient,) = torch.autograd.grad((weights * (likelihood - entropy * weights.log())).sum(), q)
    return gradient


def sampled_gradients(baseline: float, entropy: float, draws: int = 20_000) -> Tensor:
    """The gradient of each of many draws by the term of the objective: (draws, WIDTH)."""
    torch.manual_seed(0)
    sizes = TransformerConfig(d_model=WIDTH, n_heads=1)
    hard = build_attention(f"hard(sampling=1.0, reward=1.0, entropy={entropy})", sizes, "memory").train()
    q, k, v, likelihood = toy()
    with torch.no_grad():
        hard.get_parameter("baseline").fill_(baseline)
    queries = q.expand(draws, 1, 1, WIDTH).detach().requires_grad_()  # a query for each draw
    at = Places(torch.zeros(1, dtype=torch.long), torch.arange(KEYS))
    with drawing() as choices:
        drawn, _ = hard.plain(queries, k.expand(draws, -1, -1, -1), v.expand(draws, -1, -1, -1), at)
    loss = surrogate(choices, drawn[:, 0, 0] @ likelihood, torch.ones(draws))
    (gradient,) = torch.autograd.grad(-loss, queries)
    return gradient[:, 0, 0]


@pytest.mark.parametrize("baseline", [0.0, -1.5])
@pytest.mark.parametrize("entropy", [0.0, 0.7])
def test_the_mean_of_many_draws_is_the_exact_gradient(baseline: float, entropy: float) -> None:
    found = sampled_gradients(baseline, entropy)
    error = found.std(dim=0) / len(found) ** 0.5
    assert ((found.mean(dim=0) - exact_gradient(entropy)).abs() < 3 * error).all()
    assert (exact_gradient(entropy).abs() > 10 * error).any()  # else nothing has been shown


def test_a_baseline_calms_the_gradient() -> None:
    """A mean of the rewards as the baseline: here the variance falls to about a sixth (0.55 from 3.30)."""
    q, k, _, likelihood = toy()
    mean = ((k[0, 0] @ q / WIDTH**0.5).softmax(0) @ likelihood).item()
    without, with_it = (sampled_gradients(baseline, 0.0).var(dim=0).sum() for baseline in (0.0, mean))
    assert with_it < 0.5 * without


# -- the term itself ---------------------------------------------------------------------------------------------------


def test_a_worked_example() -> None:
    """-(2 * 0.1 * (-1 + 3) * -0.5 + 3 * 0.1 * (-2 + 3) * -0.2 + 0.01 * (0.4 + 0.6)) = 0.25.

    And then the baseline: 0.9 * -3 + 0.1 * -1.5 = -2.85.
    """
    baseline = nn.Parameter(torch.tensor(-3.0), requires_grad=False)
    choice = Choice(torch.tensor([-0.5, -0.2]), torch.tensor([0.4, 0.6]), baseline, 0.1, 0.01)
    term = surrogate([choice], torch.tensor([-1.0, -2.0]), torch.tensor([2, 3]))
    torch.testing.assert_close(term, torch.tensor(0.25))
    torch.testing.assert_close(baseline.detach(), torch.tensor(-2.85))


def test_a_reward_that_is_not_a_number_leaves_the_baseline_alone() -> None:
    baseline = nn.Parameter(torch.tensor(-3.0), requires_grad=False)
    choice = Choice(torch.zeros(2), torch.zeros(2), baseline, 0.1, 0.0)
    surrogate([choice], torch.tensor([torch.nan, -1.0]), torch.tensor([1, 1]))
    assert baseline.item() == -3.0


# -- in the loss of a translation --------------------------------------------------------------------------------------


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(CONFIG)


def test_the_loss_is_cross_entropy_and_the_term(model: Transformer) -> None:
    outputs = model(SRC, TGT[:, :-1])
    (choice,) = outputs.choices  # one block, one hard attention
    with torch.no_grad():
        choice.baseline.fill_(-2.0)
    labels = ASKED.labels
    loss = Translation(label_smoothing=0.0).loss(outputs, ASKED)
    per_token = nn.functional.cross_entropy(outputs.logits.transpose(1, 2), labels, ignore_index=0, reduction="none")
    tokens = torch.tensor([4, 2])
    reward = -per_token.sum(1) / tokens
    gain = tokens * (reward + 2.0)
    expected = per_token.sum() - (0.1 * gain * choice.log_p + 0.002 * choice.entropy).sum()
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.parts["likelihood"], per_token.sum())
    torch.testing.assert_close(choice.baseline.item(), 0.9 * -2.0 + 0.1 * reward.mean().item())


def test_the_scores_of_a_hard_attention_learn_by_the_term_alone(model: Transformer) -> None:
    attention = model.get_submodule("decoder.blocks.0.memory_attention")
    outputs = model(SRC, TGT[:, :-1])
    silent = copy.copy(outputs)
    object.__setattr__(silent, "choices", [])
    names = [attention.get_parameter(f"{name}.weight") for name in ("query", "key")]
    for found, learns in ((silent, False), (outputs, True)):
        total = Translation().loss(found, ASKED).total
        gradients = torch.autograd.grad(total, names, retain_graph=True, allow_unused=True)
        assert all((g is not None and bool(g.any())) == learns for g in gradients)


def test_out_of_training_there_is_no_term(model: Transformer) -> None:
    outputs = model.eval()(SRC, TGT[:, :-1])
    assert not outputs.choices
    before = model.get_parameter("decoder.blocks.0.memory_attention.attend.baseline").clone()
    loss = Translation(label_smoothing=0.0).loss(outputs, ASKED)
    torch.testing.assert_close(loss.total, loss.parts["likelihood"])
    assert torch.equal(model.get_parameter("decoder.blocks.0.memory_attention.attend.baseline"), before)


def test_every_hard_attention_of_a_model_is_heard() -> None:
    torch.manual_seed(0)
    everywhere = {**vars(CONFIG), "attention": "hard(sampling=1.0)", "memory_attention": "", "decoder_layers": 2}
    model = Transformer(TransformerConfig(**everywhere))
    outputs = model(SRC, TGT[:, :-1])
    assert len(outputs.choices) == 1 + 2 * 2
    Translation().loss(outputs, ASKED).total.backward()
    for name, parameter in model.named_parameters():
        if name.endswith(("query.weight", "key.weight")):
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.any(), name
