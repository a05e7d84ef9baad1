"""The loss around trained weights, with and without residual connections."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.look.picture import Given, Picture, canvas, name

LAYERS, WIDTH, SIDE, REACH = 12, 16, 15, 1.0
STEPS = 150  # of training


class TanhLayers(nn.Module):
    """Layers of tanh(x W), each with its input added to it or not."""

    def __init__(self, *, residual: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.answer, self.residual = nn.Linear(WIDTH, 1), residual

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x).tanh() if self.residual else layer(x).tanh()
        answer: Tensor = self.answer(x)
        return answer[:, 0]


def landscape(given: Given) -> Picture:
    """Li et al. 2018, section 4: the loss in a plane of two random directions, as long as the weights, row by row."""
    found = {title: surface(residual=has) for title, has in (("with residuals", True), ("without residuals", False))}
    at = torch.linspace(-REACH, REACH, SIDE).tolist()
    figure = canvas(10, 4.4)
    for axes, (title, losses) in zip(figure.subplots(1, 2), found.items(), strict=True):
        image = axes.contourf(at, at, losses.log10().numpy(), levels=20, cmap="viridis")
        axes.plot(0, 0, "w+")
        name(axes, f"{title}: the weights found have a loss of {losses[SIDE // 2, SIDE // 2]:.2g}")
        figure.colorbar(image, ax=axes, label="log10 of the loss")
    return Picture([figure], {"at": at, "losses": found})


def surface(*, residual: bool) -> Tensor:
    """Train on a toy task, then the loss at each point of the plane (SIDE, SIDE); the middle is what was found."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = TanhLayers(residual=residual)
        x = torch.randn(128, WIDTH)
        wanted = x[:, 0] * x[:, 1]
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(STEPS):
            optimiser.zero_grad()
            F.mse_loss(model(x), wanted).backward()
            optimiser.step()
        one, two = ([direction(weight) for weight in model.parameters()] for _ in range(2))
    centre = [weight.detach().clone() for weight in model.parameters()]
    losses = torch.zeros(SIDE, SIDE, dtype=torch.float64)
    with torch.no_grad():
        for i, b in enumerate(torch.linspace(-REACH, REACH, SIDE)):
            for j, a in enumerate(torch.linspace(-REACH, REACH, SIDE)):
                for weight, start, u, v in zip(model.parameters(), centre, one, two, strict=True):
                    weight.copy_(start + a * u + b * v)
                losses[i, j] = F.mse_loss(model(x), wanted)
    return losses


def direction(weight: Tensor) -> Tensor:
    """A random direction, each row (filter) of which is as long as the weight's own; biases stay."""
    if weight.dim() == 1:
        return torch.zeros_like(weight)
    drawn = torch.randn_like(weight)
    scaled: Tensor = drawn / drawn.norm(dim=1, keepdim=True) * weight.detach().norm(dim=1, keepdim=True)
    return scaled
