// What a model file holds, as the engine sees it: sizes, and pointers into the mapped file. file.cpp has the layout.
//
// Letters of shapes: N tokens of a group of sentences (packed, no padding), T tokens of one sentence, D d_model,
// H heads, K head width, A = H * K, F the inner width, V vocabulary. D, K and F are rounded up to 16, and what is added
// is zero: all loops run over whole vectors, and zeros stay zeros through products, activations and sums.
#pragma once
#include <cstddef>
#include <cstdint>

namespace qkv {

enum class Activation : uint32_t { relu, gelu, gelu_tanh, swish };

// x W^T + b, in one of three forms. In 8 bits: W is near scale * values, and x is divided by `smooth` before it is rounded (here: multiplied
// by its inverse), as it has multiplied W. `sums` are 128 times the sum of each row of values: see products.h.
struct Linear {
    int in = 0, out = 0;             // both multiples of 16
    const float *weights = nullptr;  // float32: (out / 64, in, 64)
    const uint16_t *halves = nullptr;  // float16: the same
    const int8_t *values = nullptr;  // 8 bits: (out / 64, in / 4, 64, 4)
    const float *scale = nullptr;    // (out)
    const float *bias = nullptr;     // (out)
    const int32_t *sums = nullptr;   // (out)
    const float *inverse = nullptr;  // (in)
};

struct Norm {
    const float *gain = nullptr, *bias = nullptr;  // (D)
};

struct Layer {
    Linear qkv, output, expand, contract;  // D -> 3 A (q has 1 / sqrt(K) inside), A -> D, D -> F, F -> D
    Norm norm, feed_forward_norm;
    Linear memory_query, memory_output;  // D -> A, A -> D: of a decoder that looks at a source, too
    Norm memory_norm;
};

// The vectors of tokens (V, D), in one of two forms.
struct Table {
    const float *floats = nullptr;
    const uint16_t *halves = nullptr;  // float16
};

struct Stack {
    Table tokens;
    const float *positions = nullptr;  // (places, D)
    Norm first, last;                  // before all blocks, and after them if they are pre-norm
    int count = 0;
    const Layer *layers = nullptr;
};

struct Model {
    int d_model = 0, D = 0;  // as it is, and rounded up
    int H = 0, K = 0, F = 0;
    int vocab = 0, places = 0, segments = 0;
    Activation activation = Activation::relu;
    bool is_pre = false, norm_inputs = false, is_causal = false;
    float eps = 0;
    const float *segment_table = nullptr;  // (segments, D)
    Stack reader, decoder;                 // the second of a model that translates alone
    Linear memory;                         // D -> for each layer of the decoder 2 A: keys and values of a source
    Linear vocabulary;                     // D -> V, rounded up; of a model that writes

    int attention_width() const { return H * K; }
    bool translates() const { return decoder.count > 0; }
    const Stack &writer() const { return translates() ? decoder : reader; }
};

// Some sentences, one behind the other.
struct Group {
    int sentences = 0, tokens = 0;
    const int32_t *lengths = nullptr;                    // (sentences)
    const int32_t *ids = nullptr, *segments = nullptr;   // (tokens); segments may be null
};

// What computing needs beside the model, for at most N tokens at a time and sentences of at most T.
struct Scratch {
    float *x = nullptr;        // (N, D)
    float *h = nullptr;        // (N, max(D, A)): the normalised x, or the context
    float *wide = nullptr;     // (N, max(3 A, F)): q, k and v, or the inner layer
    uint8_t *bytes = nullptr;  // (N, max(D, A, F)): what a product reads, in 8 bits,
    float *scale = nullptr;    // (N): and the scale of each row
    float *keys = nullptr;     // (K, T): the keys of one head, transposed
    float *scores = nullptr;   // (max(8, H), T)
};

// Tokens that are written at one step: the last ones of hypotheses, or those of a prompt. Where a row's keys and values
// stand is a list of its own, so that hypotheses which share a past share them, and none is ever copied.
struct Step {
    int rows = 0;
    const int32_t *tokens = nullptr, *places = nullptr;  // (rows)
    float *const *const *past = nullptr;  // (rows) lists of `place + 1` pointers to (k (A), v (A)) of the first layer,
    size_t layer_stride = 0;              // so many floats before those of the next; the last is the row's own
    const float *const *memory = nullptr;     // (rows): k and v (S, 2 A) of the row's source, for the first layer,
    const size_t *memory_strides = nullptr;   // (rows): so many floats before those of the next
    const int32_t *memory_lengths = nullptr;  // (rows): S
    int watched = -1;                  // a layer: the step ends with its look at the source,
    float *const *weights = nullptr;   // (rows) whose weights (H, S) go here
};

// What may follow a row, and the best of it. log p = logit - log sum e^logit, over all tokens but `never`; the tokens
// `banned` count in that sum, and are not chosen.
struct Best {
    int k = 0, found = 0;                 // how many are wanted, and how many there are
    float *values = nullptr;              // (k): log p, best first; of equals, the lower id first
    int32_t *ids = nullptr;               // (k)
    const int32_t *banned = nullptr;      // (banned_count)
    int banned_count = 0;
    const uint8_t *may = nullptr;         // (words): which of a shortlist the row may use; null: all
    int32_t hidden = -1;                  // a column that may not follow yet, and does not count
    int32_t watched = 0;                  // a column,
    float seen = 0;                       // and its log p, banned or not
    alignas(64) float most[16], sum[16];  // inside: of each lane, the largest logit, and the sum of e^(logit - that)
};

// Tokens are columns of a product: those of the whole vocabulary, or of a shortlist that some sentences share.
struct Choice {
    const Linear *product = nullptr;  // D -> words, rounded up
    int words = 0;
    const int32_t *ids = nullptr;     // (words): the token of each column, rising; null: its number
    const int32_t *never = nullptr;   // (never_count): columns of tokens that no text holds
    int never_count = 0;
    float *logits = nullptr;  // (rows, 64): inside; or with `every` (rows, words rounded up), which is what is wanted then
    bool every = false;
};

// One for each kind of processor, from the same source (path.cpp).
struct Arithmetic {
    // The states (N, D) of a group are left in scratch.x.
    void (*read)(const Model &, const Group &, const Scratch &);
    // Keys and values of N states in scratch.x for layer i of the decoder: out[i * stride] (N, 2 A).
    void (*remember)(const Model &, int N, const Scratch &, float *out, size_t stride);
    // The states of a step's tokens are left in scratch.x; their keys and values go where `past` says.
    void (*write)(const Model &, const Step &, const Scratch &);
    // What may follow N states in scratch.x: best (N), or with choice.every the logits of all.
    void (*choose)(const Model &, int N, const Scratch &, const Choice &, Best *);
    // So many rounds of products in 8 bits whose numbers never leave the nearest cache; the result is how many
    // operations (multiplications and additions) that were: what the path could do at most, for benchmarks.
    int64_t (*multiply)(int rounds);
};

namespace plain {
extern const Arithmetic arithmetic;
}
namespace avx2 {
extern const Arithmetic arithmetic;
}
namespace avx512 {
extern const Arithmetic arithmetic;
}

}  // namespace qkv
