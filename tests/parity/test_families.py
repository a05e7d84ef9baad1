"""Every class of transformers that qkv reads, with random weights: as its folder is opened, and as ours is written."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from kit import asked, padded, write_words
from qkv import folder
from qkv.attention import recording
from qkv.convert import adopt
from qkv.convert.export import write_hugging_face
from qkv.convert.families import bert, gpt, llama, xlnet
from qkv.convert.family import TABLES, Family, find_part, our_weights, plain
from qkv.models import Headed, count_parameters
from qkv.objectives import Asked, CausalLM, Choices, Classes, MaskedLM, NextSentence, Spans, Tags, Together
from qkv.objectives.answers import NO_TAG
from qkv.text.tokenizer import PAD

V, T, LAYERS, LENGTHS = 60, 11, 2, [11, 7, 1, 9]
ENCODER = {"hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 48,
           "max_position_embeddings": 20, "layer_norm_eps": 1e-6}  # fmt: skip
LLAMA = {key: value for key, value in ENCODER.items() if key != "layer_norm_eps"}
WRITER = {"n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 20}
LABELS = {"id2label": {0: "no", 1: "maybe", 2: "yes"}, "label2id": {"no": 0, "maybe": 1, "yes": 2}}
BERTS = ("[unused]", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTAS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
XLNETS = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")
NEXT = ("Model", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction")
ANSWERS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
# Their family, their settings, the special tokens that a vocabulary begins with, the ends of the classes' names.
FAMILIES: dict[str, tuple[Family, dict[str, Any], Sequence[str], Sequence[str]]] = {
    "Bert": (bert.BERT, {**ENCODER, "pad_token_id": 1}, BERTS, (*NEXT, *ANSWERS)),
    "Roberta": (bert.ROBERTA, {**ENCODER, "type_vocab_size": 1}, ROBERTAS, ("Model", "ForMaskedLM", *ANSWERS)),
    "XLMRoberta": (bert.XLM_ROBERTA, ENCODER, ROBERTAS, ("Model", "ForMaskedLM", "ForSequenceClassification")),
    "Ernie": (bert.ERNIE, {**ENCODER, "hidden_act": "relu", "pad_token_id": 1}, BERTS, (*NEXT, *ANSWERS)),
    "Ernie 2": (bert.ERNIE2, {**ENCODER, "use_task_id": True, "task_type_vocab_size": 5, "pad_token_id": 1}, BERTS,
                (*NEXT, *ANSWERS)),
    "DistilBert": (bert.DISTILBERT, {"dim": 32, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 48, "pad_token_id": 1,
                                     "max_position_embeddings": 20}, BERTS, ("Model", "ForMaskedLM", *ANSWERS)),
    "BigBird": (bert.BIG_BIRD, {**ENCODER, "block_size": 1, "num_random_blocks": 1, "pad_token_id": 1}, BERTS,
                (*NEXT[:3], *ANSWERS[:2], ANSWERS[3])),
    "BigBird, full": (bert.BIG_BIRD, {**ENCODER, "attention_type": "original_full", "pad_token_id": 1}, BERTS,
                      ("Model", "ForMaskedLM", "ForSequenceClassification")),
    "OpenAIGPT": (gpt.GPT, WRITER, ("<unk>",), ("Model", "LMHeadModel", "DoubleHeadsModel",
                                                "ForSequenceClassification")),
    "GPT2": (gpt.GPT2, {**WRITER, "n_inner": 40}, ("<|endoftext|>",),
             ("Model", "LMHeadModel", "DoubleHeadsModel", *ANSWERS[:3])),
    "Llama": (llama.LLAMA, {**LLAMA, "rope_theta": 500.0}, ROBERTAS[:1] + ROBERTAS[2:4], ("ForCausalLM",)),
    "Llama, tied": (llama.LLAMA, {**LLAMA, "tie_word_embeddings": True}, ROBERTAS[:1] + ROBERTAS[2:4],
                    ("ForCausalLM",)),
    "XLNet": (xlnet.XLNET, {"d_model": 32, "n_layer": LAYERS, "n_head": 4, "d_inner": 48, "layer_norm_eps": 1e-6},
              XLNETS, ("Model", "LMHeadModel", *ANSWERS[:2], "ForQuestionAnsweringSimple", "ForMultipleChoice")),
}  # fmt: skip
WRITING = ("LMHeadModel", "ForCausalLM")
CASES = [(family, end) for family, (*_, ends) in FAMILIES.items() for end in ends]
every_class = pytest.mark.parametrize(("name", "end"), CASES)


def build(name: str, end: str) -> Any:
    """With random weights, biases and norms too, as they are in training without dropout."""
    family, sizes, _, _ = FAMILIES[name]
    kind: Any = getattr(transformers, f"{family.classes}{end}")
    off = {key: 0.0 for key, ours, _ in family.settings if ours in ("dropout", "attention")}
    more = ("embd_pdrop", "summary_first_dropout", "summary_last_dropout", "seq_classif_dropout", "qa_dropout")
    off |= dict.fromkeys(more, 0.0)
    labels = LABELS if "Classification" in end else {"num_labels": 1} if end == "DoubleHeadsModel" else {}
    torch.manual_seed(0)
    config = kind.config_class(vocab_size=V, **sizes, **off, **labels, attn_implementation="eager")
    if not family.predicts and end == "ForSequenceClassification":
        config.pad_token_id = V - 1
    theirs = kind(config).eval()
    with torch.no_grad():
        for weight, parameter in theirs.named_parameters():
            is_norm = ("norm" in weight.lower() or ".ln_" in f".{weight}") and weight.endswith("weight")
            parameter.normal_(1.0 if is_norm else 0.0, 0.2)
    return theirs


class Twins:
    """Theirs, ours opened from its folder, and the same texts for both: (B, T), padded."""

    def __init__(self, name: str, end: str, place: Path) -> None:
        self.family, _, special, _ = FAMILIES[name]
        self.theirs = build(name, end)
        self.theirs.save_pretrained(place)
        write_words(place, special, V)
        self.loaded = folder.load(place)
        self.ours: Any = self.loaded.model
        self.backbone: Any = self.ours.backbone if isinstance(self.ours, Headed) else self.ours
        _, rows = adopt(place, size=V, extra=self.backbone.frame.specials)
        self.rows = torch.tensor(rows)
        known = torch.arange(len(rows))[(self.rows >= 0) & (torch.arange(len(rows)) > 3)]
        self.ids = padded(LENGTHS, V)
        self.ids = torch.where(self.ids == PAD, PAD, known[self.ids % len(known)])
        self.real = self.ids != PAD

    def given(self, ids: Tensor | None = None) -> dict[str, Any]:
        """What theirs reads, or the same with other ids; nothing sees padding on the right in GPT."""
        pad = max(0, getattr(self.theirs.config, "pad_token_id", 0) or 0)
        ids = torch.where(self.real, self.rows[self.ids], pad) if ids is None else ids
        inputs = {"input_ids": ids, "attention_mask": self.real.long(), **self.more("token_type_ids", "task_type_ids")}
        return {key: self.padded_left(value) for key, value in inputs.items()} if self.family.pads_left else inputs

    def as_read(self, theirs: Any, given: dict[str, Any]) -> dict[str, Any]:
        """The same as a class reads it: where it chooses, each row is a choice of one question."""
        kind = theirs.__class__.__name__
        if kind.endswith("DoubleHeadsModel"):
            return {"input_ids": given["input_ids"][None], "mc_token_ids": self.real.sum(dim=1)[None] - 1}
        if kind.endswith("MultipleChoice"):  # two of these classes do not flatten all that they read
            return {key: value if key == "task_type_ids" else value[None] for key, value in given.items()}
        return given

    def alone(self, row: int, given: dict[str, Any]) -> dict[str, Any]:
        """What theirs reads of one row (1, n), without its padding."""
        real = given["attention_mask"][row].bool()
        return {key: value[row : row + 1, real] for key, value in given.items()}

    def padded_left(self, ours: Tensor) -> Tensor:
        """Rows (B, T) with their padding on the other side."""
        return torch.stack([row.roll(T - n) for row, n in zip(ours, LENGTHS, strict=True)])

    def back(self, theirs: Tensor, *dims: int) -> Tensor:
        """What they say of tokens (B, .. T ..), where ours stand."""
        if not self.family.pads_left:
            return theirs
        rows = zip(theirs, LENGTHS, strict=True)
        return torch.stack([row.roll([n - T] * max(1, len(dims)), dims or 0) for row, n in rows])

    def more(self, segments: str, task: str) -> dict[str, Tensor]:
        found = {}
        if getattr(self.backbone.config, "segments", 0) > 1:
            found[segments] = (torch.arange(T) > torch.tensor([3, 5, 8, 2])[:, None]).long() * self.real
        if self.family is bert.ERNIE2:
            number = torch.tensor([0, 4, 1, 2])
            found[task] = number[:, None].expand(-1, T) if task == "task_type_ids" else number
        return found

    def inputs(self) -> dict[str, Any]:
        return {"ids": self.ids, **self.more("segments", "task")}


@functools.cache
def twins_in(name: str, end: str, place: Path) -> Twins:
    return Twins(name, end, place)


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


@pytest.fixture
def twins(name: str, end: str, places: Path) -> Twins:
    found = twins_in(name, end, places / name / end)
    for model in (found.theirs, found.ours):
        model.zero_grad()
    return found


def answers(theirs: Any, ours: Any, t: Twins, given: dict[str, Any], rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """All that both say: every hidden state, and what is asked of the class. `rows` are their ids of ours."""
    out = theirs(**t.as_read(theirs, given), output_hidden_states=True)
    states: list[Tensor] = []
    stack = t.backbone.encoder if t.family.predicts else t.backbone.decoder
    handles = [block.register_forward_hook(lambda _, g, __: states.append(g[0])) for block in stack.blocks]
    said = ours(**t.inputs())
    for handle in handles:
        handle.remove()
    pairs = [(mine, t.back(other.reshape(mine.shape))) for mine, other in
             zip([*states, said.hidden], out.hidden_states, strict=True)]  # fmt: skip
    pairs = [(mine[t.real], other[t.real]) for mine, other in pairs]
    words = out.get("prediction_logits", out.get("logits") if theirs.__class__.__name__.endswith(
        ("MaskedLM", *WRITING, "DoubleHeadsModel")) else None)  # fmt: skip
    if words is not None:
        known = torch.arange(len(rows))[(rows >= 0) & (t.rows >= 0)]
        other = t.back(words.reshape(*t.ids.shape, -1))[..., rows[known]]
        pairs.append((said.logits[..., known][t.real], other[t.real]))
    for head in getattr(ours, "heads", {}):
        if head == "pooled" and "pooler_output" not in out:
            continue  # BigBird's classes have a pooler that they do not ask
        answer = said.answer(head)
        if head == "spans":
            ends = enumerate(("start_logits", "end_logits"))
            pairs += [(answer[:, i][t.real], t.back(out[key])[t.real]) for i, key in ends]
            continue
        key = {"pooled": "pooler_output", "choices": "mc_logits"}.get(head, "seq_relationship_logits")
        other = out[key if key in out else "logits"]
        pairs.append(
            (answer[t.real], t.back(other)[t.real]) if head == "tags" else (answer, other.reshape(answer.shape))
        )
    return pairs


def difference(pairs: list[tuple[Tensor, Tensor]]) -> float:
    return max(float((mine - other).detach().abs().max()) for mine, other in pairs)


@every_class
def test_everything_that_is_said(twins: Twins, name: str, end: str) -> None:
    pairs = answers(twins.theirs, twins.ours, twins, twins.given(), twins.rows)
    assert len(pairs) > LAYERS + (end != "Model")
    assert difference(pairs) <= 1e-5


# Of a block that BigBird sees twice, transformers counts the second time in its context, not in its map.
@pytest.mark.parametrize(("name", "end"), [(name, end) for name, end in CASES if name != "BigBird"])
def test_every_map_of_attention(twins: Twins, name: str, end: str) -> None:
    expected = twins.theirs(**twins.as_read(twins.theirs, twins.given()), output_attentions=True).attentions
    with recording(twins.ours) as maps:
        twins.ours(**twins.inputs())
    assert len(maps) == len(expected) == LAYERS
    for mine, other in zip(maps.values(), expected, strict=True):
        seen = twins.real[:, None, :, None].expand(-1, 4, -1, T)
        assert (mine - twins.back(other, 1, 2))[seen].abs().max() <= 1e-5


@every_class
def test_every_gradient(twins: Twins, name: str, end: str) -> None:
    pairs = answers(twins.theirs, twins.ours, twins, twins.given(), twins.rows)[LAYERS:]
    rng = torch.Generator().manual_seed(1)
    ways = [torch.randn(mine.shape, generator=rng) for mine, _ in pairs]
    for side in (0, 1):
        sum((pair[side] * way).sum() for pair, way in zip(pairs, ways, strict=True)).backward()
    named = twins.theirs.named_parameters()
    grads = {plain(key, twins.family.prefix): each.grad for key, each in named if each.grad is not None}
    part = find_part(twins.family, twins.theirs.config.to_dict(), grads)
    pad = getattr(twins.theirs.config, "pad_token_id", 0) or 0
    expected = our_weights(twins.family, grads, part, twins.rows.tolist(), pad, "")
    known = twins.rows >= 0
    for key, parameter in twins.ours.named_parameters():
        key = key.removeprefix("backbone.")
        if key not in expected and key.endswith("output.bias"):
            continue  # which theirs does not have
        if parameter.grad is None:
            assert key not in expected or not expected[key].any()
            continue
        mine, other = parameter.grad, expected[key]
        if key in TABLES:
            mine, other = mine[known], other[known]
        assert (mine - other).abs().max() <= 1e-4 * max(1.0, float(other.abs().max())), key


def questions(t: Twins, end: str, given: dict[str, Any]) -> list[tuple[Any, Asked, str, dict[str, Tensor]]]:
    """What a class is asked: our objective and its question, the loss of theirs, and the labels for it."""
    kinds = torch.tensor([0, 2, 1, 1])
    words = asked(t.ids[:, 1:] if end in (*WRITING, "DoubleHeadsModel") and not t.family.predicts else t.ids)
    wanted = given["input_ids"].masked_fill(given["attention_mask"] == 0, -100)
    objective: Any = MaskedLM() if words.labels.shape == t.ids.shape else CausalLM()
    right = Asked({}, (torch.tensor([2]), torch.ones(1, 4, dtype=torch.bool)), 1)
    if end in ("ForMaskedLM", *WRITING):
        return [(objective, words, "loss", {"labels": wanted})]
    if end == "ForPreTraining":
        both = Together([(1.0, "masked_lm", objective), (1.0, "next_sentence", NextSentence())])
        parts = [words, Asked({}, kinds % 2, 4)]
        question = Asked({}, words.labels, words.count, parts=parts, weights=(1.0, 1.0))
        return [(both, question, "loss", {"labels": wanted, "next_sentence_label": kinds % 2})]
    if end == "DoubleHeadsModel":
        mine = [(objective, words, "loss", {"labels": wanted[None]}), (Choices(), right, "mc_loss", {})]
        return [(*one, {**more, "mc_labels": right.labels[0]}) for *one, more in mine]  # type: ignore[list-item]
    if end == "ForMultipleChoice":
        return [(Choices(), right, "loss", {"labels": right.labels[0]})]
    if end == "ForTokenClassification":
        tags = torch.where(t.real & (torch.arange(T) % 3 > 0), torch.arange(T) % 3, NO_TAG)
        theirs = t.padded_left(tags) if t.family.pads_left else tags
        return [(Tags(), Asked({}, tags, int((tags != NO_TAG).sum())), "loss", {"labels": theirs})]
    if end.startswith("ForQuestionAnswering"):
        places = torch.tensor([[3, 7], [6, 6], [0, 0], [0, 8]])
        return [
            (Spans(), Asked({}, places, 4), "loss", {"start_positions": places[:, 0], "end_positions": places[:, 1]})
        ]
    if end == "ForNextSentencePrediction":
        return [(NextSentence(), Asked({}, kinds % 2, 4), "loss", {"labels": kinds % 2})]
    return [(Classes(), Asked({}, kinds, 4), "loss", {"labels": kinds})]


@pytest.mark.parametrize(("name", "end"), [(name, end) for name, end in CASES if end != "Model"])
@torch.no_grad()
def test_the_loss(twins: Twins, name: str, end: str) -> None:
    given, said = twins.given(), twins.ours(**twins.inputs())
    for objective, question, key, labels in questions(twins, end, given):
        mine = float(objective.loss(said, question).total) / question.count
        reads = [(twins.as_read(twins.theirs, given), labels)]
        if isinstance(objective, Spans):  # theirs may answer with padding: without any, each text by itself
            reads = [
                (twins.alone(i, given), {part: value[i : i + 1] for part, value in labels.items()}) for i in range(4)
            ]
        expected = sum(float(twins.theirs(**texts, **right)[key]) for texts, right in reads) / len(reads)
        assert abs(mine - expected) <= 1e-5 * max(1.0, abs(expected))


@every_class
def test_one_weight_with_another_sign_is_found(twins: Twins, name: str, end: str) -> None:
    """The comparison itself is tested: it must see the smallest thing that can be wrong, in body and head."""
    given = twins.given()
    body = next(key for key, _ in twins.ours.named_parameters() if key.endswith("blocks.1.attention.key.weight"))
    ends = ("output.weight", "projection.dense.weight", "projection.weight")
    ends += ("pooled.dense.0.weight",) * (end == "Model")
    last = [key for key, _ in twins.ours.named_parameters() if key.endswith(ends) and ".blocks." not in key]
    for key in (body, *last[-1:]):
        weight = twins.ours.get_parameter(key)[-1]  # of a table, the first row is of no token that they have
        one = slice(1) if twins.family is not bert.DISTILBERT else slice(None)  # whose units may be off
        with torch.no_grad():
            weight[one] *= -1
            assert difference(answers(twins.theirs, twins.ours, twins, given, twins.rows)) > 1e-5, key
            weight[one] *= -1


@every_class
def test_what_we_write_is_what_transformers_opens(twins: Twins, name: str, end: str, tmp_path: Path) -> None:
    write_hugging_face(tmp_path, twins.ours, twins.loaded.tokenizer, twins.loaded.about)
    [written] = json.loads((tmp_path / "config.json").read_text())["architectures"]
    assert written.replace("XLM", "") in (f"{twins.family.classes}{end}".replace("XLM", ""), written)
    kind: Any = getattr(transformers, written)
    theirs, report = kind.from_pretrained(tmp_path, attn_implementation="eager", output_loading_info=True)
    assert not [key for key in report["missing_keys"] if "pooler" not in key or twins.family is not bert.BIG_BIRD]
    assert not report["unexpected_keys"]
    silent = twins.backbone.config.silent if end in ("Model", *WRITING) and not twins.family.predicts else []
    kept = torch.tensor([i for i in range(len(twins.rows)) if i not in silent])
    rows = torch.full((len(twins.rows),), -1).scatter_(0, kept, torch.arange(len(kept)))
    given = twins.given(rows[twins.ids].clamp(min=0))
    assert difference(answers(theirs.eval(), twins.ours, twins, given, rows)) <= 1e-5
    back = folder.load(tmp_path)
    assert back.model.state_dict().keys() == twins.ours.state_dict().keys() or silent or name.startswith("BigBird")
    assert F.mse_loss(back.model(**twins.inputs()).hidden, twins.ours(**twins.inputs()).hidden) <= 1e-10


# Theirs, without the pooler, which is a head in ours: Devlin et al. 2019 say 110 M and 340 M, Liu et al. 2019 125 M and
# 355 M, of which two rows of positions are for nothing; Radford et al. 2018 say nothing.
COUNTS = {("Bert", "base"): 109_514_298, ("Bert", "large"): 335_174_458, ("Roberta", "base"): 124_695_897,
          ("Roberta", "large"): 355_410_009, ("OpenAIGPT", "base"): 116_534_784, ("XLNet", "base"): 116_750_336,
          ("XLNet", "large"): 360_300_800}  # fmt: skip


@pytest.mark.parametrize(("name", "preset"), COUNTS)
def test_the_sizes_of_the_papers(name: str, preset: str) -> None:
    family = FAMILIES[name][0]
    with torch.device("meta"):
        c = family.model.config_class(**family.model.presets[preset])
        ours = count_parameters(family.model(c))
        theirs = getattr(transformers, f"{family.classes}{family.predictor if family.predicts else 'LMHeadModel'}")
        same = ("d_model", "layers", "n_heads", "segments")
        settings = {key: getattr(c, own) for key, own, _ in family.settings if own in same}
        inner = next((key for key, own, _ in family.settings if own == "d_ff"), "n_inner")
        settings |= {inner: 4 * c.d_model, "vocab_size": c.vocab_size}
        more = theirs(theirs.config_class(**settings))
    assert ours == more.num_parameters() == COUNTS[name, preset]
