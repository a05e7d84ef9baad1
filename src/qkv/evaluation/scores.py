"""Answers against what is right: BLEU and chrF by sacrebleu, with the signatures that make them comparable; accuracy,
macro-F1 and the Matthews correlation of classes, rare ones counted too; word and phoneme error rates."""

import json
import math
from collections import Counter
from collections.abc import Hashable, Sequence, Sized
from dataclasses import dataclass

from qkv.errors import InputError

# Scripts without spaces between words, or whose words sacrebleu splits only with extra packages (ja-mecab, ko-mecab):
# there BLEU counts characters, and its signature says tok:char. Two- and three-letter codes of ISO 639.
TOKENIZERS = {
    **dict.fromkeys(["zh", "zho", "chi", "cmn", "yue"], "zh"),
    **dict.fromkeys(["ja", "jpn", "ko", "kor"], "char"),
    **dict.fromkeys(["th", "tha", "lo", "lao", "km", "khm", "my", "mya"], "char"),
}
RESAMPLES = 1000  # sacrebleu's own default for --confidence


@dataclass(frozen=True)
class Scores:
    """Scores from 0 to 100, each with the signature to print beside it."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    sentences: int
    bleu_interval: tuple[float, float] | None = None  # 95 %, by bootstrap; where `confidence` was asked for


def score(
    hypotheses: Sequence[str], references: Sequence[str], *, target_language: str = "", lowercase: bool = False,
    as_paper: bool = False, confidence: bool = False,
) -> Scores:  # fmt: skip
    """Score detokenised translations, line by line against one reference each.

    `as_paper` is the form in which papers on Multi30k print BLEU: both sides in Moses tokens and lower-cased. It gives
    other figures than sacrebleu's own tokens do, so never compare one with the other; the signatures tell them apart.
    """
    from sacrebleu.metrics.bleu import BLEU  # here, since it takes 40 ms, and who only translates needs none of it
    from sacrebleu.metrics.chrf import CHRF

    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(lines, str):
            raise InputError(f"the {name} are one string; give a list with one string for each sentence")
    check_paired(hypotheses, references, "hypotheses", "references", "one reference for each", "one sentence")
    language = target_language.replace("_", "-").split("-")[0].lower()
    tokenizer, about = TOKENIZERS.get(language, "13a"), ""
    if as_paper:
        hypotheses, references, about = moses(hypotheses, references, language)
        tokenizer, lowercase = "none", True
    # `force` silences the warning about tokenised text, which as_paper wants and "word ." endings only resemble.
    bleu = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    chrf = CHRF(lowercase=lowercase)
    result = bleu.corpus_score(hypotheses, [references], n_bootstrap=RESAMPLES if confidence else 1)
    signature = str(bleu.get_signature())
    interval = None
    if confidence:
        figures = json.loads(result.format(width=6, signature=signature, is_json=True))
        mean, half = figures.get("confidence_mean", 0.0), figures.get("confidence_var", 0.0)
        interval = (mean - half, mean + half)
    return Scores(
        bleu=result.score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        bleu_signature=signature + about,
        chrf_signature=str(chrf.get_signature()) + about,
        sentences=len(hypotheses),
        bleu_interval=interval,
    )


def moses(hypotheses: Sequence[str], references: Sequence[str], language: str) -> tuple[list[str], list[str], str]:
    """Both sides in Moses tokens, and the piece of signature that says so. Entities are not escaped: BLEU is the same
    with and without, and chrF would count the letters of `&quot;`."""
    try:
        import sacremoses
    except ImportError:
        raise InputError(
            "BLEU as papers print it needs sacremoses, which is not installed; pip install 'qkv[papers]'"
        ) from None
    if not language:
        raise InputError(
            "as_paper=True splits words by the rules of a language; give target_language, for example 'de'"
        )
    if language in TOKENIZERS or language not in sacremoses.NonbreakingPrefixes().available_langs.values():
        raise InputError(
            f"Moses has no word rules for {language!r}; give a two-letter code such as 'de' (Moses itself takes 'en' "
            f"for a language it does not know), or leave out as_paper"
        )
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    ours, theirs = (
        [tokenizer.tokenize(line, return_str=True, escape=False) for line in lines]
        for lines in (hypotheses, references)
    )
    return ours, theirs, f"|moses:{sacremoses.__version__}|lang:{language}"


@dataclass(frozen=True)
class ClassScores:
    """Accuracy and macro-F1 from 0 to 1; the correlation from -1 to 1, where 0 is no better than chance."""

    accuracy: float
    macro_f1: float
    mcc: float


def class_scores(found: Sequence[Hashable], gold: Sequence[Hashable]) -> ClassScores:
    """The classes that were found against those that are right, one of each for every example.

    F1 of a class = 2 hits / (found + gold), van Rijsbergen 1979; macro-F1 is its mean over the classes that occur on
    either side. Matthews 1975, for any number of classes by Gorodkin 2004: mcc = (c s - sum of p t) /
    sqrt((s^2 - sum of p^2) (s^2 - sum of t^2)), with c right answers of s, p of a class found and t of it gold. It is 0
    where that is 0 / 0, which is where one class alone is found or is right.
    """
    check_paired(found, gold, "found classes", "gold ones", "one of each")
    p, t = Counter(found), Counter(gold)
    hits = Counter(one for one, right in zip(found, gold, strict=True) if one == right)
    c, s = hits.total(), len(gold)
    f1 = [2 * hits[one] / (p[one] + t[one]) for one in p | t]
    chance = sum(p[one] * t[one] for one in p)
    spread = math.prod(s * s - sum(count * count for count in side.values()) for side in (p, t))
    return ClassScores(c / s, sum(f1) / len(f1), (c * s - chance) / math.sqrt(spread) if spread else 0.0)


@dataclass(frozen=True)
class ErrorRates:
    """Two fractions: 0 is perfect, and the phoneme rate passes 1 where answers are much too long."""

    word: float
    phoneme: float


def edit_distance(a: Sequence[object], b: Sequence[object]) -> int:
    """Levenshtein 1966: the fewest insertions, deletions and substitutions that turn `a` into `b`."""
    above = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        row = [i]
        for j, right in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left != right)))
        above = row
    return above[-1]


def error_rates(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> ErrorRates:
    """Each hypothesis against all its accepted references.

    A word is right if it equals any of them. Phoneme errors are the edits to the nearest one, over its length, both
    summed over the corpus; of references equally near the shortest counts, so that the rate never flatters.
    """
    check_paired(hypotheses, references, "hypotheses", "lists of references", "one list for each")
    wrong = edits = length = 0
    for number, (hypothesis, accepted) in enumerate(zip(hypotheses, references, strict=True), start=1):
        if not accepted:
            raise InputError(f"item {number} has no reference; give at least one accepted answer for each item")
        for symbols in (hypothesis, *accepted):
            if isinstance(symbols, str):
                raise InputError(
                    f"item {number} has the string {symbols!r} where a list of phonemes was expected; split it first"
                )
        nearest_edits, nearest_length = min((edit_distance(hypothesis, one), len(one)) for one in accepted)
        wrong += nearest_edits > 0
        edits += nearest_edits
        length += nearest_length
    if length == 0:
        raise InputError(
            "the nearest references are all empty, and a rate needs a length; give references with phonemes"
        )
    return ErrorRates(word=wrong / len(hypotheses), phoneme=edits / length)


def check_paired(found: Sized, right: Sized, what: str, others: str, each: str, one: str = "one") -> None:
    """As many of one as of the other, and not none."""
    if len(found) != len(right):
        raise InputError(f"{len(found)} {what} and {len(right)} {others} were given; give {each}")
    if not found:
        raise InputError(f"there is nothing to score: the list of {what.split()[-1]} is empty; give at least {one}")
