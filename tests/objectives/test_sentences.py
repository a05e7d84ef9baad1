"""Passages and what is asked about their sentences and tokens: labels against the documents that they were made of."""

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
import torch

from kit import batch, refused, tiny_model
from qkv.data import Batch, Place, generator
from qkv.models import Headed
from qkv.objectives import Asked, objective
from qkv.objectives.passages import CAPITAL, IN_ENTITY, IN_PHRASE, RECURS, Passages
from qkv.objectives.sentences import UNASKED, number_of, order_of
from qkv.tasks.passages import packed, passages
from qkv.text.examples import Text
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

ROOM = 60


def document(number: int, sentences: int, row: int = 0) -> list[list[int]]:
    """A passage whose tokens say where they stand: 1000 for each document, 10 for each sentence, and a place in it."""
    lengths = [3 + (number + s) % 4 for s in range(sentences)]
    ids = [1000 * (number + 1) + 10 * (s + 10 * row) + i for s, length in enumerate(lengths) for i in range(length)]
    return [ids, lengths, [0] * len(ids), [0, number, ROOM]]


MANY = batch(*(document(number, 1 + number % 6) for number in range(40)))


def ask(spec: str, some: Batch = MANY, n: int = 0) -> Asked:
    return objective(spec).prepare(some, generator(1, Place(0, n)))


