"""TransE and the entities of names: losses against loops, what is told and what is not, and a graph that is learned."""

from typing import Any

import pytest
import torch

from kit import batch, close, refused, stirred, tiny_model
from qkv.data import Batch, Place, generator
from qkv.errors import InputError
from qkv.models import Headed, TransE, TransEConfig
from qkv.models.entities import Entities
from qkv.objectives import Asked, objective
from qkv.objectives.passages import IN_ENTITY, NAMED
from qkv.text.tokenizer import Tokenizer

WORDS = Tokenizer.train(["Ann Lee saw Rome and Oslo with Bo"] * 9, kind="wordpiece(lowercase=False)", vocab_size=80,
                        specials=("<mask>",))  # fmt: skip
NAMES = ["Ann Lee", "Rome", "Oslo", "Bo", "Lyon"]
MANY = 400


def ernie(names: list[str] = NAMES) -> Any:
    torch.manual_seed(0)
    made = tiny_model("ernie_thu", vocab_size=len(WORDS), entities=names, d_entity=8, entity_heads=2, max_length=64)
    made.know(WORDS)
    return stirred(Headed(made, {}), 0.1).eval()  # type: ignore[arg-type]


def passage(text: str, *names: str, number: int = 0) -> list[list[int]]:
    """A row in which some names are marked, as tasks/passages.py writes it."""
    ids, spans = WORDS.encode_spans(text)
    marks = [0] * len(ids)
    for name in names:
        start = text.index(name)
        inside = [i for i, (a, b) in enumerate(spans) if start <= a and b <= start + len(name)]
        marks[inside[0]] |= NAMED
        for i in inside[1:]:
            marks[i] |= IN_ENTITY
    return [ids, [len(ids)], marks, [0, number, 60]]


def ask(spec: str, some: Batch, model: Any, n: int = 0) -> tuple[Any, Asked]:
    asks = objective(spec).knowing(WORDS, model.inputs()).with_model(model)
    return asks, asks.prepare(some, generator(1, Place(0, n)))


ROWS = batch(passage("Ann Lee saw Rome", "Ann Lee", "Rome"), passage("Oslo saw Bo and Rome", "Oslo", "Bo"))
LABELS = [[1, 2], [3, 4]]  # Rome is not marked in the second


def said(row: Any) -> list[int]:
    return [number for number in row.tolist() if number]


# -- denoising ---------------------------------------------------------------------------------------------------------


def test_what_is_asked_for_are_the_names_that_the_files_mark() -> None:
    model = ernie()
    _, asked = ask("denoising_entities(replaced=0, removed=0)", ROWS, model)
    assert [said(row) for row in asked.labels] == LABELS
    assert torch.equal(asked.inputs["entities"], asked.labels)
    assert asked.count == 4
    first = asked.labels[0].nonzero()[0, 0]
    assert WORDS.decode(asked.inputs["ids"][0, first:].tolist()) == "Ann Lee saw Rome"
    marked = batch(passage("Ann Lee saw Rome", "Lee saw", "Rome"))  # no entity is called so
    assert said(ask("denoising_entities", marked, model)[1].labels[0]) == [2]


def test_rates_of_one_replace_all_by_others_of_the_batch_or_tell_none() -> None:
    model = ernie()
    _, asked = ask("denoising_entities(replaced=0, removed=1)", ROWS, model)
    assert [said(row) for row in asked.labels] == LABELS
    assert not asked.inputs["entities"].any()
    for n in range(20):
        _, asked = ask("denoising_entities(replaced=1, removed=0)", ROWS, model, n)
        told, labels = asked.inputs["entities"], asked.labels
        assert torch.equal(told > 0, labels > 0)
        assert not (told == labels)[labels > 0].any()
        assert {*said(told.flatten())} <= {1, 2, 3, 4}  # Lyon is in no text of the batch


