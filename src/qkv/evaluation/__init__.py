"""How good an answer is: BLEU and chrF of translations, error rates of pronunciations, macro-F1 of classes."""

from qkv.evaluation.figures import FIGURES, Figure, better, in_words
from qkv.evaluation.scores import ClassScores, ErrorRates, Scores, class_scores, edit_distance, error_rates, score
