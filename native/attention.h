// Where a decoder looks in its source while it writes given words.
#pragma once
#include "file.h"

namespace qkv {

// Pairs of texts, one behind the other. The same struct stands in library.py.
struct Looked {
    int32_t pairs, layer, threads;
    const int32_t *source_lengths, *target_lengths;  // (pairs)
    const int32_t *sources, *targets;                // ids, as encoder and decoder read them
    int64_t source_tokens, target_tokens;            // how many ids there are
    float *weights;  // one pair behind the other, (T, H, S) of each: of token t, by each head, the share of each source token
};

void attend(const Model &, const Arithmetic &, const Looked &);

}  // namespace qkv
