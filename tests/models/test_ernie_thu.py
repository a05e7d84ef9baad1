"""ERNIE of Tsinghua: an aggregator against loops over tokens, BERT where no entity is, and names found in texts."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import close, draw, padded, refused, stirred, tiny_model, tokenizer
from qkv import folder
from qkv.attention import recording
from qkv.engines import open_reader
from qkv.engines.native.library import is_built
from qkv.folder import Loaded
from qkv.models import ErnieThu, ErnieThuConfig
from qkv.models.entities import Names
from qkv.models.ernie_thu import Aggregator
from qkv.positions import NO_POSITION, Places
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

V, T = 40, 7
NAMES = ["New York", "New York Times", "Rome", "Ann Lee"]
SIZES: dict[str, Any] = {"layers": 3, "aggregators": 2, "entities": NAMES, "d_entity": 8, "entity_heads": 2}
IDS = padded([T, 4], V)
LINKED = torch.tensor([[1, 0, 0, 2, 0, 4, 0], [0, 3, 0, 0, 0, 0, 0]])
NONE = torch.zeros_like(IDS)


def build(**settings: Any) -> Any:
    """With weights large enough for attention to choose."""
    sizes = {"vocab_size": V, "max_length": 20, **SIZES, **settings}
    return stirred(tiny_model("ernie_thu", **sizes), 0.2).eval()


# -- the aggregator ----------------------------------------------------------------------------------------------------


@torch.no_grad()
def looked(part: Any, x: Tensor, seen: Sequence[bool]) -> Tensor:
    """Vaswani et al. 2017, Eq. 1, in loops: every head of every token over what it sees; (T, D)."""
    q, k, v = part.query(x), part.key(x), part.value(x)
    width, rows = q.size(1) // part.n_heads, []
    for i in range(len(x)):
        heads = []
        for h in range(part.n_heads):
            own = slice(h * width, (h + 1) * width)
            weights = [math.exp(float(q[i, own] @ k[j, own]) / math.sqrt(width)) * seen[j] for j in range(len(x))]
            mixed = torch.stack([weight * v[j, own] for j, weight in enumerate(weights)]).sum(dim=0)
            heads.append(mixed / sum(weights) if any(seen) else torch.zeros(width))
        rows.append(torch.cat(heads))
    return part.output(torch.stack(rows))


def test_an_aggregator_is_its_equations_token_by_token() -> None:
    """Zhang et al. 2019, section 3.3, and the norms of the authors' code; the last tells nothing of entities."""
    config = build().config
    linked, real = [True, False, True, False], [True, True, True, True]
    x, e = draw(4, 16), draw(4, 8, seed=2) * torch.tensor(linked)[:, None]
    for last in (False, True):
        torch.manual_seed(0)
        block: Any = stirred(Aggregator(config, 0, last=last), 0.2).eval()
        places, told = Places.span(0, 4, "cpu"), torch.tensor([linked])
        found, said = block(x[None], e[None], told, places, NO_POSITION, None)
        w = block.attention_residual.norm(x + looked(block.attention, x, real))
        other = block.entity_residual.norm(e + looked(block.entity_attention, e, linked))
        for i in range(4):
            h = block.feed_forward.expand(w[i])
            if linked[i]:
                h = h + block.entity_expand.weight @ other[i]
            h = torch.nn.functional.gelu(h)
            close(found[0, i], block.feed_forward_residual.norm(w[i] + block.feed_forward.contract(h)))
            if not last:
                own = block.fusion_residual.norm(other[i] + block.entity_contract(h))
                close(said[0, i], own if linked[i] else torch.zeros(8))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_where_no_entity_is_it_is_bert_with_the_same_weights(norm: str) -> None:
    """The text stream of each aggregator is a block of BERT: its parts bear the same names."""
    model = build(norm=norm)
    bert: Any = tiny_model("bert", vocab_size=V, max_length=20, layers=3, norm=norm).eval()
    taken, new = folder.start_from(bert, Loaded(model, None, {}), "ernie")  # type: ignore[arg-type]
    assert (len(taken), new) == (len([*bert.parameters()]), [])
    close(model.encode(IDS, entities=NONE), bert.encode(IDS), atol=1e-6)
    assert not torch.allclose(model.encode(IDS, entities=LINKED), bert.encode(IDS), atol=1e-3)
    plain = build(norm=norm, entities=[])
    assert {name for name, _ in plain.named_parameters()} == {name for name, _ in bert.named_parameters()}


def test_it_begins_with_all_weights_of_a_bert() -> None:
    model, bert = build(), tiny_model("bert", vocab_size=V, max_length=20, layers=3)
    taken, new = folder.start_from(model, Loaded(bert, None, {}), "bert")  # type: ignore[arg-type]
    assert {*taken} == {name for name, _ in bert.named_parameters()}
    assert all("entit" in name or "fusion" in name for name in new)


def test_an_entity_reaches_its_own_token_and_those_that_look_at_it() -> None:
    """With one aggregator, an entity moves its token alone; with two, all that see that token. Never another row."""
    for aggregators, reached in ((1, [3]), (2, [*range(T)])):
        model = build(aggregators=aggregators)
        moved = NONE.clone()
        moved[0, 3] = 2
        changed = (model.encode(IDS, entities=moved) - model.encode(IDS, entities=NONE)).abs().amax(dim=2) > 1e-6
        assert changed[0].nonzero()[:, 0].tolist() == reached
        assert not changed[1].any()


def test_entities_look_at_entities_alone() -> None:
    model = build()
    with recording(model, "entity_attention") as maps:
        model.encode(IDS, entities=LINKED)
    assert len(maps) == 2
    for weights in maps.values():
        assert not weights[(LINKED == 0)[:, None, None].expand_as(weights)].any()
        close(weights.sum(dim=3), torch.ones(2, 2, T))


