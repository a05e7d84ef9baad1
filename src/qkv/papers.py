"""What each paper is made of: a model where its computation is new, an objective where its question is, and a task.

Plain data, so that `qkv list papers` need not import torch.
"""

from typing import NamedTuple


class Paper(NamedTuple):
    """Names out of MODELS, with what the paper sets, OBJECTIVES and TASKS; `recipe` is one of recipes/; `row` is what
    it is called where the pre-trained family is compared, "" if it is none of that."""

    cited: str
    model: str
    objective: str
    task: str
    recipe: str
    row: str = ""

    @property
    def summary(self) -> str:
        return f"{self.cited}: {self.model}, asked for {self.objective} by the task {self.task}; --recipe {self.recipe}"


KNOWLEDGE = " | ".join(f"masked_lm{unit} + next_sentence" for unit in ("", "(unit='phrase')", "(unit='entity')"))
CONTINUAL = "masked_lm(unit='word') | capitalisation | token_document | sentence_order | sentence_distance"
GLUE = {"sst2": "classes", "cola": "classes", "mrpc": "classes", "rte": "classes", "stsb": "number", "wnli": "classes"}
TOGETHER = f"each(parts={[f'{name}={asked}' for name, asked in GLUE.items()]})"
WAYS = ("2 * (masked_lm(unit='ngram') + next_sentence) | 2 * sequence_to_sequence_lm(unit='ngram') | "
        "left_to_right_lm(unit='ngram') | right_to_left_lm(unit='ngram')")  # fmt: skip
PAPERS = {
    "bahdanau": Paper("Bahdanau et al. 2015", "recurrent(decoder='bahdanau', attention='additive', cell='gru')",
                      "translation", "translate", "bahdanau-multi30k"),
    "luong": Paper("Luong et al. 2015", "recurrent(bidirectional=False)", "translation", "translate",
                   "luong-multi30k"),
    "convs2s": Paper("Gehring et al. 2017", "convolutional", "translation", "translate", "convs2s-multi30k"),
    "transformer": Paper("Vaswani et al. 2017", "transformer", "translation", "translate", "multi30k-en-de"),
    "ssru": Paper("Kim et al. 2019", "ssru", "translation", "translate", "ssru-multi30k"),
    "han": Paper("Yang et al. 2016", "hierarchical", "classes", "classify", "imdb-han"),
    "aoa": Paper("Cui et al. 2017", "reader", "cloze", "cloze", "cloze-aoa"),
    "biaffine": Paper("Dozat & Manning 2017", "head_finder", "heads", "heads", "heads-structural"),
    "transe": Paper("Bordes et al. 2013", "transe", "links", "graph", "transe-ewt"),
    "elmo": Paper("Peters et al. 2018", "elmo", "bidirectional_lm", "fill", "elmo-tiny", "ELMo"),
    "gpt": Paper("Radford et al. 2018", "gpt", "causal_lm", "language_model", "gpt-tiny", "GPT"),
    "gpt2": Paper("Radford et al. 2019", "gpt2", "causal_lm", "language_model", "gpt2-tiny", "GPT-2"),
    "llama": Paper("Touvron et al. 2023", "llama", "causal_lm", "language_model", "llama-tiny"),
    "ulmfit": Paper("Howard & Ruder 2018", "awd_lstm", "causal_lm + 2 * activation + temporal_activation",
                    "language_model", "ulmfit-tiny", "ULMFiT"),
    "siatl": Paper("Chronopoulou et al. 2019", "awd_lstm", "classes + fading * causal_lm", "classify",
                   "siatl-movie-reviews", "SiATL"),
    "bert": Paper("Devlin et al. 2019", "bert", "masked_lm + next_sentence", "fill", "bert-tiny", "BERT"),
    "roberta": Paper("Liu et al. 2019", "roberta", "masked_lm", "fill", "roberta-tiny", "RoBERTa"),
    "spanbert": Paper("Joshi et al. 2020", "bert", "masked_lm(unit='span') + span_boundary", "fill", "spanbert-tiny",
                      "SpanBERT"),
    "ernie": Paper("Sun et al. 2019", "bert(activation='relu')", KNOWLEDGE, "fill", "ernie-tiny", "ERNIE 1.0"),
    "mtdnn": Paper("Liu et al. 2019 (MT-DNN; it has BERT's pre-training)", "bert", TOGETHER, "joint", "mtdnn-glue",
                   "MT-DNN"),
    "xlnet": Paper("Yang et al. 2019", "xlnet", "permutation_lm", "fill", "xlnet-tiny", "XLNet"),
    "ernie2": Paper("Sun et al. 2020", "ernie2", CONTINUAL, "fill", "ernie2-tiny", "ERNIE 2.0"),
    "ernie_thu": Paper("Zhang et al. 2019 (ERNIE of Tsinghua)", "ernie_thu",
                       "masked_lm + next_sentence + denoising_entities", "fill", "ernie-thu-tiny", "ERNIE of Tsinghua"),
    "unilm": Paper("Dong et al. 2019", "unilm", WAYS, "fill", "unilm-tiny", "UniLM"),
    "bigbird": Paper("Zaheer et al. 2020", "bert(attention='bigbird(block=64, random=3)', activation='gelu_tanh')",
                     "masked_lm", "fill", "bert-long"),
    "linformer": Paper("Wang et al. 2020", "bert(attention=\"linformer(k=256, share='layers')\")", "masked_lm", "fill",
                       "linformer-long"),
    "tdmca": Paper("Liu et al. 2018", "gpt2(attention='local(block=64), memory_compressed(factor=3)', layers=5)",
                   "continuation", "summarise", "scitldr-tdmca"),
    "mass": Paper("Song et al. 2019", "transformer", "mass", "unpaired", "mass-multi30k", "MASS"),
}  # fmt: skip
