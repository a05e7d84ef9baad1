"""Answers out of a text: windows, the best span by brute force, none, and SQuAD's file in and out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from corpora import CORPORA
from kit import draw, real, tokenizer
from qkv.errors import InputError
from qkv.evaluation import exact_match, overlap_f1
from qkv.models import GPT2, Bert, Roberta
from qkv.opening import score_files
from qkv.tasks.answer import AnswerConfig, FindAnswers, SpanWindow
from qkv.text import read_spans
from qkv.text.examples import SpanQuestion

WORDS = tokenizer("Mia has a cup and Ben has a pen", size=300)
FACTS: Any = {"max_length": 24, "stride": 5, "max_question": 6, "max_answer": 4, "has_null": False}
TEXT = "Mia has a cup. Ben has a pen, and Zoé has two hats 東京."


def task(model: type[Any] = Bert, **data: Any) -> FindAnswers:
    return FindAnswers(AnswerConfig(**data), model)


def windows(text: str, question: str, answers: Any = (), model: type[Any] = Bert, **facts: Any) -> list[SpanWindow]:
    return task(model).parts(SpanQuestion(text, question, [*answers], "1", "here"), WORDS, {**FACTS, **facts})


@pytest.mark.parametrize("model", [Bert, Roberta, GPT2])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_windows_hold_the_whole_text(model: type[Any], data: st.DataObject) -> None:
    """Each token of the text is in some window, and is the own one of just one; the frame is the backbone's."""
    words = data.draw(st.lists(st.sampled_from(TEXT.split()), min_size=1, max_size=30))
    stride, most = data.draw(st.integers(1, 30)), data.draw(st.integers(14, 40))
    text, asked = " ".join(words), WORDS.encode("who has it")[:6]
    ids, spans = WORDS.encode_spans(text)
    found = windows(text, "who has it", model=model, stride=stride, max_length=most)
    seen, own = set[int](), list[tuple[int, int]]()
    for window in found:
        assert len(window.ids) <= most
        part = window.ids[window.before : window.before + len(window.spans)]
        assert window.ids == model.frame.join(WORDS, [asked, part], 999)[0]
        first = next(
            i for i in range(len(ids)) if spans[i : i + len(part)] == window.spans and ids[i : i + len(part)] == part
        )
        seen |= set(range(first, first + len(part)))
        own += [span for span, is_own in zip(window.spans, window.is_own, strict=True) if is_own]
    assert seen == set(range(len(ids)))
    assert sorted(own) == sorted(spans)


def test_a_window_moves_on_by_its_stride() -> None:
    """By hand: room for 10 tokens, 5 further on each time, until the end is reached."""
    question = "who"
    room = 24 - 3 - len(WORDS.encode(question))
    ids, spans = WORDS.encode_spans(TEXT)
    found = windows(TEXT, question)
    starts = [0]
    while starts[-1] + room < len(ids):
        starts.append(starts[-1] + 5)
    assert [window.spans for window in found] == [spans[start : start + room] for start in starts]
    assert len(found) > 2


