"""How good an answer is: BLEU and chrF of translations, error rates of pronunciations, macro-F1 of classes."""

from qkv.evaluation.classes import ClassScores, class_scores
from qkv.evaluation.error_rate import ErrorRates, edit_distance, error_rates
from qkv.evaluation.figures import FIGURES, Figure, better, in_words
from qkv.evaluation.scores import Scores, score

__all__ = [
    "FIGURES",
    "ClassScores",
    "ErrorRates",
    "Figure",
    "Scores",
    "better",
    "class_scores",
    "edit_distance",
    "error_rates",
    "in_words",
    "score",
]
