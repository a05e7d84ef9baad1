"""How good an answer is: BLEU and chrF of translations, error rates of pronunciations, macro-F1 of classes, the
correlation of numbers, F1 of phrases and of answers."""

from qkv.evaluation.answers import (
    Phrase,
    PhraseScores,
    exact_match,
    marks_phrases,
    overlap_f1,
    pearson,
    phrase_scores,
    phrases,
    spearman,
)
from qkv.evaluation.figures import FIGURES, Figure, better, figure, in_words, is_of_part
from qkv.evaluation.scores import ClassScores, ErrorRates, Scores, class_scores, edit_distance, error_rates, score
