"""SpanBERT's span boundary objective: only the two ends of a span are seen; against a loop over spans."""

import numpy as np
import pytest
import torch
from torch import Tensor

from kit import along, batch, refused, tiny_model
from qkv.data import Batch, Place, generator
from qkv.models import Headed
from qkv.objectives import Asked, SpanBoundary, objective
from qkv.text.tokenizer import EOS, PAD, Tokenizer

WORDS = Tokenizer.train(["the cat sat on the mat"] * 3, kind="wordpiece", vocab_size=40, specials=("<mask>",))
FREE = [n for n in range(len(WORDS)) if n not in WORDS.specials.values()]
SPEC = "masked_lm(unit='span', rate=0.3) + span_boundary"


def some(rows: int = 30, length: int = 40) -> Batch:
    rng = np.random.default_rng(1)
    return batch(*([[EOS, *rng.choice(FREE, length).tolist()]] for _ in range(rows)))


def ask(given: Batch, spec: str = SPEC) -> Asked:
    return objective(spec).knowing(WORDS).prepare(given, generator(1, Place()))


def by_loop(labels: Tensor, ids: Tensor, longest: int) -> list[tuple[int, int, int, int, int]]:
    """(token, row, before, after, place in the span), span by span."""
    found = []
    for row, line in enumerate(labels.tolist()):
        at = 0
        while at < len(line):
            if line[at] == PAD:
                at += 1
                continue
            end = at
            while end + 1 < len(line) and line[end + 1] != PAD:
                end += 1
            outside = [ids[row, i].item() if 0 <= i < len(line) else EOS for i in (at - 1, end + 1)]
            if not set(outside) & set(WORDS.specials.values()):
                found += [(line[i], row, at - 1, end + 1, i - at) for i in range(at, end + 1) if i - at < longest]
            at = end + 1
    return found


@pytest.mark.parametrize("longest", [2, 20])
def test_each_token_of_a_span_is_asked_for_with_its_ends(longest: int) -> None:
    asked = ask(some(), f"masked_lm(unit='span', rate=0.3) + span_boundary(longest={longest})")
    masked, boundary = asked.parts
    expected = by_loop(masked.labels, asked.inputs["ids"], longest)
    assert [*zip(*(column.tolist() for column in boundary.labels), strict=True)] == expected
    assert boundary.count == len(expected) < masked.count
    assert max(place for *_, place in expected) == min(longest - 1, max(place for *_, place in expected))


def test_spans_at_an_edge_are_not_asked_for() -> None:
    """All hidden: the whole text is one span, which touches <s> and the end."""
    asked = ask(some(3), "masked_lm(rate=1.0) + span_boundary")
    assert asked.parts[1].count == 0
    model = headed().eval()
    assert objective_loss(model, asked, "masked_lm(rate=1.0) + span_boundary").isfinite()


def headed() -> Headed:
    torch.manual_seed(0)
    return Headed(tiny_model("bert", vocab_size=len(WORDS)), objective(SPEC).knowing(WORDS).heads)  # type: ignore[arg-type]


def objective_loss(model: Headed, asked: Asked, spec: str = SPEC) -> Tensor:
    return objective(spec).knowing(WORDS).loss(model(**asked.inputs), asked).total


def test_only_the_ends_of_a_span_reach_its_words() -> None:
    """The Jacobian of a token's scores: zero at every state but the two beside the span."""
    asked = ask(some(4))
    model = headed().eval()
    outputs = model(**asked.inputs)
    hidden = outputs.hidden.detach().requires_grad_()
    _, rows, before, after, inner = asked.parts[1].labels
    head = model.heads["span_boundary"]
    y = head(hidden, outputs.real, rows, before, after, inner)
    for token in range(0, len(rows), 3):
        (slope,) = torch.autograd.grad(y[token] @ along(y[token]), hidden, retain_graph=True)
        seen = {tuple(place) for place in slope.abs().sum(dim=2).nonzero().tolist()}
        row = rows[token].item()
        assert seen <= {(row, before[token].item()), (row, after[token].item())}
        assert seen


def test_the_loss_is_that_of_a_loop() -> None:
    """y = LN(gelu(W2 LN(gelu(W1 [x_s-1; x_e+1; p])))), logits = E y + c, summed; and its share in the whole."""
    asked = ask(some(6))
    model = headed().eval()
    head = model.heads["span_boundary"]
    with torch.no_grad():
        head.bias.normal_()  # type: ignore[operator]
    outputs = model(**asked.inputs)
    one, _, norm, two, _, last = head.layers  # type: ignore[misc]
    assert head.layers[0].in_features == 2 * 16 + 200  # type: ignore[index, union-attr]
    total = torch.zeros(())
    for token, row, before, after, inner in by_loop(asked.parts[0].labels, asked.inputs["ids"], 20):
        x = torch.cat([outputs.hidden[row, before], outputs.hidden[row, after], head.positions.weight[inner]])  # type: ignore[index, union-attr]
        h = norm(torch.nn.functional.gelu(one(x)))
        y = last(torch.nn.functional.gelu(two(h)))
        logits = outputs.projection.weight @ y + head.bias
        total = total - logits.log_softmax(0)[token]
    own = SpanBoundary().knowing(WORDS).loss(outputs, asked.parts[1])
    torch.testing.assert_close(own.total, total, rtol=1e-5, atol=1e-5)
    masked = objective("masked_lm").knowing(WORDS).loss(outputs, asked.parts[0]).total
    whole = masked / asked.parts[0].count + total / asked.parts[1].count
    torch.testing.assert_close(objective_loss(model, asked) / asked.count, whole, rtol=1e-5, atol=1e-5)


@refused(
    {
        "span_boundary": "span_boundary asks about the spans that masked_lm hides; write both",
        "masked_lm + span_boundary(longest=0)": "longest must be at least 1 token, not 0",
    },
    "spec",
    plain=True,
)
def test_what_cannot_be_asked_is_refused(spec: str) -> None:
    ask(some(2), spec)
