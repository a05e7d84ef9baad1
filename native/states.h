// The states of texts that are read.
#pragma once
#include "file.h"

namespace qkv {

enum Pool : int32_t { STATES, MEAN, FIRST, LAST };

struct Reading {  // all sentences of a call
    int sentences;
    const int32_t *lengths, *ids, *segments;
    Pool pool;
    float *out;
};

void read_all(const Model &, const Arithmetic &, const Reading &, size_t tokens, int threads);

}  // namespace qkv
