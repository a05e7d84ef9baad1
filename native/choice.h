// What may follow: the product with the vocabulary, and the best of what it gives, without ever holding all of it.
#pragma once
#include "products.h"

namespace qkv::PATH {

constexpr float NONE = -__builtin_inff();

// One more token of a row, if it is among its best.
static void keep(Best &b, float logit, int32_t id) {
    for (int i = 0; i < b.banned_count; i++)
        if (b.banned[i] == id) return;
    int at = b.found < b.k ? b.found++ : b.k - 1;
    for (; at > 0 && b.values[at - 1] < logit; at--) b.values[at] = b.values[at - 1], b.ids[at] = b.ids[at - 1];
    b.values[at] = logit, b.ids[at] = id;
}

// The logits (64) of a row from the column `first` on, and their tokens if these are not their columns.
static void scan(Best &b, const float *logits, int first, const int32_t *ids) {
    V most = load(b.most), total = load(b.sum), here = load(logits);
    for (int i = LANES; i < COLUMNS; i += LANES) here = larger(here, load(logits + i));
    if (above(here - most, 0)) {  // a lane has a new largest: what it has summed is of less weight now
        const V now = larger(most, here);
        total *= exp(most - now);
        store(b.most, most = now);
    }
    for (int i = 0; i < COLUMNS; i += LANES) total += exp(load(logits + i) - most);
    store(b.sum, total);
    if (!above(here, b.found < b.k ? NONE : b.values[b.k - 1])) return;
    for (int i = 0; i < COLUMNS; i++)
        if (logits[i] > (b.found < b.k ? NONE : b.values[b.k - 1])) keep(b, logits[i], ids ? ids[first + i] : first + i);
}

// log p = (logit - max) - log sum e^(logit - max)
static void to_log_p(Best &b) {
    const V most = load(b.most);
    const float top = largest(most), rest = __builtin_logf(sum(load(b.sum) * exp(most - top)));
    for (int i = 0; i < b.found; i++) b.values[i] = b.values[i] - top - rest;
    b.seen = b.seen - top - rest;
}

static void choose(const Model &, int N, const Scratch &s, const Choice &choice, Best *best) {
    const int width = choice.every ? choice.product->out : COLUMNS;
    for (int n = 0; n < N && !choice.every; n++) {
        best[n].found = 0, best[n].seen = NONE;
        for (int i = 0; i < LANES; i++) best[n].most[i] = -1e30f, best[n].sum[i] = 0;
    }
    // What is never written, what a row may not use, and what fills up the last columns.
    const auto hide = [&](const Best &b, float *row, int first, int end) {
        for (int i = 0; i < choice.never_count; i++)
            if (choice.never[i] >= first && choice.never[i] < end) row[choice.never[i] - first] = NONE;
        if (b.hidden >= first && b.hidden < end) row[b.hidden - first] = NONE;
        for (int i = first; b.may && i < end && i < choice.words; i++)
            if (!b.may[i]) row[i - first] = NONE;
        for (int i = choice.words > first ? choice.words : first; i < end; i++) row[i - first] = NONE;
    };
    product(*choice.product, s.x, N, s,
            [&](int row, int column, V y) { store(choice.logits + at(row, width) + column % width, y); },
            [&](int first) {
                for (int n = 0; n < N && !choice.every; n++) {
                    float *row = choice.logits + at(n, COLUMNS);
                    hide(best[n], row, first, first + COLUMNS);
                    const int watched = best[n].watched - first;
                    if (watched >= 0 && watched < COLUMNS) best[n].seen = row[watched];
                    scan(best[n], row, first, choice.ids);
                }
            });
    for (int n = 0; n < N; n++)
        if (choice.every) hide(best[n], choice.logits + at(n, width), 0, width);
        else to_log_p(best[n]);
}

}  // namespace qkv::PATH
