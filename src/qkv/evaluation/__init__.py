"""How good an answer is: BLEU and chrF of translations, error rates of pronunciations."""

from qkv.evaluation.error_rate import ErrorRates, edit_distance, error_rates
from qkv.evaluation.scores import Scores, score

__all__ = ["ErrorRates", "Scores", "edit_distance", "error_rates", "score"]
