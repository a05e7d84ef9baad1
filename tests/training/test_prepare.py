"""From files to rows: what is held out is nowhere else, what is dropped is counted, and texts stay as they were."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from kit import Pairs, real, tokenizer, write_tsv
from qkv import folder
from qkv.config import merge
from qkv.data import Rows, each_row
from qkv.display import Display
from qkv.errors import InputError
from qkv.tasks import Corpus, Survey, TextConfig
from qkv.tasks.corpus import learn_tokenizer
from qkv.tasks.translation import PairsConfig, Translate, validation_pairs
from qkv.text import Pair
from qkv.text.doctor import Rules
from qkv.text.tokenizer import Tokenizer
from qkv.training import prepare


def surveyed(
    place: Path, train: list[Path], valid: list[Path] | None = None, test: list[Path] | None = None, **changes: Any
) -> Survey:
    task = Translate(PairsConfig(**{"vocab_size": 400, "source": "en", "target": "de", **changes}))
    return Survey(task, {"train": train, "valid": valid or [], "test": test or []}, place, lambda _: None)


def written(place: Path, survey: Survey) -> Corpus:
    task = survey.task
    tokenizer = learn_tokenizer(task.data, survey.sample)
    return Corpus.write(place, task, survey, tokenizer, task.facts(survey, tokenizer), lambda _: None)


def prepared(place: Path, *files: list[Path], **changes: Any) -> tuple[Corpus, Survey]:
    survey = surveyed(place, *files, **changes)
    return written(place, survey), survey


def texts(rows: Rows, tokenizer: Tokenizer) -> Pairs:
    """Without </s> of the source, and <s> and </s> of the target."""
    return [(tokenizer.decode(source[:-1]), tokenizer.decode(target[1:-1])) for source, target in each_row(rows)]


def valid_pairs(corpus: Corpus) -> Pairs:
    return [(pair.source, pair.target) for pair in corpus.valid_examples(Pair)]


def many(count: int, variants: int = 1) -> Pairs:
    """Sources in `variants` different translations each."""
    return [(f"sentence number {n}", f"{n} Satz, Fassung {v}") for v in range(variants) for n in range(count)]


@pytest.mark.parametrize(
    ("sources", "variants", "held_out", "expected"),
    [(200, 3, 7, 7), (50, 1, 1000, 5), (10, 1, 3, 1), (50, 20, 1000, 5)],
)
def test_no_source_sentence_is_on_both_sides(
    tmp_path: Path, sources: int, variants: int, held_out: int, expected: int
) -> None:
    pairs = many(sources, variants)
    ready, _ = prepared(tmp_path / "data", [write_tsv(tmp_path / "a.tsv", pairs)], held_out=held_out)
    train, valid = texts(ready.train, ready.tokenizer), texts(ready.valid, ready.tokenizer)
    assert sorted(train + valid) == sorted(pairs)  # nothing is lost
    assert {source for source, _ in train}.isdisjoint(source for source, _ in valid)
    assert len({source for source, _ in valid}) == expected  # what was asked, one in ten at the most
    assert len(valid) == expected * variants
    assert sorted(valid) == sorted(valid_pairs(ready))


def test_one_in_ten_is_exact_in_a_large_corpus_too(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", many(10_019))
    survey = surveyed(tmp_path, [path])
    assert sum(number <= survey.threshold(10_000) for number in survey.hashes) == 1001


def test_the_same_sentences_are_held_out_whatever_their_order(tmp_path: Path) -> None:
    pairs = many(100)
    one, _ = prepared(tmp_path / "1", [write_tsv(tmp_path / "a.tsv", pairs)], held_out=9)
    other, _ = prepared(tmp_path / "2", [write_tsv(tmp_path / "b.tsv", pairs[::-1])], held_out=9)
    assert set(valid_pairs(one)) == set(valid_pairs(other))
    assert len(valid_pairs(one)) == 9


def test_a_survey_can_be_written_again(tmp_path: Path) -> None:
    """With another vocabulary, as a comparison does: the same examples are held out, each once."""
    survey = surveyed(tmp_path, [write_tsv(tmp_path / "a.tsv", many(60))], held_out=5)
    once = written(tmp_path / "once", survey)
    again = written(tmp_path / "again", survey)
    assert valid_pairs(again) == valid_pairs(once)
    assert len(valid_pairs(again)) == 5
    assert (len(again.train), len(again.valid)) == (len(once.train), len(once.valid)) == (55, 5)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from("xyz")).map(lambda p: (p[0] * 3, p[1] * 4)),
        min_size=30, max_size=80,
    )
)  # fmt: skip
@settings(max_examples=8, deadline=None)
def test_held_out_sources_are_disjoint_for_any_corpus(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs) -> None:
    place = tmp_path_factory.mktemp("any")
    pairs = pairs + many(5)
    ready, survey = prepared(place / "data", [write_tsv(place / "a.tsv", pairs)], vocab_size=300)
    train, valid = texts(ready.train, ready.tokenizer), texts(ready.valid, ready.tokenizer)
    assert {source for source, _ in train}.isdisjoint(source for source, _ in valid)
    assert set(train + valid) == set(pairs)
    kept = survey.found["train"].kept
    assert len(train) + ready.train.written.duplicates + len(valid_pairs(ready)) == len(pairs) == kept


def test_what_is_in_valid_or_test_files_is_dropped_from_training_and_counted(tmp_path: Path) -> None:
    pairs = many(60)
    train = write_tsv(tmp_path / "train.tsv", pairs)
    valid = write_tsv(tmp_path / "valid.tsv", [*pairs[:4], ("only here", "nur hier")])
    test = write_tsv(tmp_path / "test.tsv", [(pairs[10][0], "another translation"), ("and here", "und hier")])
    ready, survey = prepared(tmp_path / "data", [train], [valid], [test])
    assert (survey.found["train"].read, survey.found["train"].kept) == (60, 55)
    said = survey.found["train"].findings[0]
    assert "5 pairs had a source that is also in the validation or test set: dropped" in said
    assert sorted(texts(ready.train, ready.tokenizer)) == sorted(pairs[4:10] + pairs[11:])
    assert sorted(texts(ready.valid, ready.tokenizer)) == sorted([*pairs[:4], ("only here", "nur hier")])


def test_validation_pairs_are_examined_by_the_rules_of_the_run(tmp_path: Path) -> None:
    long = [(source, target * 20) for source, target in many(30)]
    train, valid = write_tsv(tmp_path / "a.tsv", many(60)), write_tsv(tmp_path / "v.tsv", [*long, *many(5)])

    def kept(**rules: Any) -> int:
        return len(surveyed(tmp_path, [train], [valid], doctor=Rules(**rules)).valid)

    assert (kept(max_dropped=1.0), kept(ratio_from=5000)) == (5, 35)
    with pytest.raises(InputError, match="the validation files: 30 of 35 pairs were dropped"):
        kept()


def test_the_source_of_every_test_pair_is_dropped_whatever_its_target(tmp_path: Path) -> None:
    pairs = many(60)
    test = [(pairs[0][0], ""), (f" {pairs[1][0]}", "x" * 400), (pairs[2][0], pairs[2][0]), ("", "only a target")]
    files = [write_tsv(tmp_path / "a.tsv", pairs)], [], [write_tsv(tmp_path / "t.tsv", test)]
    assert surveyed(tmp_path, *files).found["train"].kept == 57


def test_validation_pairs_that_are_too_long_are_told(
    tmp_path: Path, small: dict[str, Any], tsv: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    valid = write_tsv(tmp_path / "v.tsv", [("a valid one", "one valid a"), ("x " * 300, "y " * 300)])
    tiny = merge(small, {"training": {"steps": 1, "bleu_sentences": 0}})
    qkv.train(tsv, valid=[valid], out=tmp_path / "m", **tiny)
    assert "validation: 1 pair had over 200 tokens: dropped" in capfd.readouterr().err


def test_validation_files_are_read_in_the_direction_of_training(
    tmp_path: Path, small: dict[str, Any], pairs: Pairs
) -> None:
    train = write_tsv(tmp_path / "a.tsv", [("en", "ne"), *pairs])
    valid = write_tsv(tmp_path / "v.tsv", [("ne", "en"), ("backwards", "forwards")])
    tiny = {key: merge(small, {"training": {"steps": 1, "bleu_sentences": 0}})[key] for key in ("model", "training")}
    qkv.train(train, valid=[valid], out=tmp_path / "m", quiet=True, **tiny)
    about = folder.load(tmp_path / "m").about
    assert (about["source"], about["target"]) == ("en", "ne")
    assert validation_pairs(tmp_path / "m") == [("forwards", "backwards")]


def test_spaces_do_not_hide_a_validation_sentence(tmp_path: Path) -> None:
    pairs = many(30)
    train = write_tsv(tmp_path / "train.tsv", [(f"  {s.replace(' ', '   ')} ", t) for s, t in pairs])
    survey = surveyed(tmp_path, [train], [write_tsv(tmp_path / "valid.tsv", pairs[:3])])
    assert survey.found["train"].kept == 27


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    pairs = many(40)
    valid = [("not in training", "nicht im Training")]
    files = [write_tsv(tmp_path / "a.tsv", pairs + pairs[:7]), write_tsv(tmp_path / "b.tsv", pairs[5:9])]
    ready, survey = prepared(tmp_path / "data", files, [write_tsv(tmp_path / "v.tsv", valid)])
    assert survey.found["train"].kept == 51
    assert (ready.train.written.rows, ready.train.written.duplicates) == (40, 11)
    assert sorted(texts(ready.train, ready.tokenizer)) == sorted(pairs)


def test_long_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [*many(20), ("x " * 300, "y " * 300)]
    ready, _ = prepared(tmp_path / "data", [write_tsv(tmp_path / "a.tsv", pairs)], max_length=100)
    assert ready.train.written.too_long == 1


def test_pairs_that_are_all_too_long_are_said(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", many(20))
    with pytest.raises(InputError, match=r"no example is left \(18 were too long\); .* raise data\.max_length"):
        prepared(tmp_path / "data", [path], max_length=1)
    short = write_tsv(tmp_path / "short.tsv", [(str(n), f"-{n}") for n in range(20)])
    with pytest.raises(InputError, match=r"to validate: no example is left \(20 were too long\)"):
        prepared(tmp_path / "data", [short], [path], max_length=4)


def test_one_source_sentence_cannot_be_split(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", [("the same", f"{n}") for n in range(30)])
    with pytest.raises(
        InputError, match="all 30 examples have the same source, so that none can be held out; give --valid"
    ):
        prepared(tmp_path / "data", [path])


def test_a_validation_file_of_nothing_is_said(tmp_path: Path) -> None:
    train, valid = write_tsv(tmp_path / "a.tsv", many(20)), write_tsv(tmp_path / "v.tsv", [("", "x")])
    with pytest.raises(InputError, match="0 usable pairs"):
        prepared(tmp_path / "data", [train], [valid])


def test_the_doctors_findings_are_told(
    tmp_path: Path, small: dict[str, Any], pairs: Pairs, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = [("", "nothing there"), ("the same", "the same"), ("short", "far too long " * 30)]
    path = write_tsv(tmp_path / "a.tsv", [*pairs, *pairs[:3], *bad])
    qkv.train(path, out=tmp_path / "m", **merge(small, {"training": {"steps": 1, "bleu_sentences": 0}}))
    told = capfd.readouterr().err
    assert "206 pairs read, 203 kept" in told
    for sentence in ("1 pair had an empty side", "1 pair had a target that is a copy", "times as long as the other"):
        assert sentence in told
    assert "repeated another one exactly: dropped" in told


def test_the_sample_from_which_sub_words_are_learned_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    survey = surveyed(tmp_path, [write_tsv(tmp_path / "a.tsv", many(40))])
    prepare.learned(survey.task, survey, None, Display())
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(Translate, "sample", 15)
    survey = surveyed(tmp_path, [tmp_path / "a.tsv"])
    prepare.learned(survey.task, survey, None, Display())
    assert "sub-words are learned from 15 of 40 pairs, drawn from all of them" in capfd.readouterr().err
    own = tokenizer("sentence number", size=290)
    assert prepare.learned(survey.task, survey, own, Display()) is own
    assert capfd.readouterr().err == ""


def test_a_tokenizer_of_ones_own_is_used(tmp_path: Path) -> None:
    own = tokenizer("sentence number Satz Fassung", size=290)
    own.save(tmp_path / "own.json")
    source = write_tsv(tmp_path / "a.tsv", many(20))
    ready, _ = prepared(tmp_path / "data", [source], tokenizer=str(tmp_path / "own.json"))
    assert ready.tokenizer.fingerprint == own.fingerprint


def test_an_unknown_tokenizer_is_said() -> None:
    with pytest.raises(InputError, match=r"unknown tokenizer 'bpx', and no tokenizer\.json; did you mean 'bpe'"):
        learn_tokenizer(TextConfig(tokenizer="bpx"), [])


def test_real_validation_texts_come_back_letter_by_letter(tmp_path: Path) -> None:
    """Multi30k, German and English: what validation measures against is what people wrote."""
    files = [real("multi30k", f"val.{language}") for language in ("en", "de")]
    sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
    original = {(" ".join(s.split()), " ".join(t.split())) for s, t in zip(*sides, strict=True)}
    ready, _ = prepared(tmp_path / "data", files, held_out=100, vocab_size=1500)
    held_out = texts(ready.valid, ready.tokenizer)
    assert len(held_out) >= 100
    assert set(held_out) <= original
    assert set(held_out) | set(texts(ready.train, ready.tokenizer)) == original