def test_of_many_5_percent_are_replaced_15_are_not_told_and_80_are() -> None:
    model, rows = ernie(), batch(*[passage("Ann Lee saw Rome and Oslo", "Ann Lee", "Rome", "Oslo")] * MANY)
    shares = torch.zeros(3)
    for n in range(20):
        _, asked = ask("denoising_entities", rows, model, n)
        told, labels = (x[asked.labels > 0] for x in (asked.inputs["entities"], asked.labels))
        assert len(labels) == asked.count == 3 * MANY
        shares += torch.tensor([((told != labels) & (told > 0)).sum(), (told == 0).sum(), (told == labels).sum()])
    shares /= shares.sum()
    close(shares, torch.tensor([0.05, 0.15, 0.80]), atol=0.01)


def test_the_loss_is_the_softmax_over_the_entities_of_the_batch() -> None:
    """Zhang et al. 2019, section 3.4, in loops; Lyon, of which no text speaks, is no candidate."""
    model = ernie()
    asks, asked = ask("denoising_entities", ROWS, model)
    outputs = model(**asked.inputs)
    found, table = asks.loss(outputs, asked), model.backbone.entities.weight.detach()
    total, right = 0.0, 0
    for row, labels in enumerate(asked.labels.tolist()):
        for place, label in enumerate(labels):
            if label:
                said = outputs.projection.entity(outputs.hidden[row, place]).detach()
                scores = {k: float(said @ (table[k] / table[k].norm())) for k in (1, 2, 3, 4)}
                total += float(torch.tensor([*scores.values()]).logsumexp(dim=0)) - scores[label]
                right += max(scores, key=scores.__getitem__) == label
    assert found.total.item() == pytest.approx(total, rel=1e-5)
    assert found.parts["accuracy"] == right


def test_a_batch_without_names_costs_nothing() -> None:
    model = ernie()
    asks, asked = ask("denoising_entities", batch(passage("saw and with")), model)
    loss = asks.loss(model(**asked.inputs), asked)
    assert (asked.count, loss.total.item()) == (0, 0)
    loss.total.backward()


def test_beside_hidden_words_and_next_sentences_entities_are_those_of_the_whole_text() -> None:
    """A name is told though its words are hidden, and wherever next_sentence puts it."""
    rows = [passage(f"Ann Lee saw {town}", "Ann Lee", town, number=i) for i, town in enumerate(("Rome", "Oslo"))]
    torch.manual_seed(0)
    backbone = ernie().backbone
    spec = "masked_lm(rate=1, mask=1, keep=0) + next_sentence + denoising_entities(replaced=0, removed=0)"
    model = Headed(backbone, objective(spec).knowing(WORDS).heads)
    asks, asked = ask(spec, batch(*rows), model)
    words = asked.inputs["ids"] > 3
    assert (asked.inputs["ids"][words] == WORDS.special("<mask>")).all()
    assert [said(row) for row in asked.inputs["entities"]] == [[1, 2, 1, 3], [1, 3, 1, 2]]  # B is of the other document
    assert asks.loss(model(**asked.inputs), asked).total.isfinite()


@refused({"denoising_entities": "the model knows none; train some with --task graph"})
def test_a_model_without_entities_is_not_asked(wrong: str) -> None:
    objective(wrong).with_model(ernie([]))


@refused(
    {"denoising_entities(replaced=0.9, removed=0.2)": "are no shares", "links(margin=0)": "margin must be above 0"}
)
def test_shares_that_cannot_be(wrong: str) -> None:
    objective(wrong)


def test_files_without_names_are_refused() -> None:
    with pytest.raises(InputError, match="the files mark none; give treebanks"):
        objective("denoising_entities").check(2, IN_ENTITY)


# -- TransE ------------------------------------------------------------------------------------------------------------

LINKS = batch(*([[head, (head + tail) % 2, tail]] for head in range(1, 6) for tail in range(1, 6) if head != tail))


def transe(distance: Any = "l1", names: int = 5) -> TransE:
    torch.manual_seed(0)
    return TransE(TransEConfig(entities=[str(n) for n in range(names)], relations=["a", "b"], d_entity=6,
                               distance=distance))  # fmt: skip


