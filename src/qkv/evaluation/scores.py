"""BLEU and chrF of translations, by sacrebleu, with the signatures that make them comparable."""

import json
from collections.abc import Sequence, Sized
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


def check_paired(found: Sized, right: Sized, what: str, others: str, each: str, one: str = "one") -> None:
    """As many of one as of the other, and not none."""
    if len(found) != len(right):
        raise InputError(f"{len(found)} {what} and {len(right)} {others} were given; give {each}")
    if not found:
        raise InputError(f"there is nothing to score: the list of {what.split()[-1]} is empty; give at least {one}")


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
