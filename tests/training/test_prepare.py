"""From files to shards: what is held out is nowhere else, what is dropped is counted, and texts stay as they were."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qkv.data.validation import validation_pairs

import qkv
from qkv import folder
from qkv.config import merge
from qkv.data import Corpus
from qkv.errors import InputError
from qkv.text.doctor import Rules
from qkv.text.tokenizer import Tokenizer
from qkv.training import prepare
from qkv.training.settings import DataConfig

DATA = Path(os.environ.get("QKV_DATA", Path(__file__).parents[3] / "shared" / "data"))
Pairs = list[tuple[str, str]]


def write_tsv(path: Path, pairs: Pairs) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def prepared(
    place: Path, train: list[Path], valid: list[Path] | None = None, test: list[Path] | None = None, **changes: Any
) -> tuple[prepare.Prepared, prepare.Survey, Tokenizer]:
    source = prepare.Source(train, valid or [], test or [], "en", "de", Rules())
    survey = source.survey(lambda _: None)
    c = DataConfig(**{"vocab_size": 400, **changes})
    tokenizer = prepare.learn_tokenizer(c, survey.sample)
    return prepare.write(place, source, survey, tokenizer, c, lambda _: None), survey, tokenizer


def texts(corpus: Corpus, tokenizer: Tokenizer) -> Pairs:
    shards = [corpus.shard(number) for number in range(corpus.shards)]
    return [
        (tokenizer.decode(shard.source(row).tolist()), tokenizer.decode(shard.target(row).tolist()))
        for shard in shards
        for row in range(len(shard))
    ]


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
    ready, _, tokenizer = prepared(tmp_path / "data", [write_tsv(tmp_path / "a.tsv", pairs)], held_out=held_out)
    train, valid = texts(ready.train, tokenizer), texts(ready.valid, tokenizer)
    assert sorted(train + valid) == sorted(pairs)  # nothing is lost
    assert {source for source, _ in train}.isdisjoint(source for source, _ in valid)
    assert len({source for source, _ in valid}) == expected  # what was asked, one in ten at the most
    assert len(valid) == expected * variants
    assert sorted(valid) == sorted(ready.valid_pairs)


def test_one_in_ten_is_exact_in_a_large_corpus_too(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", many(10_019))
    survey = prepare.Source([path], [], [], "en", "de", Rules()).survey(lambda _: None)
    assert sum(lot <= survey.threshold(10_000) for lot in survey.lots) == 1001


def test_the_same_sentences_are_held_out_whatever_their_order(tmp_path: Path) -> None:
    pairs = many(100)
    one, _, _ = prepared(tmp_path / "1", [write_tsv(tmp_path / "a.tsv", pairs)], held_out=9)
    other, _, _ = prepared(tmp_path / "2", [write_tsv(tmp_path / "b.tsv", pairs[::-1])], held_out=9)
    assert set(one.valid_pairs) == set(other.valid_pairs)
    assert len(one.valid_pairs) == 9


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
    ready, survey, tokenizer = prepared(place / "data", [write_tsv(place / "a.tsv", pairs)], vocab_size=300)
    train, valid = texts(ready.train, tokenizer), texts(ready.valid, tokenizer)
    assert {source for source, _ in train}.isdisjoint(source for source, _ in valid)
    assert set(train + valid) == set(pairs)
    assert len(train) + ready.written.duplicates + len(ready.valid_pairs) == len(pairs) == survey.report.kept


def test_what_is_in_valid_or_test_files_is_dropped_from_training_and_counted(tmp_path: Path) -> None:
    pairs = many(60)
    train = write_tsv(tmp_path / "train.tsv", pairs)
    valid = write_tsv(tmp_path / "valid.tsv", [*pairs[:4], ("only here", "nur hier")])
    test = write_tsv(tmp_path / "test.tsv", [(pairs[10][0], "another translation"), ("and here", "und hier")])
    ready, survey, tokenizer = prepared(tmp_path / "data", [train], [valid], [test])
    assert survey.report.held_out == 5
    assert survey.report.kept == 55
    assert "5 pairs had a source that is also in the validation or test set: dropped" in survey.report.lines()[0]
    assert sorted(texts(ready.train, tokenizer)) == sorted(pairs[4:10] + pairs[11:])
    assert sorted(texts(ready.valid, tokenizer)) == sorted([*pairs[:4], ("only here", "nur hier")])


def test_validation_pairs_are_examined_by_the_rules_of_the_run(tmp_path: Path) -> None:
    long = [(source, target * 20) for source, target in many(30)]
    train, valid = write_tsv(tmp_path / "a.tsv", many(60)), write_tsv(tmp_path / "v.tsv", [*long, *many(5)])

    def kept(**rules: Any) -> int:
        source = prepare.Source([train], [valid], [], "en", "de", Rules(**rules))
        return len(source.survey(lambda _: None).valid)

    assert (kept(max_dropped=1.0), kept(ratio_from=5000)) == (5, 35)
    with pytest.raises(InputError, match="the validation files: 30 of 35 pairs were dropped"):
        kept()


def test_the_source_of_every_test_pair_is_dropped_whatever_its_target(tmp_path: Path) -> None:
    pairs = many(60)
    test = [(pairs[0][0], ""), (f" {pairs[1][0]}", "x" * 400), (pairs[2][0], pairs[2][0]), ("", "only a target")]
    files = [write_tsv(tmp_path / "a.tsv", pairs)], [], [write_tsv(tmp_path / "t.tsv", test)]
    assert prepare.Source(*files, "en", "de", Rules()).survey(lambda _: None).report.held_out == 3


def test_validation_pairs_that_are_too_long_are_told(
    tmp_path: Path, small: dict[str, Any], tsv: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    valid = write_tsv(tmp_path / "v.tsv", [("a valid one", "one valid a"), ("x " * 300, "y " * 300)])
    tiny = merge(small, {"training": {"steps": 1, "bleu_sentences": 0}})
    qkv.train(tsv, valid=[valid], out=tmp_path / "m", **tiny)
    assert "validation: 1 pairs had over 200 tokens on a side: dropped" in capfd.readouterr().err


def test_validation_files_are_read_in_the_direction_of_training(
    tmp_path: Path, small: dict[str, Any], pairs: Pairs
) -> None:
    train = write_tsv(tmp_path / "a.tsv", [("en", "ne"), *pairs])
    valid = write_tsv(tmp_path / "v.tsv", [("ne", "en"), ("backwards", "forwards")])
    tiny = {key: merge(small, {"training": {"steps": 1, "bleu_sentences": 0}})[key] for key in ("model", "training")}
    qkv.train(train, valid=[valid], out=tmp_path / "m", quiet=True, **tiny)
    loaded = folder.load(tmp_path / "m")
    assert (loaded.about["source"], loaded.about["target"]) == ("en", "ne")
    assert validation_pairs(tmp_path / "m", loaded.tokenizer) == [("forwards", "backwards")]


def test_spaces_do_not_hide_a_validation_sentence(tmp_path: Path) -> None:
    pairs = many(30)
    train = write_tsv(tmp_path / "train.tsv", [(f"  {s.replace(' ', '   ')} ", t) for s, t in pairs])
    _, survey, _ = prepared(tmp_path / "data", [train], [write_tsv(tmp_path / "valid.tsv", pairs[:3])])
    assert survey.report.held_out == 3


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    pairs = many(40)
    valid = [("not in training", "nicht im Training")]
    files = [write_tsv(tmp_path / "a.tsv", pairs + pairs[:7]), write_tsv(tmp_path / "b.tsv", pairs[5:9])]
    ready, survey, tokenizer = prepared(tmp_path / "data", files, [write_tsv(tmp_path / "v.tsv", valid)])
    assert survey.report.kept == 51
    assert (ready.written.pairs, ready.written.duplicates) == (40, 11)
    assert sorted(texts(ready.train, tokenizer)) == sorted(pairs)


def test_long_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [*many(20), ("x " * 300, "y " * 300)]
    ready, _, _ = prepared(tmp_path / "data", [write_tsv(tmp_path / "a.tsv", pairs)], max_length=100)
    assert ready.written.too_long == 1


def test_pairs_that_are_all_too_long_are_said(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", many(20))
    with pytest.raises(InputError, match=r"no pair is left \(18 were too long\); .* raise max_length"):
        prepared(tmp_path / "data", [path], max_length=1)
    short = write_tsv(tmp_path / "short.tsv", [(str(n), f"-{n}") for n in range(20)])
    with pytest.raises(InputError, match=r"the validation pairs: no pair is left \(20 were too long\)"):
        prepared(tmp_path / "data", [short], [path], max_length=4)


def test_one_source_sentence_cannot_be_split(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", [("the same", f"{n}") for n in range(30)])
    with pytest.raises(
        InputError, match="all 30 pairs have the same source, so that none can be held out; give --valid"
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
    assert "repeated another pair exactly: dropped" in told


def test_a_tokenizer_of_ones_own_is_used(tmp_path: Path) -> None:
    own = Tokenizer.train(["sentence number Satz Fassung"], vocab_size=290)
    own.save(tmp_path / "own.json")
    source = write_tsv(tmp_path / "a.tsv", many(20))
    _, _, used = prepared(tmp_path / "data", [source], tokenizer=str(tmp_path / "own.json"))
    assert used.fingerprint == own.fingerprint


def test_an_unknown_tokenizer_is_said() -> None:
    with pytest.raises(InputError, match=r"unknown tokenizer 'bpx'; give .*bpe.* or a tokenizer\.json"):
        prepare.learn_tokenizer(DataConfig(tokenizer="bpx"), [])


def test_real_validation_texts_come_back_letter_by_letter(tmp_path: Path) -> None:
    """Multi30k, German and English: what validation measures against is what people wrote."""
    files = [DATA / "multi30k" / f"val.{language}" for language in ("en", "de")]
    if not all(path.exists() for path in files):
        pytest.skip("Multi30k is not there; set QKV_DATA to the folder of the data sets")
    sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
    original = {(" ".join(s.split()), " ".join(t.split())) for s, t in zip(*sides, strict=True)}
    ready, _, tokenizer = prepared(tmp_path / "data", files, held_out=100, vocab_size=1500)
    held_out = texts(ready.valid, tokenizer)
    assert len(held_out) >= 100
    assert set(held_out) <= original
    assert set(held_out) | set(texts(ready.train, tokenizer)) == original