def texts(asked: Asked) -> list[list[list[tuple[int, int]]]]:
    """For each row its texts, each as (document, sentence) of its tokens; <s> and </s> stand where they must."""
    found = []
    for ids in asked.inputs["ids"].tolist():
        assert ids[0] == BOS
        row = [number for number in ids if number != PAD]
        assert row[-1] == EOS
        parts, part = [], list[tuple[int, int]]()
        for number in row[1:]:
            if number == EOS:
                parts.append(part)
                part = []
            else:
                part.append((number // 1000 - 1, number % 1000 // 10))
        found.append(parts)
    return found


def ends(part: list[tuple[int, int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    return part[0], part[-1]


# -- next sentence -----------------------------------------------------------------------------------------------------


def test_the_second_text_follows_the_first_or_is_of_another_document() -> None:
    labels = Counter[int]()
    for n in range(60):
        asked = ask("next_sentence", n=n)
        segments = asked.inputs["segments"]
        for row, (parts, label) in enumerate(zip(texts(asked), asked.labels.tolist(), strict=True)):
            (first, second), of = parts, MANY.columns[3][row, 1]
            sentences = int(MANY.lengths[row, 1])
            assert ends(first)[0] == (of, 0), "A begins the passage"
            if label == 0:
                last = ends(first)[1]
                assert ends(second)[0] == (of, last[1] + 1), "B goes on with it"
            else:
                assert {document for document, _ in second} == {second[0][0]}
                assert second[0][0] != of
            if sentences == 1:
                assert label == 1
            else:
                labels[label] += 1
            a, b = len(first), len(second)
            assert a + b <= ROOM
            assert segments[row].tolist()[: a + b + 3] == [0] * (a + 2) + [1] * (b + 1)
            assert not segments[row, a + b + 3 :].any()
    assert labels[1] / labels.total() == pytest.approx(0.5, abs=0.03)


def test_shares_of_0_and_1_have_one_answer() -> None:
    several = batch(*(document(number, 4) for number in range(10)))
    assert ask("next_sentence(random=0.0)", several).labels.tolist() == [0] * 10
    assert ask("next_sentence(random=1.0)", several).labels.tolist() == [1] * 10
    whole = texts(ask("next_sentence(random=0.0, short=0.0)", several))
    assert [sum(map(len, parts)) for parts in whole] == [int(n) for n in several.lengths[:, 0]]
    shorter = [number for n in range(20) for number in own_tokens(ask("next_sentence(short=1.0)", several, n))]
    assert min(shorter) < 6
    assert max(shorter) == 18
    assert sum(shorter) / len(shorter) < 15


def own_tokens(asked: Asked) -> list[int]:
    """Of pairs that follow each other: the tokens of both."""
    pairs = zip(texts(asked), asked.labels.tolist(), strict=True)
    return [len(parts[0]) + (len(parts[1]) if label == 0 else 0) for parts, label in pairs]


def test_a_false_second_text_cannot_be_told_by_its_length() -> None:
    """Of passages alike: the mean lengths of true and false ones differ by less than a sentence."""
    several = batch(*(document(number, 8) for number in range(30)))
    sizes: dict[int, list[int]] = {0: [], 1: []}
    for n in range(60):
        asked = ask("next_sentence(short=0.0)", several, n)
        for (_, second), label in zip(texts(asked), asked.labels.tolist(), strict=True):
            sizes[label].append(len(second))
    means = [sum(found) / len(found) for found in sizes.values()]
    assert abs(means[0] - means[1]) < 3


def test_one_document_alone_gives_no_false_pairs() -> None:
    alone = batch(*(document(3, 5, row) for row in range(4)))
    assert ask("next_sentence(random=1.0)", alone).labels.tolist() == [0] * 4
    single = batch(document(1, 1), document(1, 1, 2))
    asked = ask("next_sentence", single)
    assert (asked.labels.tolist(), asked.count) == ([UNASKED] * 2, 0)
    assert asked.inputs.keys() == {"ids"}


# -- distance ----------------------------------------------------------------------------------------------------------


def test_distances_are_those_of_the_document() -> None:
    labels = Counter[int]()
    for n in range(80):
        asked = ask("sentence_distance", n=n)
        for row, (parts, label) in enumerate(zip(texts(asked), asked.labels.tolist(), strict=True)):
            sentences = int(MANY.lengths[row, 1])
            if sentences == 1:
                assert (len(parts), label) == (1, UNASKED)
                continue
            (last, (of, begin)) = ends(parts[0])[1], ends(parts[1])[0]
            if last[0] != of:
                assert label == 2
            else:
                assert label == (0 if begin == last[1] + 1 else 1)
            labels[label] += sentences > 2
    assert [labels[label] / labels.total() for label in range(3)] == pytest.approx([1 / 3] * 3, abs=0.03)


# -- order -------------------------------------------------------------------------------------------------------------


def test_three_parts_have_nine_orders_and_each_class_is_one() -> None:
    every = [order for parts in (1, 2, 3) for order in permutations(range(parts))]
    assert [number_of(order) for order in every] == list(range(9))
    assert [order_of(number) for number in range(9)] == every
    assert [order_of(number_of(order)) for order in permutations(range(6))] == [*permutations(range(6))]
    assert objective("sentence_order").heads == {
        "sentence_order": "classes(n=9, pool='first', dense=True, dropout=0.0)"
    }


def test_the_class_puts_the_parts_back_in_order() -> None:
    seen = Counter[int]()
    for n in range(60):
        asked = ask("sentence_order", n=n)
        for row, ((shuffled,), label) in enumerate(zip(texts(asked), asked.labels.tolist(), strict=True)):
            sentences = list(dict.fromkeys(number for _, number in shuffled))
            assert sorted(sentences) == list(range(int(MANY.lengths[row, 1]))), "nothing is lost"
            if len(sentences) == 1:
                assert label == UNASKED
                continue
            order = order_of(label)
            assert cut_and_shuffled(sentences, order), (sentences, order)
            if len(sentences) > 3:
                seen[label] += 1
    assert set(seen) == set(range(9))
    assert seen[0] / seen.total() == pytest.approx(1 / 3, abs=0.04)


def cut_and_shuffled(sentences: list[int], order: tuple[int, ...]) -> bool:
    """Whether the sentences can be cut at len(order) - 1 places so that `order` is what became of 0, 1, 2 .."""
    n, parts = len(sentences), len(order)
    for cuts in ([], [1], *([i, j] for i in range(n) for j in range(i + 1, n)), *([i] for i in range(n))):
        borders = [0, *cuts, n]
        if len(borders) != parts + 1 or len(set(borders)) != len(borders):
            continue
        pieces = [list(range(borders[part], borders[part + 1])) for part in order]
        if sentences == [number for piece in pieces for number in piece]:
            return True
    return False


# -- from text to passages ---------------------------------------------------------------------------------------------

TEXT = "Anna saw a Dog. It ran to Paris and Rome! Did Bob see it? No, he slept. Then Anna went home. It was late."
SMALL = Tokenizer.train([TEXT] * 3, kind="wordpiece", vocab_size=90, specials=("<mask>",))


def rows_of(text: str, room: int = 20, document: int = 7) -> list[list[list[int]]]:
    return [*passages(Text(text, "here", True), document, SMALL, room)]


def test_passages_are_the_document_in_whole_sentences() -> None:
    rows = rows_of(TEXT)
    assert len(rows) > 1
    assert [n for ids, *_ in rows for n in ids] == SMALL.encode(TEXT)
    parts = [SMALL.decode(ids[sum(sizes[:i]) :][:n]) for ids, sizes, *_ in rows for i, n in enumerate(sizes)]
    assert parts == ["anna saw a dog.", "it ran to paris and rome!", "did bob see it?", "no, he slept.",
                     "then anna went home.", "it was late."]  # fmt: skip
    assert all(len(ids) <= 20 and len(marks) == len(ids) and last == [0, 7, 20] for ids, _, marks, last in rows)
    assert rows_of(TEXT, document=100_000)[0][3] == [3, 100_000 - 3 * 2**15, 20]


def test_a_sentence_that_is_too_long_is_cut_and_not_lost() -> None:
    rows = rows_of(TEXT, room=4)
    assert [n for ids, *_ in rows for n in ids] == SMALL.encode(TEXT)
    assert max(len(ids) for ids, *_ in rows) <= 4
    assert [*packed(torch.tensor([3, 9, 1, 0, 4]).numpy(), 4)] == [[3], [4], [4], [1, 1], [4]]


def test_capitals_bring_the_text_back_from_small_letters() -> None:
    words = []
    for ids, _, marks, _ in rows_of(TEXT):
        for token, mark in zip(SMALL.pieces(ids), marks, strict=True):
            written = token.removeprefix("##")
            written = written.capitalize() if mark & CAPITAL else written
            words.append(("" if token.startswith("##") else " ") + written)
    assert "".join("".join(words).split()) == "".join(TEXT.split())


def test_all_tokens_of_a_unit_but_the_first_go_on_with_it() -> None:
    """ "Dog" and "Paris and Rome", as the text writes them."""
    spans = [[TEXT.index(unit), TEXT.index(unit) + len(unit)] for unit in ("Dog", "Paris and Rome")]
    inside = {IN_PHRASE: list[str](), IN_ENTITY: list[str]()}
    outside = list[str]()
    for ids, _, marks, _ in passages(Text(TEXT, "here", True, spans, spans[1:]), 1, SMALL, 40):
        for piece, mark in zip(SMALL.pieces(ids), marks, strict=True):
            for kind, found in inside.items():
                found += [piece] if mark & kind else []
            outside += [piece] if not mark & IN_PHRASE else []
    dog, rome = (SMALL.pieces(SMALL.encode(unit)) for unit in ("Dog", "Paris and Rome"))
    assert inside == {IN_PHRASE: dog[1:] + rome[1:], IN_ENTITY: rome[1:]}
    assert len(outside) == len(SMALL.encode(TEXT)) - len(dog) - len(rome) + 2


def test_tokens_that_stand_in_other_passages_are_marked() -> None:
    rows = rows_of(TEXT)
    for i, (ids, _, marks, _) in enumerate(rows):
        others = {n for j, row in enumerate(rows) if j != i for n in row[0]}
        assert [bool(mark & RECURS) for mark in marks] == [n in others for n in ids]


# -- tokens ------------------------------------------------------------------------------------------------------------


def small(*given: str) -> Batch:
    return batch(*(row for number, text in enumerate(given) for row in rows_of(text, document=number)))


def knowing(spec: str) -> Any:
    return objective(spec).knowing(SMALL)


@pytest.mark.parametrize(("spec", "mark"), [("capitalisation", CAPITAL), ("token_document", RECURS)])
def test_marks_are_asked_for_wherever_their_tokens_go(spec: str, mark: int) -> None:
    """Alone, with words hidden, and where sentences are moved; special tokens are not asked for."""
    some = small(TEXT, "Bob ran home. Anna saw Rome. It was a Dog. Paris slept.")
    flat = {(row, i): int(m) & mark for row, marks in enumerate(some.columns[2].tolist()) for i, m in enumerate(marks)}
    asked = knowing(spec).prepare(some, generator(1, Place()))
    for row, labels in enumerate(asked.labels.tolist()):
        n = int(some.lengths[row, 0])
        assert labels == [-1, *(int(flat[row, i] > 0) for i in range(n)), *[-1] * (len(labels) - n - 1)]
    assert asked.count == int(some.lengths[:, 0].sum())
    moved = knowing(f"{spec} + next_sentence + masked_lm").prepare(some, generator(1, Place()))
    labels, hidden = moved.parts[0].labels, moved.inputs["ids"]
    plain_ids = moved.parts[1].inputs["ids"]
    assert not torch.equal(hidden, plain_ids)
    known = {number: {flat[row, i] > 0 for row, ids in enumerate(some.columns[0].tolist()) for i, n in enumerate(ids)
                      if n == number and i < some.lengths[row, 0]} for number in range(4, len(SMALL))}  # fmt: skip
    for number, label in zip(plain_ids.flatten().tolist(), labels.flatten().tolist(), strict=True):
        assert (label == -1) if number in SMALL.specials.values() else (bool(label) in known[number])
    assert moved.inputs.keys() == {"ids", "segments"}


def test_the_loss_of_tokens_and_texts_is_that_of_a_loop() -> None:
    some, asks = small(TEXT, TEXT.upper()), knowing("capitalisation + next_sentence")
    backbone = tiny_model("bert", vocab_size=len(SMALL))
    model = Headed(backbone, asks.heads).eval()  # type: ignore[arg-type]
    asked = asks.prepare(some, generator(1, Place()))
    outputs = model(**asked.inputs)
    loss = asks.loss(outputs, asked)
    states = backbone.encode(**asked.inputs)  # type: ignore[operator]
    tags, of_texts = model.heads["capitalisation"], model.heads["next_sentence"]
    expected, right = [], 0
    for row, labels in enumerate(asked.parts[0].labels.tolist()):
        for at, label in enumerate(labels):
            if label >= 0:
                logits = tags.output(states[row, at])  # type: ignore[operator]
                expected.append(-logits.log_softmax(0)[label])
                right += int(logits.argmax() == label)
    pairs = [
        -of_texts.output(of_texts.dense(states[row, 0])).log_softmax(0)[label]  # type: ignore[operator]
        for row, label in enumerate(asked.parts[1].labels.tolist())
        if label >= 0
    ]
    means = torch.stack(expected).mean() + torch.stack(pairs).mean()
    assert (loss.total / asked.count).item() == pytest.approx(means.item(), rel=1e-5)
    assert loss.parts["accuracy"] == right


# -- dialogues ---------------------------------------------------------------------------------------------------------


def test_the_roles_of_three_turns_are_told_by_segments() -> None:
    """Sun et al. 2019 (ERNIE 1.0), section 3.3: question, response, question; roles are told as segments are."""
    some = batch(document(0, 3), document(1, 3))
    rows = Passages(some, "dialogue")
    turns = [[rows.span(row, turn, turn + 1) for turn in range(3)] for row in range(2)]
    given, _ = rows.arranged(turns, roles=[0, 1, 0])
    for ids, segments in zip(given["ids"].tolist(), given["segments"].tolist(), strict=True):
        ended = [i for i, number in enumerate(ids) if number == EOS]
        expected = [0] * (ended[0] + 1) + [1] * (ended[1] - ended[0]) + [0] * (len(ids) - ended[1] - 1)
        assert segments == expected
    backwards, _ = rows.arranged(turns, roles=[1, 0, 1])
    real = given["ids"] != PAD
    assert torch.equal(backwards["segments"][real], 1 - given["segments"][real])
    model = tiny_model("bert", vocab_size=3000).eval()
    assert not torch.equal(model(**given).hidden, model(**backwards).hidden)


@refused(
    {
        "next_sentence": "next_sentence asks about the sentences of documents, and these rows are not made of them",
        "sentence_order": "sentence_order asks about the sentences",
        "capitalisation": "capitalisation asks about the sentences",
        "next_sentence(random=1.5)": "random=1.5 and short=0.1 are no shares",
        "sentence_order(m=0)": "m must be 1 to 6 parts, not 0",
        "sentence_order(m=7)": "m must be 1 to 6",
    },
    "spec",
    plain=True,
)
def test_what_cannot_be_asked_is_refused(spec: str) -> None:
    knowing(spec).prepare(batch([[5, 6, 7]]), generator(1, Place()))
