"""Summaries: by one stack or by two; limits hold, what is too long is said, and the baselines are what they are."""

import json
from pathlib import Path
from typing import Any

import docx
import pytest

import qkv
from corpora import CORPORA
from kit import Result, refused, run_command, write
from qkv.evaluation import in_words, rouge
from qkv.evaluation.rouge import Rouge
from qkv.opening import score_files
from qkv.tasks.summarise import together, without_a_model
from qkv.text import Summarised
from qkv.text.normalise import normalise
from qkv.text.tokenizer import EOS

TINY = CORPORA["summarise"]
LOUD = {**TINY.settings(), "quiet": False, "data": {**TINY.data, "max_length": 14}}
LONG = "Report 7 of 1. It is about a bird. " + "It rained. " * 9


def train(place: Path, **more: Any) -> Path:
    settings = TINY.settings(steps=30)
    qkv.train(TINY.write(place), task="summarise", out=place / "tldr", **{**settings, **more})
    return place / "tldr"


@pytest.fixture(scope="module")
def tldr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def two_stacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"d_model": 16, "d_ff": 16, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return train(tmp_path_factory.mktemp("transformer"), architecture="transformer", model=sizes)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("model", ["tldr", "two_stacks"])
def test_limits_hold_and_no_three_tokens_come_twice(
    model: str, beam: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the tokens that the search has written, the end apart: their text may be cut into others."""
    summariser, written = qkv.load(request.getfixturevalue(model)), list[list[int]]()
    search = summariser.search

    def watched(*how: Any) -> Any:
        found = search(*how)
        written[:] = [one.hypotheses[0].tokens for one in found]
        return found

    monkeypatch.setattr(summariser, "search", watched)
    for least, most in ((0, 3), (5, 5), (7, 9), (12, 16)):
        found = summariser.summarise(TINY.questions, min_tokens=least, max_tokens=most, beam=beam)
        assert [one.text for one in found] == [normalise(summariser.tokenizer.decode(tokens)) for tokens in written]
        for tokens in written:
            assert EOS not in tokens
            assert least <= len(tokens) <= most
            runs = [*zip(tokens, tokens[1:], tokens[2:], strict=False)]
            assert len(runs) == len({*runs})
    again = summariser.summarise(TINY.questions, min_tokens=16, max_tokens=16, beam=beam, no_repeat=0)
    assert len(again) == len(written)
    assert any(len({*zip(t, t[1:], t[2:], strict=False)}) < 14 for t in written)  # they do come twice if they may


def test_what_is_too_long_is_said(tldr: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = qkv.load(tldr).summarise(LONG)
    assert found.read < found.sentences == 10
    assert "of its 10 sentences were read" in found.remarks()[0]
    short = qkv.load(tldr).summarise("A dog.")
    assert (short.read, short.sentences, short.cut) == (1, 1, False)
    qkv.train(TINY.write(tmp_path), task="summarise", out=tmp_path / "said", **LOUD)
    told = capsys.readouterr().err
    assert "documents had more tokens than the model reads: the sentences nearest to the first by tf-idf" in told
    assert "first sentence" in told
    assert "best sentence, chosen by its summary" in told


def test_the_score_stands_beside_the_first_and_the_best_sentence(tldr: Path, tmp_path: Path) -> None:
    records = [
        {"document": ["A cat sat here.", "It was a red cat."], "summary": ["a red cat", "one cat sat"]},
        {"document": ["It rained.", "Dogs ran."], "summary": "dogs ran home"},
    ]
    path = write(tmp_path / "test.jsonl", "".join(json.dumps(one) + "\n" for one in records))
    found, references = score_files(tldr, path), [["a red cat", "one cat sat"], ["dogs ran home"]]
    lead, best = ["A cat sat here.", "It rained."], ["It was a red cat.", "Dogs ran."]
    for name in ("rouge_1", "rouge_2", "rouge_l"):
        assert found[f"lead_{name}"] == pytest.approx(getattr(rouge(lead, references), name))
        assert found[f"oracle_{name}"] == pytest.approx(getattr(rouge(best, references), name))
    # "a cat sat" has two words of three of each summary in their order, and "cat sat" of the second; the other nothing
    assert [found[f"cut_{name}"] for name in ("rouge_1", "rouge_2", "rouge_l")] == pytest.approx([100 / 3, 25, 100 / 3])
    assert "cut first sentence ROUGE-2 25.00, cut first sentence ROUGE-L 33.33" in in_words(found)
    texts = [one.text for one in qkv.load(tldr).summarise([" ".join(one["document"]) for one in records])]
    assert found["rouge_1"] == pytest.approx(rouge(texts, references).rouge_1)
    several = [Summarised("a", "b", ""), Summarised("a", "c", "")]
    assert together(several) == {"a": ["b", "c"]}
    assert without_a_model({"": ["b"]})["lead"].rouge_1 == 0


def test_what_needs_no_model_by_hand() -> None:
    """red cats eat fish, beside cats eat: 2 of 4 words and 2, a pair of 3 and 1; cut, red cats: a word of 2 and 2; the
    best, old cats eat: 2 of 3 and 2, a pair of 2 and 1. Dogs run, beside dogs run home, is short enough."""
    found = without_a_model({"Red cats eat fish. Old cats eat.": ["cats eat"], "Dogs run.": ["dogs run home"]})
    dogs = Rouge(4 / 5, 2 / 3, 4 / 5)
    three = {"lead": (4 / 6, 2 / 4, 4 / 6), "cut": (2 / 4, 0, 2 / 4), "oracle": (4 / 5, 2 / 3, 4 / 5)}
    for name, cats in three.items():
        assert found[name] == pytest.approx(tuple(50 * (a + b) for a, b in zip(cats, dogs, strict=True)))
    several = without_a_model({"Red cats eat fish.": ["cats eat", "red cats play ball"]})
    assert several["cut"] == pytest.approx((50, 100 / 3, 50))  # cut to two words, and to four: the best of both
    assert several["lead"] == pytest.approx((400 / 6, 50, 400 / 6))


def run(monkeypatch: pytest.MonkeyPatch, *words: object, **how: Any) -> Result:
    return run_command(monkeypatch, "summarise", *words, **how)


def test_the_command_reads_files_of_formats(tldr: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words in each format give the same summary."""
    text = ["Report 3.", "It is about a cat."]
    files = [
        write(tmp_path / "paper.txt", "\n".join(text)),
        write(tmp_path / "paper.md", "# Report 3.\n\nIt is about a **cat**.\n"),
        write(tmp_path / "paper.html", "<p>Report 3.</p><p>It is about a <i>cat</i>.</p>"),
    ]
    document = docx.Document()
    for one in text:
        document.add_paragraph(one)
    document.save(str(tmp_path / "paper.docx"))
    expected = qkv.load(tldr).summarise(" ".join(text), max_tokens=9).text
    said = run(monkeypatch, *files, tmp_path / "paper.docx", "--model", tldr, "--max-tokens", "9")
    assert said.out.splitlines() == [expected] * 4
    piped = run(monkeypatch, "--model", tldr, "--max-tokens", "9", "--json", stdin="\n".join(text))
    assert json.loads(piped.out)["text"] == expected


def test_leads_are_written_out_of_articles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of WikiText's leads on some articles, three steps of it, and a summary."""
    animals = ["cat", "dog", "bird", "fish", "horse", "mouse"]
    articles = [
        f" = The {one} = \n\n The {one} is small . It sleeps .\n\n = = Food = = \n\n The {one} eats {two} .\n\n"
        for one in animals for two in ("grass", "bread")
    ]  # fmt: skip
    train, valid = (write(tmp_path / f"{name}.txt", text) for name, text in
                    (("train", "".join(articles[:10])), ("valid", "".join(articles[10:]))))  # fmt: skip
    small = ["--steps", "3", "--data.vocab-size", "300", "--model.d-model", "16", "--training.validate-every", "3"]
    command = ["train", train, "--valid", valid, "--recipe", "wikitext2-leads", *small, "--out", tmp_path / "leads"]
    assert run_command(monkeypatch, *command).code == 0
    kept = (tmp_path / "leads" / "training" / "recipe.toml").read_text(encoding="utf-8")
    assert 'attention = "local(block=256), memory_compressed(factor=3)"' in kept
    assert json.loads((tmp_path / "leads" / "training" / "baselines.json").read_text())["first sentence"] > 0
    assert run(monkeypatch, "The cat. It eats fish .", "--model", tmp_path / "leads", "--max-tokens", "4").code == 0


def test_mistakes_are_one_sentence(tldr: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pdf = write(tmp_path / "paper.pdf", "x")
    for words, sentence in (
        ((pdf,), "there is no format '.pdf'"),
        (("a dog", "--min-tokens", "9", "--max-tokens", "3"), "min_tokens=9 must be"),
        ((" ",), "text 1 has no word to summarise"),
    ):
        found = run(monkeypatch, *words, "--model", tldr)
        assert found.code == 1
        assert sentence in found.err
        assert found.err.count("\n") == 1
    translated = run_command(monkeypatch, "translate", "a", "--model", tldr)
    assert "no translator; use: qkv summarise paper.txt" in translated.err


@refused(
    [
        ({"data": {"max_length": 100}, "model": {"max_length": 60}}, "model.max_length must be at least 181"),
        ({"model": {"max_length": 50}}, "model.max_length must be at least 82"),
        ({"architecture": "bert"}, "is no model of the task 'summarise'"),
    ],
    "how",
)
def test_what_does_not_fit_is_refused(how: dict[str, Any], tmp_path: Path) -> None:
    qkv.train(TINY.write(tmp_path), task="summarise", out=tmp_path / "x", quiet=True, **how)
