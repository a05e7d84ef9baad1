"""Why it is built so: the claims of the lecture notes, N1 to N41, and of papers on long texts, N42 to N44, each
measured with qkv's own parts."""

from collections.abc import Callable
from pathlib import Path

from qkv.config import read_toml
from qkv.errors import InputError, nearest
from qkv.why import anatomy, depth, formula, kinds, length, long, masks, positions, recurrence
from qkv.why.claim import Claim, Measured, Verdict

CLAIMS = (
    Claim("N1", "kinds", "Soft attention weighs all keys, hard attention picks one, local attention weighs a window "
          "around a picked one.", kinds.soft_hard_local),
    Claim("N2", "hard", "Hard attention cannot be differentiated and is trained by reinforcement learning.",
          kinds.hard_gradient),
    Claim("N3", "scope", "General attention uses other sentences too, local attention only its own.",
          kinds.general_and_local),
    Claim("N4", "structure", "By structure attention is single-level, hierarchical or multi-head.", kinds.structures),
    Claim("N5", "concat", "Multi-head attention is several single-level attentions side by side.", kinds.side_by_side),
    Claim("N6", "recurrence", "In an RNN each step waits for the last, far words are O(n) steps apart, and an LSTM "
          "still loses what is far.", recurrence.gradient_reach),
    Claim("N7", "distance", "In a Transformer the distance between any two words is constant.", recurrence.path_length),
    Claim("N8", "layers", "The whole network is 6 encoder and 6 decoder layers.", anatomy.layers),
    Claim("N9", "token", "When text is written, a word needs the hidden state of the word before.", anatomy.next_word),
    Claim("N10", "shapes", "A word is 1 x 512, W is 512 x 64, and q, k, v are 1 x 64.", anatomy.sizes_of_base),
    Claim("N11", "scale", "softmax(Q K^T / sqrt(d)) V: dividing by sqrt(d) normalises.", formula.why_scale),
    Claim("N12", "feed-forward", "The feed-forward network expands, filters by ReLU and projects back; ReLU is the "
          "main non-linearity.", anatomy.feed_forward),
    Claim("N13", "positions", "Without positions a Transformer is a bag of words: attention is permutation invariant.",
          positions.bag_of_words),
    Claim("N14", "any-length", "A position encoding takes any length, a position embedding a fixed range.",
          positions.any_length),
    Claim("N15", "index", "Raw indices 0, 1, 2 ... as positions favour large indices.", positions.raw_indices),
    Claim("N16", "cosine", "cos(a + b) = cos a cos b + sin a sin b.", positions.sum_of_angles),
    Claim("N17", "wavelengths", "The frequencies lie in [1, 10000], and a larger d_model maps to a larger range.",
          positions.wavelengths),
    Claim("N18", "shift", "p(i+k) = T(k) p(i), with a T that depends on k only.", positions.linear_shift),
    Claim("N19", "extrapolation", "Sinusoids may extrapolate to longer text; in practice it does not really work.",
          length.extrapolation),
    Claim("N20", "table", "Learned positions cannot go beyond the longest text of training.", positions.any_length),
    Claim("N21", "ripples", "The product of two positions is largest with itself and the smaller, the farther apart.",
          positions.dot_products),
    Claim("N22", "learned", "Positions may be learned; any scheme in which near is large and far is small will do.",
          length.learned_table),
    Claim("N23", "residuals", "Residual connections make training better; and they cause vanishing gradients.",
          depth.residuals),
    Claim("N24", "layer-norm", "Layer norm gives unit mean and unit standard deviation.", depth.layer_norm),
    Claim("N25", "batch-norm", "Layer norm looks at its own example only, batch norm depends on the batch.",
          depth.batch_norm),
    Claim("N26", "windows", "In stacked word windows the farthest interaction is sequence length / window size.",
          recurrence.windows),
    Claim("N27", "parallel", "In attention the steps that cannot run side by side do not grow with n, and the farthest "
          "interaction is O(1).", recurrence.path_length),
    Claim("N28", "cost", "Self-attention costs O(T^2 d), an RNN is linear in T; 10,000 words are too many.",
          length.quadratic),
    Claim("N29", "example", '"I am good": the dot product measures similarity, and Z = softmax(X X^T) X.',
          formula.similarity),
    Claim("N30", "digits", "The weights of the example are 0.97 0.02 0.01, 0.27 0.73 0.00, 0.90 0.05 0.05.",
          formula.rounding),
    Claim("N31", "softmax", "The derivative of the softmax is s(1 - s).", formula.softmax_slope),
    Claim("N32", "heads", "A weighted sum blurs when several words matter, therefore heads.", kinds.two_targets),
    Claim("N33", "widths", "d_k is the width of a key; W may have any width if its rows match X.", anatomy.widths),
    Claim("N34", "stacking", "100 words and 3 projections are 300 products; stacked into a matrix, the loop is gone "
          "and the complexity is not.", length.stacking),
    Claim("N35", "exchange", "X to Z exchanges information between words, Z to R (feed-forward) does not.",
          anatomy.exchange),
    Claim("N36", "directions", "A Transformer has no notion of time, so there is no bidirectional variant.",
          masks.directions),
    Claim("N37", "drawbacks", "Drawbacks: local information and positions are weak, and gradients vanish in the upper "
          "layers.", depth.drawbacks),
    Claim("N38", "bottleneck", "Attention came to mend vanishing gradients over long distances and the narrow "
          "bottleneck; it has few parameters.", recurrence.bottleneck),
    Claim("N39", "function", "Attention is not a dense layer: its weights are a function of the input.",
          anatomy.depends_on_input),
    Claim("N40", "masks", "A mask lets pass or sets to -inf; one is for padding, one for the future; in the picture "
          "0 means useful.", masks.masks),
    Claim("N41", "families", "Models go one way (ELMo, GPT), both ways as auto-encoders (BERT, MASS, UniLM, MT-DNN "
          "...), or both ways autoregressively (XLNet).", masks.families),
    Claim("N42", "linear", "Attention need not cost the square of the length: windows, BigBird, Linformer and "
          "compressed memories cost less.", long.linear),
    Claim("N43", "low-rank", "The weights of a trained attention are nearly of low rank, so that a few slots can stand "
          "for all keys (Linformer).", long.low_rank),
    Claim("N44", "hops", "In BigBird a token sees as many others however long the text is, and two layers connect "
          "every pair.", long.hops),
)  # fmt: skip


