"""A stack of blocks with the position encoding that it owns: an encoder or a decoder."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from qkv.config import build
from qkv.errors import InputError
from qkv.layers.block import Block, Seen, Use
from qkv.layers.dropout import Dropout
from qkv.layers.stack_config import StackConfig
from qkv.positions import POSITIONS, Places, Position


class Stack(nn.Module):
    """N blocks over embedded tokens. With pre-norm a last normalisation follows, since the last sum has had none.

    With `norm_inputs` a first one stands before them (BERT), behind the positions.
    """

    def __init__(
        self,
        c: StackConfig,
        *,
        layers: int,
        use: Use = "encoder",
        has_memory: bool = False,
        norm_inputs: bool = False,
    ) -> None:
        super().__init__()
        first = build(POSITIONS, c.position, c)
        more = [build(POSITIONS, c.position, c) for _ in range(layers - 1 if first.per_layer else 0)]
        self.positions = nn.ModuleList([first, *more])  # one for all layers, or one for each
        self.norm_inputs = nn.LayerNorm(c.d_model, c.eps) if norm_inputs else nn.Identity()
        self.dropout = Dropout(c.dropout)
        self.blocks = nn.ModuleList(Block(c, use=use, has_memory=has_memory) for _ in range(layers))
        self.position_name = c.position
        self.recompute = False  # in training, keep only what passes between blocks: see forward
        self.norm = nn.LayerNorm(c.d_model, c.eps) if c.norm == "pre" else nn.Identity()

    @property
    def position(self) -> Position:
        """The one that touches the embeddings."""
        first: Position = self.positions[0]  # type: ignore[assignment]
        return first

    def refuse_trees(self, given: str) -> None:
        """For a model whose examples, `given`, have no dependency trees."""
        if self.position.needs_tree:
            raise InputError(
                f"{self.position_name!r} needs a dependency tree for each sentence, which {given} do not have; "
                "use qkv train --task heads, or another position"
            )

    def forward(
        self,
        x: Tensor,
        at: Places,
        mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        seen: list[Seen] | None = None,
    ) -> Tensor:
        """With `recompute`, the backward pass computes each block once more: less memory for a third more time.

        Chen et al. 2016, section 4: memory for activations falls from N blocks to one and N inputs.
        """
        x = self.dropout(self.norm_inputs(self.position.embed(x, at)))  # (B, T, D)
        for i, block in enumerate(self.blocks):
            given = (
                x,
                at,
                self.positions[i % len(self.positions)],
                mask,
                memory,
                memory_mask,
                seen[i] if seen else None,
            )
            again = self.recompute and self.training and torch.is_grad_enabled()
            x = checkpoint(block, *given, use_reentrant=False) if again else block(*given)
        normed: Tensor = self.norm(x)
        return normed
