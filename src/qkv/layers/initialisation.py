"""What the weights of a model are drawn from at first."""

from torch import nn

from qkv.layers.embedding import Embedding
from qkv.positions import Learned


def init_xavier(model: nn.Module) -> None:
    """Glorot and Bengio 2010, as tensor2tensor and fairseq do: variance 2 / (rows + columns); biases are 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def init_normal(model: nn.Module, *, std: float = 0.02, positions: float = 0.02, added: float = 1.0) -> None:
    """Radford et al. 2018, Devlin et al. 2019: all weights and tables from N(0, std); biases are 0.

    `positions` is the std of learned positions, `added` the factor for what ends a sub-layer and is added to x.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            is_added = name.endswith((".attention.output", ".memory_attention.output", ".feed_forward.contract"))
            nn.init.normal_(module.weight, std=std * added if is_added else std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embedding | Learned):
            for table in module.parameters(recurse=False):
                nn.init.normal_(table, std=positions if isinstance(module, Learned) else std)