@pytest.mark.parametrize("answer", ["Mia", "a pen", "Zoé", "two hats", "東京"])
def test_the_places_of_an_answer_are_those_of_its_words(answer: str) -> None:
    """In each window that holds it whole; in the others it is nowhere, which is the first token."""
    at, held = TEXT.index(answer), 0

    def inside(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return [(start, end) for start, end in spans if start < at + len(answer) and end > at]

    whole = inside(WORDS.encode_spans(TEXT)[1])  # a letter may be several tokens
    for window in windows(TEXT, "who has it", [(at, answer)]):
        first, last = window.answer
        assert (first > 0) == (inside(window.spans) == whole)
        if first:
            held += 1
            spans = window.spans[first - window.before : last - window.before + 1]
            assert spans[0][0] <= at < spans[0][1]
            assert spans[-1][0] < at + len(answer) <= spans[-1][1]
    assert held


def test_what_does_not_fit_is_said() -> None:
    reader = task()
    long = SpanQuestion(
        "Mia has a cup and Ben has a pen", "who " * 9, [(0, "Mia has a cup and Ben has a pen")], "1", "x"
    )
    reader.parts(long, WORDS, {**FACTS, "max_length": 14})
    assert reader.remarks() == [
        "1 questions had an answer that is longer than a window: asked as if it had none",
        "1 questions had more tokens than data.max_question: cut",
    ]
    with pytest.raises(InputError, match="windows of 8 tokens have no room for a text beside a question of 6"):
        windows(TEXT, "who " * 9, max_length=8)


def test_windows_are_in_proportion_to_the_context() -> None:
    """384, 128 and 64 as in the authors' code; and in proportion for a shorter context."""
    bounds = task().bounds(Bert.config_class())
    assert bounds == {"max_length": 384, "stride": 128, "max_question": 64, "max_answer": 30}
    short = task().bounds(Bert.config_class(max_length=96))
    assert (short["max_length"], short["stride"], short["max_question"]) == (96, 32, 16)
    with pytest.raises(InputError, match=r"data.max_length is 1000, but the model's context is 512"):
        task(max_length=1000).bounds(Bert.config_class())


# -- the best answer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_many_windows_give_the_answer_of_one_that_holds_the_whole_text(seed: int) -> None:
    """If each token has the same scores wherever a window begins."""
    example, reader = SpanQuestion(TEXT, "who has it", [], "1", ""), task()
    [whole], several = windows(TEXT, "who has it", max_length=99), windows(TEXT, "who has it")
    scores, before = draw(2, len(whole.spans), seed=seed) * 3, torch.full((2, whole.before), -99.0)
    found = []
    for number, window in enumerate(several):
        own = scores[:, 5 * number :][:, : len(window.spans)]
        behind = torch.full((2, len(window.ids) - window.before - len(window.spans)), -99.0)
        found.append(reader.best(window, torch.cat((before, own, behind), dim=1), 4, has_null=False))
    one = reader.best(whole, torch.cat((before, scores, torch.full((2, 1), -99.0)), dim=1), 4, has_null=False)
    assert len(several) > 2
    parts, long = reader.joined(example, found), reader.joined(example, [one])
    assert [parts[key] for key in ("answer", "start", "end")] == [long[key] for key in ("answer", "start", "end")]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("has_null", [False, True])
def test_the_best_answer_is_that_of_a_loop(seed: int, has_null: bool) -> None:
    """Over all windows, all starts that are a window's own, all ends not before them and not too far."""
    example, reader = SpanQuestion(TEXT, "who has it", [], "1", ""), task()
    found = windows(TEXT, "who has it")
    rows = [draw(2, len(window.ids), seed=seed * 10 + i) * 3 for i, window in enumerate(found)]
    told = [reader.best(window, logits, 4, has_null) for window, logits in zip(found, rows, strict=True)]
    answer = reader.joined(example, told)
    best = (-1e9, 0, 0)
    for window, (start, end) in zip(found, rows, strict=True):
        for i in range(len(window.spans)):
            for j in range(i, min(len(window.spans), i + 4)):
                score = float(start[window.before + i] + end[window.before + j])
                if window.is_own[i] and score > best[0]:
                    best = (score, window.spans[i][0], window.spans[j][1])
    none = min(float(logits[0, 0] + logits[1, 0]) for logits in rows)
    if has_null and none > best[0]:
        best = (none, 0, 0)
    assert (answer["start"], answer["end"]) == best[1:]
    assert answer["answer"] == TEXT[answer["start"] : answer["end"]]
    shares = [answer["probability"], *(one["probability"] for one in answer["alternatives"])]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-6
    assert len(shares) == 5


def test_no_answer_is_given_where_none_is_best() -> None:
    reader, example = task(), SpanQuestion(TEXT, "who", [], "1", "")
    told: list[Any] = [{"spans": [(2.0, 0, 3)], "none": [5.0]}, {"spans": [(1.0, 4, 7)], "none": [3.0]}]
    answer = reader.joined(example, told)
    assert (answer["answer"], answer["start"], answer["end"]) == ("", 0, 0)
    shares = torch.tensor([3.0, 2.0, 1.0]).softmax(0).tolist()
    assert answer["probability"] == pytest.approx(shares[0])
    told[1]["none"] = [1.5]  # the least sure window decides
    assert reader.joined(example, told)["answer"] == "Mia"


# -- whole runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, tiny = tmp_path_factory.mktemp("reader"), CORPORA["answer"]
    qkv.train(tiny.write(place, 40), task="answer", out=place / "model", **tiny.settings(steps=10))
    return place / "model"


def test_figures_are_those_of_a_loop_over_predict(reader: Path, tmp_path: Path) -> None:
    file = CORPORA["answer"].write(tmp_path, 12, seed=4)
    examples, opened = list(read_spans([file])), qkv.load(reader)
    found = [opened.predict({"question": one.question, "context": one.context}) for one in examples]
    gold = [[text for _, text in one.answers] for one in examples]
    measured = score_files(reader, file)
    exact = [exact_match(one["answer"], right) for one, right in zip(found, gold, strict=True)]
    f1 = [overlap_f1(one["answer"], right) for one, right in zip(found, gold, strict=True)]
    assert measured["exact_match"] == pytest.approx(sum(exact) / 12)
    assert measured["f1"] == pytest.approx(sum(f1) / 12)
    assert set(json.loads((reader / "results.json").read_text())["baselines"]) == {
        "first sentence", "sentence most like the question"
    }  # fmt: skip


def test_a_question_is_asked_in_many_ways(reader: Path, command: Callable[..., Any], tmp_path: Path) -> None:
    text, question, opened = "Mia has a cup. Ben has a pen.", "who has the pen", qkv.load(reader)
    answer = opened.predict((question, text))
    assert answer["answer"] == text[answer["start"] : answer["end"]]
    named = {"question": question, "context": text}
    for asked in (named, json.dumps(named), f"{question}\t{text}"):
        assert opened.predict(asked) == answer
    (tmp_path / "article.txt").write_text(text)
    for typed in ((question, "--context", "article.txt"), (question, text), (json.dumps(named),)):
        said = command("predict", *typed, "--model", reader)
        assert said.lines == ["\t".join([answer["answer"], str(answer["start"]), str(answer["end"]),
                                         f"{answer['probability']:.3f}"])], said.err  # fmt: skip
    two = command("predict", question, "who", "--context", "article.txt", "--model", reader, "--json")
    assert [json.loads(line) for line in two.lines] == opened.predict([(question, text), ("who", text)])


def test_squads_file_gives_squads_answers(reader: Path, command: Callable[..., Any], tmp_path: Path) -> None:
    file = CORPORA["answer"].write(tmp_path, 5, seed=4)
    said = json.loads(command("predict", file, "--model", reader).out)
    opened = qkv.load(reader)
    assert said == {one.identity: opened.predict((one.question, one.context))["answer"] for one in read_spans([file])}


def test_a_context_is_for_questions(command: Callable[..., Any], tmp_path: Path) -> None:
    tiny = CORPORA["pair"]
    qkv.train(tiny.write(tmp_path), task="pair", out=tmp_path / "model", **tiny.settings(steps=1))
    (tmp_path / "a.txt").write_text("a text")
    said = command("predict", "who", "--context", "a.txt")
    assert (said.code, "--context is for questions, and the model is of the task 'pair'" in said.err) == (1, True)


def test_questions_without_an_answer_are_learned(tmp_path: Path) -> None:
    """SQuAD 2.0: half of them have none; a model then may say so, and is right."""
    examples = []
    for number in range(60):
        text = f"{number} Mia has a cup."
        answers = [(text.index("Mia"), "Mia")] if number % 2 else []
        examples.append((text, "who has a cup" if answers else "why is a pen", answers, str(number)))
    tiny = CORPORA["answer"]
    how = {**tiny.settings(steps=60), "model": {**tiny.model, "dropout": 0.0}}
    qkv.train(spans=examples, out=tmp_path / "m", **how)
    opened = qkv.load(tmp_path / "m")
    assert opened.about["has_null"]
    assert opened.predict(("why is a pen", "7 Mia has a cup."))["answer"] == ""
    assert opened.predict(("who has a cup", "7 Mia has a cup."))["answer"] == "Mia"


def test_squad_is_read_as_it_is() -> None:
    """The counts are those of the set's own description; every answer is found by its tokens in some window."""
    examples = list(task().read([real("squad-v1.1-dev", "dev-v1.1.json.gz")]))
    assert len(examples) == 10_570
    reader, facts = task(), {**FACTS, **task().bounds(Bert.config_class())}
    for example in examples[::200]:
        windows = reader.parts(example, WORDS, facts)
        places = [window.answer for window in windows if window.answer[0]]
        assert places
        text = example.answers[0][1]
        for window in windows:
            first, last = (place - window.before for place in window.answer)
            if window.answer[0]:
                said = example.context[window.spans[first][0] : window.spans[last][1]]
                assert text in said
                assert len(said) <= len(text) + 8  # a sub-word may hold more than the answer
