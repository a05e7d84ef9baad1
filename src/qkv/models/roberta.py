"""RoBERTa, a BERT trained for longer on more (Liu et al. 2019, "RoBERTa: A Robustly Optimized BERT Pretraining")."""

from dataclasses import dataclass

from qkv.config import setting
from qkv.models.bert import Bert, BertConfig
from qkv.text.frames import FRAMES


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(BertConfig):
    """Liu et al. 2019, Table 9, base, unless said otherwise; epsilon and segments are the released model's."""

    vocab_size: int = setting(50265, "size of the vocabulary (read from the tokenizer)")
    eps: float = setting(1e-5, "added to the variance in layer norms")
    segments: int = setting(1, "vectors that tell the first text from the second; one does not")


class Roberta(Bert):
    """Liu et al. 2019, section 4: BERT without segments, which reads <s> A </s></s> B </s>.

    Differs: positions count from 0, where the authors' table has two rows for nothing before its first.
    """

    config_class = RobertaConfig
    config: RobertaConfig
    sub_words = "byte_bpe"
    frame = FRAMES["roberta"]
