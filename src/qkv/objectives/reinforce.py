"""REINFORCE: how hard attentions learn, whose draws no gradient passes through."""

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.attention import Choice
from qkv.models import Outputs

DECAY = 0.9  # of the moving baseline: arctic-captions, the code of Xu et al. 2015


def reinforce(outputs: Outputs, labels: Tensor, pad: int) -> Tensor:
    """What the hard attentions of a model add to a loss that is summed over the real tokens of labels (B, T).

    The reward of a sentence is the mean log-likelihood of its tokens.
    """
    real = labels != pad
    with torch.no_grad():  # a reward is a number: what it is made of learns by the loss itself
        logits = outputs.projection(outputs.hidden[:, : labels.size(1)])  # (B, T, V)
        log_p = logits.float().log_softmax(dim=-1)
        right = log_p.gather(-1, labels[:, :, None]).squeeze(-1) * real  # (B, T)
        tokens = real.sum(dim=1)
        reward = right.sum(dim=1) / tokens.clamp(min=1)  # (B,)
    return surrogate(outputs.choices, reward, tokens)


def surrogate(choices: Sequence[Choice], reward: Tensor, tokens: Tensor) -> Tensor:
    """Xu et al. 2015, section 4.1: a term with the gradient -(l_r (R - b) grad log p(s) + l_e grad H), summed.

    reward R (B,), the means over `tokens` (B,) of each sentence: times its tokens, like the loss that it is added to.
    Each baseline b is used as it was, and then moves on to 0.9 b + 0.1 mean(R).
    """
    total = reward.new_zeros(())
    for choice in choices:
        gain = tokens * (reward - choice.baseline)  # (B,)
        total = total - (choice.reward_weight * gain * choice.log_p + choice.entropy_weight * choice.entropy).sum()
        if (mean := reward.mean()).isfinite():  # a batch gone wrong is left out of training, and of the baseline too
            choice.baseline.lerp_(mean, 1 - DECAY)
    return total