# What the measurements say of each; what is in neither is true.
AMENDED = ["N2", "N3", "N5", "N9", "N11", "N12", "N13", "N22", "N28", "N29", "N36", "N37", "N41", "N42", "N43"]
WRONG = ["N16", "N17", "N21", "N23", "N24", "N26", "N30", "N31"]
TOPICS = {
    "Kinds of attention": "N1 N2 N3 N4 N5 N32 N39",
    "Before attention: recurrence, windows, distance": "N6 N7 N26 N27 N36 N38",
    "The parts of a Transformer, and their sizes": "N8 N9 N10 N12 N33 N34 N35",
    "The formula softmax(Q K^T / sqrt(d)) V": "N11 N29 N30 N31",
    "Positions": "N13 N14 N15 N16 N17 N18 N19 N20 N21 N22",
    "Depth: residuals and norms": "N23 N24 N25",
    "What it costs, and what is weak": "N28 N37",
    "Masks": "N40",
    "The pre-trained family": "N41",
    "Long texts (from papers, not from the notes)": "N42 N43 N44",
}


def verdict_of(claim: Claim) -> Verdict:
    """What was found when it was measured; `claim.run` measures it again."""
    number = claim.number
    return "wrong" if number in WRONG else "true with a correction" if number in AMENDED else "true"


def topic_of(claim: Claim) -> str:
    return next(topic for topic, numbers in TOPICS.items() if claim.number in numbers.split())


def find(name: str) -> Claim:
    """The claim of that name or number: "scale", "N11", "n11" or "11"."""
    known = {key: claim for claim in CLAIMS for key in (claim.name, claim.number)}
    digits = name.lower().removeprefix("n")
    key = f"N{digits}" if digits.isdigit() else name.lower()
    if key not in known:
        raise InputError(f"there is no claim {name!r}; {nearest(key, known)}")
    return known[key]


def said_in(language: str) -> Callable[[str], str]:
    """What says a claim, a verdict or a topic in that language, by its English words; and the reason, by "N11 why"."""
    if language == "en":
        return str
    told = read_toml(Path(__file__).with_name("chinese.toml"))
    known = told["verdicts"] | told["topics"] | {"about": told["about"]}  # which begins the page
    known |= {claim.words: told[claim.number]["claim"] for claim in CLAIMS}
    known |= {f"{claim.number} why": told[claim.number]["why"] for claim in CLAIMS}
    return lambda words: known.get(words, words)
