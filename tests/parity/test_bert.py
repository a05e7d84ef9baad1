"""Inputs and Stack as BERT's encoder, against transformers' BertModel with the same random weights."""

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from qkv.attention import padding
from qkv.convert.foreign import rename
from qkv.layers import Inputs, Stack, StackConfig
from qkv.positions import Places

V, D, LAYERS = 60, 32, 3
BLOCK, OURS = r"encoder\.layer\.(\d+)\.", r"stack.blocks.\1."
NAMES = [
    (r"embeddings\.word_embeddings\.weight", "inputs.weight"),
    (r"embeddings\.token_type_embeddings\.weight", "inputs.segments"),
    (r"embeddings\.position_embeddings\.weight", "stack.positions.0.weight"),
    (r"embeddings\.LayerNorm\.(\w+)", r"stack.norm_inputs.\1"),
    (BLOCK + r"attention\.self\.(query|key|value)\.(\w+)", OURS + r"attention.\2.\3"),
    (BLOCK + r"attention\.output\.dense\.(\w+)", OURS + r"attention.output.\2"),
    (BLOCK + r"attention\.output\.LayerNorm\.(\w+)", OURS + r"attention_residual.norm.\2"),
    (BLOCK + r"intermediate\.dense\.(\w+)", OURS + r"feed_forward.expand.\2"),
    (BLOCK + r"output\.dense\.(\w+)", OURS + r"feed_forward.contract.\2"),
    (BLOCK + r"output\.LayerNorm\.(\w+)", OURS + r"feed_forward_residual.norm.\2"),
]


def twins() -> tuple[BertModel, nn.ModuleDict]:
    torch.manual_seed(0)
    sizes = BertConfig(vocab_size=V, hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=4,
                       intermediate_size=48, max_position_embeddings=20, attn_implementation="eager")  # fmt: skip
    theirs = BertModel(sizes, add_pooling_layer=False).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.normal_(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.3)
    c = StackConfig(vocab_size=V, d_model=D, d_ff=48, n_heads=4, activation="gelu", norm="post", eps=1e-12,
                    position="learned", attention_bias=True, max_length=20)  # fmt: skip
    inputs, stack = Inputs(V, D, segments=2), Stack(c, layers=LAYERS, norm_inputs=True)
    ours = nn.ModuleDict({"inputs": inputs, "stack": stack}).eval()
    ours.load_state_dict({rename(name, NAMES): value for name, value in theirs.state_dict().items()})
    return theirs, ours


def test_every_hidden_state_with_segments_and_padding() -> None:
    theirs, ours = twins()
    ids = torch.randint(1, V, (3, 9))
    segments = (torch.arange(9) > torch.tensor([3, 5, 8])[:, None]).long()
    real = torch.arange(9) < torch.tensor([9, 7, 4])[:, None]
    ids = ids.masked_fill(~real, 0)
    expected = theirs(ids, real.long(), segments, output_hidden_states=True).hidden_states
    found: list[Tensor] = []
    for block in ours["stack"].blocks:
        block.register_forward_hook(lambda _, given, __: found.append(given[0]))
    found.append(ours["stack"](ours["inputs"](ids, segments), Places.span(0, 9, ids.device), padding(ids, 0)))
    assert len(found) == len(expected) == LAYERS + 1
    for mine, other in zip(found, expected, strict=True):
        assert (mine - other)[real].abs().max() <= 1e-5


def test_without_segments_all_tokens_stand_in_the_first() -> None:
    theirs, ours = twins()
    ids = torch.randint(1, V, (2, 5))
    found = ours["stack"](ours["inputs"](ids), Places.span(0, 5, ids.device), None)
    assert (found - theirs(ids).last_hidden_state).abs().max() <= 1e-5
