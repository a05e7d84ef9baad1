// The blocks of a decoder, a token of each hypothesis at a time (Vaswani et al. 2017, section 3.1).
#pragma once
#include "encoder.h"

namespace qkv::PATH {

// Keys and values of a source for all layers of the decoder: out[layer * stride] (N, 2 A).
static void remember(const Model &m, int N, const Scratch &s, float *out, size_t stride) {
    const int width = 2 * m.attention_width();
    product(m.memory, s.x, N, s, [&](int row, int column, V y) {
        store(out + static_cast<size_t>(column / width) * stride + at(row, width) + column % width, y);
    });
}

// q k^T of one head at so many places as a vector has numbers; C vectors are a head's, or as many as K has if that is 0.
template <int C> INLINE V match(const float *q, const float *const *keys, int from, int K) {
    const int vectors = C ? C : K / LANES;
    V found[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        V total = load(q + from) * load(keys[i] + from);
#pragma GCC unroll 4
        for (int c = 1; c < vectors; c++) total += load(q + from + c * LANES) * load(keys[i] + from + c * LANES);
        found[i] = total;
    }
    return sums(found);
}

// Eq. 1 for one query and all heads: q (A) looks at T places, whose k (A) and v (A) stand at place(t); context (A).
// scores (H, T rounded up) is room. Places are taken some at a time with all their heads, as they stand in memory.
template <class F>
static void look_back(const Model &m, const float *q, int T, F place, float *scores, float *context) {
    const int A = m.attention_width(), K = m.K, padded = (T + LANES - 1) / LANES * LANES;
    for (int first = 0; first < T; first += LANES) {
        const float *keys[LANES];
        for (int i = 0; i < LANES; i++) keys[i] = place(first + i < T ? first + i : T - 1);
        for (int head = 0; head < m.H; head++) {
            float *to = scores + at(head, padded) + first;
            if (K == 4 * LANES) store(to, match<4>(q, keys, head * K, K));
            else if (K == 2 * LANES) store(to, match<2>(q, keys, head * K, K));
            else store(to, match<0>(q, keys, head * K, K));
        }
    }
    for (int head = 0; head < m.H; head++) {
        float *row = scores + at(head, padded);
        for (int t = T; t < padded; t++) row[t] = -1e30f;
        const V share = all(exponents(row, padded));
        for (int t = 0; t < padded; t += LANES) store(row + t, load(row + t) * share);
    }
    constexpr int MOST = 8;  // vectors of the context at a time
    for (int first = 0; first < A; first += MOST * LANES)
        with_rows<MOST>(A - first < MOST * LANES ? (A - first) / LANES : MOST, [&](auto vectors) {
            constexpr int C = decltype(vectors)::count;
            const float *weights[C];
            V mixed[C] = {};
            for (int c = 0; c < C; c++) weights[c] = scores + at((first + c * LANES) / K, padded);
            for (int t = 0; t < T; t++) {
                const float *value = place(t) + A + first;
                for (int c = 0; c < C; c++) mixed[c] += weights[c][t] * load(value + c * LANES);
            }
            for (int c = 0; c < C; c++) store(context + first + c * LANES, mixed[c]);
        });
}

// The weights (H, T rounded up) that look_back has left -> (H, T)
static void keep_weights(const Model &m, const float *scores, int T, float *out) {
    const int padded = (T + LANES - 1) / LANES * LANES;
    for (int head = 0; head < m.H; head++) memcpy(out + at(head, T), scores + at(head, padded), sizeof(float) * T);
}

// All rows of a step through all blocks; first they leave their keys and values, then they look: rows of one prompt see
// those before them.
static void write(const Model &m, const Step &step, const Scratch &s) {
    const Stack &stack = m.writer();
    const int A = m.attention_width(), N = step.rows;
    for (int n = 0; n < N; n++) embed(m, stack, step.tokens[n], 0, step.places[n], s.x + at(n, m.D));
    if (m.norm_inputs) normalise(m, stack.first, s.x, N, s.x);
    for (int i = 0; i < stack.count; i++) {
        const Layer &l = stack.layers[i];
        const size_t own = static_cast<size_t>(i) * step.layer_stride;
        attention(m, l.qkv, l.output, l.norm, N, s, [&] {
            for (int n = 0; n < N; n++) {
                const float *from = s.wide + at(n, 3 * A) + A;
                float *to = step.past[n][step.places[n]] + own;
                for (int a = 0; a < 2 * A; a += LANES) store(to + a, load(from + a));
            }
            for (int n = 0; n < N; n++)
                look_back(m, s.wide + at(n, 3 * A), step.places[n] + 1,
                          [&](int t) { return step.past[n][t] + own; }, s.scores, s.h + at(n, A));
        });
        if (m.translates())
            attention(m, l.memory_query, l.memory_output, l.memory_norm, N, s, [&] {
                for (int n = 0; n < N; n++) {
                    const float *from = step.memory[n] + static_cast<size_t>(i) * step.memory_strides[n];
                    look_back(m, s.wide + at(n, A), step.memory_lengths[n], [&](int t) { return from + at(t, 2 * A); },
                              s.scores, s.h + at(n, A));
                    if (i == step.watched) keep_weights(m, s.scores, step.memory_lengths[n], step.weights[n]);
                }
            });
        if (i == step.watched) return;
        feed_forward(m, l, N, s);
    }
    if (m.is_pre) normalise(m, stack.last, s.x, N, s.x);
}

}  // namespace qkv::PATH
