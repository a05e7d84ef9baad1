"""BLEU and chrF: worked by hand, equal to sacrebleu's own, and told apart by their signatures."""

import logging
import math
import sys

import pytest
import sacrebleu
import sacremoses
from sacrebleu.metrics import BLEU, CHRF

from kit import real
from qkv.errors import InputError
from qkv.evaluation import score

REFERENCES = ["The cat sat on the mat, didn't it?", "A dog runs over the Green grass.", "Two men are talking ."]
HYPOTHESES = ["The cat sat on a mat, did it?", "the dog runs over green grass.", "Two men talk ."]


@pytest.fixture(scope="module")
def german():
    lines = real("multi30k", "val.de").read_text(encoding="utf-8").splitlines()
    return [line.replace("ein", "der").replace(",", "") for line in lines], lines


def test_bleu_by_hand():
    # Papineni et al. 2002, sections 2.1 to 2.3. Hypothesis: 7 words; reference: 8.
    # words       the cat sat on the red mat         6 of 7 found ("red" is not)
    # pairs       the-cat cat-sat sat-on on-the      4 of 6 (the-red and red-mat are not)
    # threes      the-cat-sat cat-sat-on sat-on-the  3 of 5
    # fours       the-cat-sat-on cat-sat-on-the      2 of 4
    # brevity     exp(1 - 8/7)
    result = score(["the cat sat on the red mat"], ["the cat sat on the old brown mat"])
    precision = (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4)
    assert result.bleu == pytest.approx(100 * math.exp(1 - 8 / 7) * precision)
    assert result.sentences == 1


def test_the_reference_itself_scores_100_and_nothing_scores_0():
    perfect = score(REFERENCES, REFERENCES)
    assert (perfect.bleu, perfect.chrf) == (pytest.approx(100), pytest.approx(100))
    empty = score(["", "", ""], REFERENCES)
    assert (empty.bleu, empty.chrf) == (0, 0)


@pytest.mark.parametrize("lowercase", [False, True])
def test_equal_to_sacrebleu(lowercase):
    ours = score(HYPOTHESES, REFERENCES, lowercase=lowercase)
    bleu, chrf = BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)
    assert ours.bleu == bleu.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert ours.chrf == chrf.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert ours.bleu_signature == str(bleu.get_signature())
    assert ours.chrf_signature == str(chrf.get_signature())
    assert ours.bleu_interval is None


def test_case_matters_unless_it_is_asked_not_to():
    shouted = [line.upper() for line in REFERENCES]
    assert score(shouted, REFERENCES).bleu < 50
    assert score(shouted, REFERENCES, lowercase=True).bleu == pytest.approx(100)


def test_as_paper_is_bleu_over_moses_tokens_in_lower_case():
    moses = sacremoses.MosesTokenizer(lang="en")
    ours, theirs = ([moses.tokenize(s, return_str=True).lower() for s in side] for side in (HYPOTHESES, REFERENCES))
    result = score(HYPOTHESES, REFERENCES, as_paper=True, target_language="en")
    assert result.bleu == pytest.approx(sacrebleu.corpus_bleu(ours, [theirs], tokenize="none", force=True).score)
    assert "case:lc" in result.bleu_signature
    assert "tok:none" in result.bleu_signature
    for signature in (result.bleu_signature, result.chrf_signature):
        assert signature.endswith(f"|moses:{sacremoses.__version__}|lang:en")


def test_as_paper_differs_from_13a_on_real_german(german, caplog):
    with caplog.at_level(logging.WARNING, "sacrebleu"):
        paper = score(*german, as_paper=True, target_language="de-DE")
    assert not caplog.records  # no advice to detokenise what is tokenised on purpose
    plain = score(*german)
    assert paper.bleu != pytest.approx(plain.bleu, abs=0.01)
    assert paper.bleu_signature.endswith("|lang:de")
    assert paper.sentences == plain.sentences == 1014  # the length of Multi30k's validation set


def test_the_interval_holds_the_score_and_narrows_with_more_sentences(german):
    hypotheses, references = german
    few = score(hypotheses[:50], references[:50], confidence=True)
    many = score(hypotheses[:500], references[:500], confidence=True)
    for result in (few, many):
        assert result.bleu_interval[0] < result.bleu < result.bleu_interval[1]
        assert "bs:1000" in result.bleu_signature
    width = [high - low for low, high in (few.bleu_interval, many.bleu_interval)]
    assert width[1] < width[0]
    assert score(hypotheses[:50], references[:50], confidence=True) == few
    assert score(["x"], ["y"], confidence=True).bleu_interval == (0, 0)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("zh", "zh"), ("zh_Hans", "zh"), ("cmn", "zh"), ("ja", "char"), ("KO", "char"), ("th", "char"), ("de", "13a")],
)
def test_the_target_language_chooses_the_tokens(language, tokenizer):
    references = ["我喜欢这只黑色的小猫。", "他们昨天去了北京大学。"]
    hypotheses = ["我喜欢那只黑色的小猫。", "他们昨天去北京大学了。"]
    result = score(hypotheses, references, target_language=language)
    assert f"tok:{tokenizer}|" in result.bleu_signature
    assert result.bleu == BLEU(tokenize=tokenizer).corpus_score(hypotheses, [references]).score
    assert (result.bleu > 50) == (tokenizer != "13a")  # words of a script without spaces are whole sentences to 13a


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["a"], ["a", "b"]), {}, "1 hypotheses and 2 references were given"),
        (([], []), {}, "the list of hypotheses is empty"),
        (("abc", ["a", "b", "c"]), {}, "the hypotheses are one string"),
        ((["a"], ["a"]), {"as_paper": True}, "give target_language, for example 'de'"),
        ((["a"], ["a"]), {"as_paper": True, "target_language": "ja"}, "no word rules for 'ja'"),
        ((["a"], ["a"]), {"as_paper": True, "target_language": "deu"}, "no word rules for 'deu'"),
    ],
)
def test_mistakes_are_said_in_words(arguments, options, message):
    with pytest.raises(InputError, match=message):
        score(*arguments, **options)


def test_the_extra_is_named_where_sacremoses_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(InputError, match=r"pip install 'qkv\[papers\]'"):
        score(["a"], ["a"], as_paper=True, target_language="de")