def test_rows_are_read_alone_as_together_and_padding_is_no_entity() -> None:
    model, real = build(), IDS != PAD
    whole = model.encode(IDS, entities=LINKED)
    for row, length in enumerate((T, 4)):
        ids, linked = (each[row : row + 1, :length] for each in (IDS, LINKED))
        close(model.encode(ids, entities=linked)[0], whole[row, :length])
    everywhere = LINKED.masked_fill(~real, 3)
    close(model.encode(IDS.masked_fill(~real, 5), mask=real, entities=everywhere)[real], whole[real])


def test_every_parameter_gets_a_gradient_but_the_vectors_of_entities() -> None:
    model = build().train()
    outputs = model(IDS, entities=LINKED)
    loss = (outputs.logits * draw(*outputs.logits.shape)).sum()
    named = outputs.projection.entity(outputs.hidden)
    (loss + (named * draw(*named.shape)).sum()).backward()
    for name, parameter in model.named_parameters():
        if name == "entities.weight":
            assert parameter.grad is None
        else:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.any() or name.endswith("key.bias"), name


def test_recomputing_changes_no_gradient() -> None:
    gradients = []
    for again in (False, True):
        model = build().train()
        model.encoder.recompute = again
        (model.encode(IDS, entities=LINKED) * draw(2, T, 16)).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        close(gradients[1][name], gradient)


def test_the_native_form_is_left_to_models_without_entities() -> None:
    with_entities, without = build(), build(entities=[])
    assert open_reader(Loaded(with_entities, None, {})) is with_entities  # type: ignore[arg-type]
    reader = open_reader(Loaded(without, None, {}))  # type: ignore[arg-type]
    assert (reader is not without) == is_built()
    close(reader.encode(IDS)[IDS != PAD], without.encode(IDS)[IDS != PAD])


def test_half_of_the_blocks_are_aggregators_unless_others_are_asked_for() -> None:
    found = {layers: ErnieThuConfig(layers=layers).first_aggregator for layers in (1, 2, 3, 12)}
    assert found == {1: 0, 2: 1, 3: 1, 12: 6}
    assert sum(isinstance(block, Aggregator) for block in build().encoder.blocks) == 2


@refused({("aggregators", 4): "aggregators must be 0 to 3", ("entity_heads", 3): "d_entity=8 is not divisible by"},
         "wrong")  # fmt: skip
def test_sizes_that_cannot_be(wrong: tuple[str, int]) -> None:
    build(**{wrong[0]: wrong[1]})


# -- names in texts ----------------------------------------------------------------------------------------------------

TEXT = "the New York Times of Ann Lee says that Newark is in New York"
KINDS = [tokenizer(TEXT, "Rome", size=size, kind=kind) for kind, size in
         (("bpe", 330), ("byte_bpe", 330), ("wordpiece(lowercase=False)", 90), ("characters", 300))]  # fmt: skip


def found_in(text: str, words: Tokenizer, names: list[str] = NAMES) -> list[tuple[str, str]]:
    """Each name that is found, with the rest of the text from its first token on."""
    finder, ids = Names(names), words.encode(text)
    finder.know(words)
    framed = torch.tensor([[BOS, *ids, EOS, PAD, PAD]])
    row = finder.find(framed)[0].tolist()
    assert not any([row[0], *row[len(ids) + 1 :]])
    return [(names[number - 1], words.decode(ids[at:]).strip()) for at, number in enumerate(row[1:]) if number]


@pytest.mark.parametrize("words", KINDS, ids=lambda words: type(words.kind).__name__)
def test_the_longest_name_is_found_where_words_begin_and_end(words: Tokenizer) -> None:
    assert found_in("the New York Times of Ann Lee", words) == [
        ("New York Times", "New York Times of Ann Lee"), ("Ann Lee", "Ann Lee"),
    ]  # fmt: skip
    assert found_in("New York says that Ann Lee", words) == [
        ("New York", "New York says that Ann Lee"), ("Ann Lee", "Ann Lee"),
    ]  # fmt: skip
    if words.kind.has_words:
        assert not found_in("Newark is in New Yorks", words)


def test_names_are_found_between_borders_that_are_given() -> None:
    words = KINDS[2]
    finder = Names(NAMES)
    finder.know(words)
    ids = torch.tensor([words.encode("New York Times")])
    never, always = torch.zeros_like(ids, dtype=torch.bool), torch.ones_like(ids, dtype=torch.bool)
    assert not finder.find(ids, never, always).any()
    ends = torch.tensor([[words.decode([number]) == "York" for number in ids[0].tolist()]])
    assert finder.find(ids, always, ends)[0, 0] == (1 if ends.any() else 0)
    assert finder.find(ids)[0, 0] == 2


def test_a_model_finds_them_by_itself_once_it_knows_the_words(tmp_path: Any) -> None:
    words = KINDS[2]
    model = build(vocab_size=len(words), max_length=40)
    ids = torch.tensor([[BOS, *words.encode(TEXT), EOS]])
    nothing = model.encode(ids)
    close(nothing, model.encode(ids, entities=torch.zeros_like(ids)))
    model.know(words)
    told = model.names.find(ids)
    assert [number for number in told[0].tolist() if number] == [2, 4, 1]
    close(model.encode(ids), model.encode(ids, entities=told))
    assert not torch.allclose(model.encode(ids), nothing, atol=1e-3)
    folder.save(tmp_path, model, words, {"task": "fill"})
    loaded = folder.load(tmp_path).model
    assert isinstance(loaded, ErnieThu)
    assert torch.equal(loaded.encode(ids), model.encode(ids))