@pytest.mark.parametrize("distance", ["l1", "l2"])
def test_the_loss_of_links_is_the_papers_link_by_link(distance: str) -> None:
    """Bordes et al. 2013, Eq. 1, in loops."""
    model = transe(distance)
    asks, asked = ask("links(margin=0.7)", LINKS, model)
    vectors = [[x / sum(y * y for y in row) ** 0.5 for x in row] for row in model.entities.weight.tolist()]

    def apart(link: list[int]) -> float:
        h, r, t = vectors[link[0]], model.relations[link[1]].tolist(), vectors[link[2]]
        parts = [abs(a + b - c) for a, b, c in zip(h, r, t, strict=True)]
        return sum(parts) if distance == "l1" else sum(x * x for x in parts) ** 0.5

    pairs = [(apart(true), apart(false)) for true, false in asked.inputs["links"].tolist()]
    loss = asks.loss(model(**asked.inputs), asked)
    assert loss.total.item() == pytest.approx(sum(max(0.0, 0.7 + a - b) for a, b in pairs), rel=1e-5)
    assert loss.parts["accuracy"] == sum(a < b for a, b in pairs)
    far = 1e3  # a margin that every pair is within
    asks, asked = ask(f"links(margin={far})", LINKS, model)
    assert asks.loss(model(**asked.inputs), asked).total.item() > (far - 20) * len(LINKS)


def test_a_false_link_has_one_other_end_and_is_never_the_true_one() -> None:
    sides = []
    for n in range(50):
        _, asked = ask("links", LINKS, transe(), n)
        true, false = asked.inputs["links"].unbind(dim=1)
        assert torch.equal(true, LINKS.columns[0])
        assert {*false[:, [0, 2]].unique().tolist()} <= {1, 2, 3, 4, 5}
        moved = true != false
        assert not moved[:, 1].any()
        assert (moved.sum(dim=1) == 1).all()
        sides.append(moved[:, 0].float().mean())
    assert sum(sides) / len(sides) == pytest.approx(0.5, abs=0.05)


def test_vectors_of_entities_always_have_the_length_one_and_those_of_relations_at_first() -> None:
    model = transe()
    close(model.relations.norm(dim=1), torch.ones(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for n in range(20):
        asks, asked = ask("links", LINKS, model, n)
        asks.loss(model(**asked.inputs), asked).total.backward()
        optimizer.step()
        optimizer.zero_grad()
        close(model.entities(torch.arange(1, 6)).norm(dim=1), torch.ones(5))
    assert model.relations.norm(dim=1).sub(1).abs().max() > 0.01


def test_the_next_of_a_ring_is_found_by_what_was_learned_of_others() -> None:
    """30 entities in a ring, linked with the next ones up to the third; a fifth of the links is held out, and of these
    eight in ten or more are shorter than to any other tail, drawn at random."""
    count = 30
    links = [[1 + i, step - 1, 1 + (i + step) % count] for i in range(count) for step in (1, 2, 3)]
    order = torch.randperm(len(links), generator=torch.Generator().manual_seed(0)).tolist()
    held, kept = ([links[i] for i in some] for some in (order[:18], order[18:]))
    torch.manual_seed(0)
    names = [str(n) for n in range(count)]
    model = TransE(TransEConfig(entities=names, relations=["1", "2", "3"], d_entity=16, distance="l2"))
    optimizer, some = torch.optim.Adam(model.parameters(), lr=0.02), batch(*([link] for link in kept))
    for n in range(400):
        asks, asked = ask("links", some, model, n)
        (asks.loss(model(**asked.inputs), asked).total / len(kept)).backward()
        optimizer.step()
        optimizer.zero_grad()
    above = []
    for head, relation, tail in held:
        others = [other for other in range(1, count + 1) if other not in (head, tail)]
        apart = model(torch.tensor([[head, relation, other] for other in (tail, *others)]))
        above.append((apart[0] < apart[1:]).float().mean())
    assert torch.stack(above).mean() >= 0.8


def test_a_table_divides_by_lengths_and_learns_where_it_is_to() -> None:
    for learns in (True, False):
        table = Entities(3, 4, learns=learns)
        numbers = torch.tensor([[1, 3], [2, 2]])
        close(table(numbers), table.weight[numbers] / table.weight[numbers].norm(dim=2, keepdim=True))
        assert table(numbers).requires_grad is learns
