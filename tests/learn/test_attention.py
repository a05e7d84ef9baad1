"""What each attention is for: a token that is marked, a place that is predicted, an answer in another sentence."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import draw
from qkv.attention import build_attention, drawing, sentence_numbers
from qkv.attention.local import LocalP
from qkv.layers import Embedding, Stack
from qkv.models import TransformerConfig
from qkv.objectives.reinforce import surrogate
from qkv.positions import Places, Sinusoidal

# -- the marked token: 8 noisy vectors of 4 classes, one of them flagged; which class has the flagged one? -------------

TOKENS, CLASSES, WIDTH = 8, 4, 16


class Marked(nn.Module):
    """One learned query. Only the keys see the flag: if values had it, not to be taken could be a sign of a class."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        self.query, self.key = nn.Parameter(torch.randn(1, 1, 1, WIDTH)), nn.Linear(WIDTH + 1, WIDTH)
        self.attend = build_attention(attention, TransformerConfig(d_model=WIDTH, n_heads=1), "memory")
        self.answer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, flag: Tensor, at: Places) -> tuple[Tensor, Tensor]:
        k = self.key(torch.cat((x, flag[..., None]), dim=-1))[:, None]  # (B, 1, S, K)
        context, weights = self.attend.plain(self.query.expand(len(x), -1, -1, -1), k, x[:, None], at)
        return self.answer(context[:, 0, 0]), weights[:, 0, 0]


def marked(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vectors (rows, 8, 16), flags (rows, 8), which one is flagged, and its class."""
    prototypes = draw(CLASSES, WIDTH, seed=0)
    classes = torch.randint(CLASSES, (rows, TOKENS), generator=generator)
    chosen = torch.randint(TOKENS, (rows, 1), generator=generator)
    x = prototypes[classes] + 0.3 * torch.randn(rows, TOKENS, WIDTH, generator=generator)
    return x, F.one_hot(chosen[:, 0], TOKENS).float(), chosen[:, 0], classes.gather(1, chosen)[:, 0]


def place() -> Places:
    return Places(torch.zeros(1, dtype=torch.long), torch.arange(TOKENS))


def learn_to_point(attention: str, steps: int) -> tuple[float, float]:
    """How often the class is right, and how often the weights are largest at the flag; on vectors never seen."""
    torch.manual_seed(1)
    model, generator = Marked(attention), torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(steps):
        x, flag, _, wanted = marked(64, generator)
        with drawing() as choices:
            likelihood = -F.cross_entropy(model(x, flag, place())[0], wanted, reduction="none")
        loss = surrogate(choices, likelihood.detach(), torch.ones(64)) - likelihood.sum()
        optimiser.zero_grad()
        (loss / 64).backward()
        optimiser.step()
    x, flag, chosen, wanted = marked(1000, torch.Generator().manual_seed(2))
    logits, weights = model.eval()(x, flag, place())
    return (logits.argmax(-1) == wanted).float().mean().item(), (weights.argmax(-1) == chosen).float().mean().item()


@pytest.mark.parametrize("attention", ["soft", "top_k(k=2)", "straight_through(sample=True)", "hard"])
def test_the_marked_token_is_found_and_pointed_at(attention: str) -> None:
    """Straight-through without draws often stops at three classes of four: it never tries the keys of the last."""
    accuracy, pointing = learn_to_point(attention, 300)
    assert accuracy > 0.99
    assert pointing > 0.99


def test_without_attention_the_marked_token_is_not_found() -> None:
    """The mean of all eight values, by scores that do not read the keys: the task does need a choice."""
    assert learn_to_point("location", 300)[0] < 0.6


# -- the shift: the answer at t is the token at t + 3 ------------------------------------------------------------------

LENGTH, SHIFT, SYMBOLS = 12, 3, 10


class Shifted(nn.Module):
    """Queries know their place, the keys do not: only a place that is predicted can find the token."""

    def __init__(self) -> None:
        super().__init__()
        c = TransformerConfig(d_model=WIDTH, n_heads=1)
        self.at = Places(torch.arange(LENGTH - SHIFT), torch.arange(LENGTH))
        self.places = Sinusoidal(c).embed(torch.zeros(1, LENGTH - SHIFT, WIDTH), self.at)
        self.query, self.attend = nn.Linear(WIDTH, WIDTH), LocalP(c, radius=4)
        self.key, self.value = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(SYMBOLS, WIDTH)
        self.answer = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, src: Tensor) -> Tensor:
        q = self.query(self.places).expand(len(src), 1, -1, -1)
        return self.answer(self.attend(q, self.key(src)[:, None], self.value(src)[:, None], self.at)[:, 0])

    def distance(self) -> float:
        """The mean of |p_t - (t + 3)|."""
        scores = torch.zeros(1, 1, LENGTH - SHIFT, LENGTH)
        predicted = self.attend.place(scores, self.query(self.places)[:, None]).flatten()
        return (predicted - torch.arange(SHIFT, LENGTH)).abs().mean().item()


def test_local_p_learns_where_to_look() -> None:
    torch.manual_seed(1)
    model, generator = Shifted(), torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    assert model.distance() > 1.5
    for _ in range(250):
        src = torch.randint(SYMBOLS, (32, LENGTH), generator=generator)
        loss = F.cross_entropy(model(src).flatten(0, 1), src[:, SHIFT:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert model.distance() < 1


# -- the lookup: "A=3 . B=5 . C=1 . B?" asks for 5, which stands in another sentence -----------------------------------

NAMES, VALUES = 3, 5
ASK, END, VOCABULARY = NAMES * VALUES, NAMES * VALUES + NAMES, NAMES * VALUES + NAMES + 1


def documents(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Ids (rows, 7), the sentence that each belongs to, and the value that is asked for."""
    values = torch.randint(VALUES, (rows, NAMES), generator=generator)
    asked = torch.randint(NAMES, (rows, 1), generator=generator)
    facts = torch.arange(NAMES) * VALUES + values
    ids = torch.stack((facts, torch.full_like(facts, END)), dim=2).flatten(1)  # fact, end, fact, end ..
    ids = torch.cat((ids, ASK + asked), dim=1)
    return ids, sentence_numbers(ids, [END]), values.gather(1, asked)[:, 0]


def look_up(limit: str) -> float:
    """How often the value is right on documents never seen."""
    torch.manual_seed(1)
    sizes = {"d_model": WIDTH, "d_ff": 32, "n_heads": 2, "dropout": 0.0, "position": "none"}
    stack = Stack(TransformerConfig(**sizes, encoder_attention=f"scope(limit={limit!r})"), layers=1)
    table, answer, generator = Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VALUES), torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam([*stack.parameters(), *table.parameters(), *answer.parameters()], lr=1e-2)

    def ask(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        ids, sentence, wanted = documents(rows, generator)
        at = Places.span(0, ids.size(1), ids.device, sentence=sentence)
        return answer(stack(table(ids), at, None)[:, -1]), wanted

    for _ in range(250):
        logits, wanted = ask(64, generator)
        loss = F.cross_entropy(logits, wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    logits, wanted = ask(1000, torch.Generator().manual_seed(2))
    return (logits.argmax(-1) == wanted).float().mean().item()


def test_an_answer_in_another_sentence_is_found_with_the_document_in_view_only() -> None:
    assert look_up("document") > 0.95
    assert look_up("sentence") < 0.3  # one in five by chance
