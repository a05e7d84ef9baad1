// Memory of one thread.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>
#include "model.h"

namespace qkv {

class Memory {
public:
    template <class T> T *take(size_t count) {  // each by itself, so that a sanitizer sees where one ends
        void *found = std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64);
        if (!found) throw std::bad_alloc();
        held.emplace_back(found, &std::free);
        return static_cast<T *>(found);
    }

private:
    std::vector<std::unique_ptr<void, void (*)(void *)>> held;
};

// For groups of at most N tokens, and sentences of at most T.
class Workspace : public Memory {
public:
    Workspace(const Model &m, size_t N, size_t T) {
        const size_t D = m.D, A = m.attention_width(), F = m.F, K = m.K, H = m.H, padded = (T + 15) / 16 * 16;
        scratch.x = take<float>(N * D), scratch.h = take<float>(N * std::max(D, A));
        scratch.wide = take<float>(N * std::max(3 * A, F));
        scratch.bytes = take<uint8_t>(N * std::max({D, A, F})), scratch.scale = take<float>(N);
        scratch.keys = take<float>(K * padded), scratch.scores = take<float>(std::max<size_t>(8, H) * padded);
    }
    Scratch scratch;
};

}  // namespace qkv
