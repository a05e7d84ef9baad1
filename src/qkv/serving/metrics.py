"""Figures for Prometheus: how many, how long, how full; never who or what (no address, no key, no text)."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """A registry of its own for each server; labels come from fixed lists: routes, statuses, model names."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("qkv_requests", "Requests answered.", ["route", "status"], registry=own)
        self.seconds = Histogram("qkv_seconds", "Time to the answer.", ["route"], buckets=SECONDS, registry=own)
        self.batch = Histogram("qkv_batch_sentences", "Texts answered together.", buckets=SENTENCES, registry=own)
        self.waiting = Gauge("qkv_waiting_sentences", "Sentences in all queues.", registry=own)
        self.abandoned = Counter("qkv_abandoned_sentences", "Left the queue as their client hung up.", registry=own)
        self.active = Gauge("qkv_active_requests", "Requests being answered.", registry=own)
        self.loaded = Gauge("qkv_loaded_models", "Model folders in memory.", registry=own)
        self.characters = Counter("qkv_characters", "Characters of texts given.", ["model"], registry=own)
        self.tokens = Counter("qkv_tokens", "Tokens written by language models.", ["model"], registry=own)
        self.terms = Counter("qkv_glossary_terms", "Glossary terms in sources, and those used.", ["used"], registry=own)

    def total(self, name: str, **labels: str) -> float:
        """The sum of a counter over all samples that have these labels."""
        samples = (sample for metric in self.registry.collect() for sample in metric.samples if sample.name == name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())
