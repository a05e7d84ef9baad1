// The blocks of an encoder over packed sentences (Vaswani et al. 2017, section 3; BERT's and GPT-2's differences).
#pragma once
#include "products.h"

namespace qkv::PATH {

#if defined(__AVX512F__)
constexpr int QUERIES = 8;  // that look at the same keys together
#else
constexpr int QUERIES = 4;
#endif

// Token, segment and place -> out (D)
static void embed(const Model &m, const Stack &stack, int id, int segment, int t, float *out) {
    const Table &tokens = stack.tokens;
    const size_t row = at(id, m.D);
    const float *place = stack.positions + at(t, m.D);
    const float *extra = m.segments ? m.segment_table + at(m.segments > 1 ? segment : 0, m.D) : nullptr;
    for (int d = 0; d < m.D; d += LANES) {
        V v = tokens.halves ? load(tokens.halves + row + d) : load(tokens.floats + row + d);
        if (extra) v += load(extra + d);
        store(out + d, v + load(place + d));
    }
}

// Ba et al. 2016: gain (x - mean) / sqrt(variance + eps) + bias, of each row (D), whose first d_model numbers count.
static void normalise(const Model &m, const Norm &norm, const float *x, int N, float *out) {
    I lane;
    for (int i = 0; i < LANES; i++) lane[i] = i;
    for (int n = 0; n < N; n++, x += m.D, out += m.D) {
        V total{}, squares{};
        for (int d = 0; d < m.D; d += LANES) total += load(x + d);
        const V mean = all(sum(total) / m.d_model);
        for (int d = 0; d < m.D; d += LANES) {
            V off = load(x + d) - mean;
            if (d + LANES > m.d_model) off = lane + d < m.d_model ? off : V{};
            squares += off * off;
        }
        const V by = all(1 / __builtin_sqrtf(sum(squares) / m.d_model + m.eps));
        for (int d = 0; d < m.D; d += LANES)
            store(out + d, (load(x + d) - mean) * by * load(norm.gain + d) + load(norm.bias + d));
    }
}

// e^(score - the largest) in the place of scores (T rounded up); 1 / their sum is what is left of a softmax.
INLINE float exponents(float *row, int padded) {
    V most = load(row), total{};
    for (int t = LANES; t < padded; t += LANES) most = larger(most, load(row + t));
    const V top = all(largest(most));
    for (int t = 0; t < padded; t += LANES) {
        V weight = exp(load(row + t) - top);
        total += weight;
        store(row + t, weight);
    }
    return 1 / sum(total);
}

// Eq. 1, softmax(Q K^T) V, for M queries of one head from place `first` on; rows of q and v are 3 A apart.
template <int M>
static void look(const float *q, const float *v, const float *keys, int stride, int first, int T, int K, bool is_causal,
                 float *scores, float *context, int A) {
    const int padded = (T + LANES - 1) / LANES * LANES;
    for (int t = 0; t < padded; t += LANES) {
        V found[M] = {};
        for (int k = 0; k < K; k++) {
            V key = load(keys + at(k, padded) + t);
            for (int m = 0; m < M; m++) found[m] += q[at(m, stride) + k] * key;
        }
        for (int m = 0; m < M; m++) store(scores + at(m, padded) + t, found[m]);
    }
    float shares[M];
    for (int m = 0; m < M; m++) {
        float *row = scores + at(m, padded);
        for (int t = is_causal ? first + m + 1 : T; t < padded; t++) row[t] = -1e30f;
        shares[m] = exponents(row, padded);
    }
    const int seen = is_causal && first + M < T ? first + M : T;
    for (int k = 0; k < K; k += LANES) {
        V mixed[M] = {};
        for (int t = 0; t < seen; t++) {
            V value = load(v + at(t, stride) + k);
            for (int m = 0; m < M; m++) mixed[m] += scores[at(m, padded) + t] * value;
        }
        for (int m = 0; m < M; m++) store(context + at(m, A) + k, mixed[m] * shares[m]);
    }
}

// All heads of one sentence: q, k, v (T, 3 A) -> context (T, A).
static void attend(const Model &m, const float *qkv, int T, const Scratch &s, float *context) {
    const int A = m.attention_width(), stride = 3 * A, padded = (T + LANES - 1) / LANES * LANES;
    for (int head = 0; head < m.H; head++) {
        const float *q = qkv + head * m.K, *k = q + A, *v = k + A;
        for (int t = 0; t < padded; t++)
            for (int i = 0; i < m.K; i++) s.keys[at(i, padded) + t] = t < T ? k[at(t, stride) + i] : 0;
        for (int first = 0; first < T; first += QUERIES)
            with_rows<QUERIES>(T - first < QUERIES ? T - first : QUERIES, [&](auto rows) {
                look<decltype(rows)::count>(q + at(first, stride), v, s.keys, stride, first, T, m.K, m.is_causal,
                                            s.scores, context + at(first, A) + head * m.K, A);
            });
    }
}

template <class F>
static void expand(const Model &m, const Linear &l, const float *x, int N, const Scratch &s, F activation) {
    product(l, x, N, s, [&](int row, int column, V y) { store(s.wide + at(row, m.F) + column, activation(y)); });
}

// Eq. 2, with its residual and norm.
static void feed_forward(const Model &m, const Layer &l, int N, const Scratch &s) {
    if (m.is_pre) normalise(m, l.feed_forward_norm, s.x, N, s.h);
    const float *x = m.is_pre ? s.h : s.x;
    switch (m.activation) {
        case Activation::relu: expand(m, l.expand, x, N, s, [](V y) { return relu(y); }); break;
        case Activation::gelu: expand(m, l.expand, x, N, s, [](V y) { return gelu(y); }); break;
        case Activation::gelu_tanh: expand(m, l.expand, x, N, s, [](V y) { return gelu_tanh(y); }); break;
        case Activation::swish: expand(m, l.expand, x, N, s, [](V y) { return swish(y); }); break;
    }
    add_product(l.contract, s.wide, N, s, s.x);
    if (!m.is_pre) normalise(m, l.feed_forward_norm, s.x, N, s.x);
}

// A sub-layer that looks at other tokens, with its residual and norm: q of x, or q, k and v, is left in s.wide, and
// context() makes of it what is left in s.h.
template <class F>
static void attention(const Model &m, const Linear &query, const Linear &output, const Norm &norm, int N,
                      const Scratch &s, F context) {
    if (m.is_pre) normalise(m, norm, s.x, N, s.h);
    product(query, m.is_pre ? s.h : s.x, N, s, s.wide);
    context();
    add_product(output, s.h, N, s, s.x);
    if (!m.is_pre) normalise(m, norm, s.x, N, s.x);
}

static void read(const Model &m, const Group &g, const Scratch &s) {
    const Stack &stack = m.reader;
    for (int i = 0, n = 0; i < g.sentences; i++)
        for (int t = 0; t < g.lengths[i]; t++, n++)
            embed(m, stack, g.ids[n], g.segments ? g.segments[n] : 0, t, s.x + at(n, m.D));
    if (m.norm_inputs) normalise(m, stack.first, s.x, g.tokens, s.x);
    const int A = m.attention_width();
    for (int i = 0; i < stack.count; i++) {
        const Layer &l = stack.layers[i];
        attention(m, l.qkv, l.output, l.norm, g.tokens, s, [&] {
            for (int i = 0, first = 0; i < g.sentences; first += g.lengths[i++])
                attend(m, s.wide + at(first, 3 * A), g.lengths[i], s, s.h + at(first, A));
        });
        feed_forward(m, l, g.tokens, s);
    }
    if (m.is_pre) normalise(m, stack.last, s.x, g.tokens, s.x);
}

}  // namespace qkv::PATH
