"""Validation: what a model is worth on sentences that it did not learn from."""

import math

import torch

from qkv.data import Corpus, in_order
from qkv.decoding import Translator
from qkv.evaluation import score
from qkv.models import Model
from qkv.text.tokenizer import Tokenizer
from qkv.training.settings import Settings

VALID_TOKENS = 4096


class Judge:
    """The loss over all held-out pairs, and BLEU of the first ones as a person would see them."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer, valid: Corpus) -> None:
        self.settings, self.tokenizer, self.valid = settings, tokenizer, valid
        shard = valid.shard(0)
        rows = range(min(len(shard), settings.training.bleu_sentences))
        self.sources = tokenizer.decode_batch([shard.source(row).tolist() for row in rows])
        self.references = tokenizer.decode_batch([shard.target(row).tolist() for row in rows])

    @torch.inference_mode()
    def __call__(self, model: Model) -> dict[str, float]:
        model.eval()
        device, total, likelihood, tokens = next(model.parameters()).device, 0.0, 0.0, 0
        for batch in in_order(self.valid, VALID_TOKENS):
            inputs, labels = self.settings.objective.prepare(batch.to(device))
            loss = self.settings.objective.loss(model(*inputs), labels)
            total, likelihood = total + float(loss.total), likelihood + float(loss.parts["likelihood"])
            tokens += loss.tokens
        figures = {"loss": likelihood / tokens, "smoothed_loss": total / tokens}
        figures["perplexity"] = math.exp(min(figures["loss"], 50))
        if self.sources:
            translator = Translator(model, self.tokenizer, {"target": self.settings.target})
            texts = [line.text for line in translator.translate(self.sources, beam=1)]
            figures["bleu"] = score(texts, self.references, target_language=self.settings.target).bleu
        return figures
