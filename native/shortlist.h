// Jean et al. 2015, under "Decoding": the product with those rows of the vocabulary that some sentences may use.
#pragma once
#include "search.h"
#include "workspace.h"

namespace qkv {

// The tokens that one of the sentences `some` may use, rising, with their rows of W; and which of them each may.
class Shortlist {
public:
    Shortlist(const Model &m, const Asked &asked, const std::vector<int> &some) {
        for (int text : some) ids.insert(ids.end(), begin_of(asked, text), begin_of(asked, text + 1));
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        for (int text : some) {
            may.emplace_back(ids.size(), uint8_t{0});
            for (const int32_t *id = begin_of(asked, text); id != begin_of(asked, text + 1); id++) may.back()[column(*id)] = 1;
        }
        cut(m.vocabulary);
    }
    // Where a token stands, if it is here.
    bool has(int32_t id) const { return std::binary_search(ids.begin(), ids.end(), id); }
    size_t column(int32_t id) const {
        return static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
    }

    std::vector<int32_t> ids;                 // (words)
    std::vector<std::vector<uint8_t>> may;    // (sentences, words)
    Linear product;

private:
    static const int32_t *begin_of(const Asked &asked, int text) { return asked.listed + asked.listed_starts[text]; }

    // The rows `ids` of W, laid out as it is: see model.h.
    void cut(const Linear &whole) {
        product = whole;
        const size_t in = static_cast<size_t>(whole.in), out = (ids.size() + 15) / 16 * 16, cells = (out + 63) / 64 * 64 * in;
        product.out = static_cast<int>(out);
        product.bias = rows(whole.bias, out);
        if (whole.weights) product.weights = cells_of(whole.weights, cells, in, 1);
        if (whole.halves) product.halves = cells_of(whole.halves, cells, in, 1);
        if (!whole.values) return;
        product.values = cells_of(whole.values, cells, in, 4);
        product.scale = rows(whole.scale, out), product.sums = rows(whole.sums, out);
    }
    template <class T> const T *rows(const T *from, size_t out) {
        T *to = memory.take<T>(out);
        std::fill(to, to + out, T{});
        for (size_t i = 0; i < ids.size(); i++) to[i] = from[ids[i]];
        return to;
    }
    // (out / 64, in / quad, 64, quad)
    template <class T> const T *cells_of(const T *from, size_t count, size_t in, size_t quad) {
        T *to = memory.take<T>(count);
        std::fill(to, to + count, T{});
        for (size_t i = 0; i < ids.size(); i++) {
            const size_t id = static_cast<size_t>(ids[i]);
            const T *row = from + id / 64 * 64 * in + id % 64 * quad;
            T *copy = to + i / 64 * 64 * in + i % 64 * quad;
            for (size_t k = 0; k < in / quad; k++) std::copy_n(row + k * 64 * quad, quad, copy + k * 64 * quad);
        }
        return to;
    }
    Memory memory;
};

}  // namespace qkv
