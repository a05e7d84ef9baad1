"""How good an answer is: BLEU and chrF of translations, error rates of pronunciations, macro-F1 of classes."""

from qkv.evaluation.classes import ClassScores, class_scores
from qkv.evaluation.error_rate import ErrorRates, edit_distance, error_rates
from qkv.evaluation.scores import Scores, score

__all__ = ["ClassScores", "ErrorRates", "Scores", "class_scores", "edit_distance", "error_rates", "score"]
