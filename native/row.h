// A hypothesis at work, and what is drawn for it.
#pragma once
#include <cmath>
#include <limits>
#include <numeric>

#include "search.h"
#include "texts.h"

namespace qkv {

constexpr float NONE = -std::numeric_limits<float>::infinity();

struct Row {
    int text = 0, sample = 0;
    float total = 0;              // log p
    std::vector<int32_t> tokens;  // with the one that it begins with
    Past past;                    // of a prompt's tokens, too
    std::vector<int32_t> banned;  // what may not come next
};

// The tokens that would complete a run of n which the row already has.
inline void ban(Row &row, int n) {
    row.banned.clear();
    const auto &tokens = row.tokens;
    const size_t run = static_cast<size_t>(n);
    for (size_t i = 0; n && i + run <= tokens.size(); i++)
        if (std::equal(tokens.begin() + static_cast<long>(i), tokens.begin() + static_cast<long>(i + run - 1),
                       tokens.end() - static_cast<long>(run - 1)))
            row.banned.push_back(tokens[i + run - 1]);
}

// Logits (V) -> log p.
inline void to_log_p(float *logits, size_t V) {
    const float top = *std::max_element(logits, logits + V);
    double total = 0;
    for (size_t v = 0; v < V; v++) total += std::exp(logits[v] - top);
    const float rest = static_cast<float>(std::log(total));
    for (size_t v = 0; v < V; v++) logits[v] = logits[v] - top - rest;
}

// Holtzman et al. 2020: p = softmax(log p / temperature), cut to the `top_k` best and to the fewest that sum to top_p.
class Drawing {
public:
    // The place at which the sum of p passes `number` of the whole.
    size_t draw(const float *log_p, size_t V, const Asked &asked, double number) {
        p.resize(V);
        const float most = *std::max_element(log_p, log_p + V) / asked.temperature;
        double total = 0;
        for (size_t v = 0; v < V; v++) total += p[v] = std::exp(log_p[v] / asked.temperature - most);
        for (size_t v = 0; v < V; v++) p[v] = static_cast<float>(p[v] / total);
        narrow(asked);
        double sum = 0, passed = 0;
        for (size_t v = 0; v < V; v++) sum += p[v];
        size_t chosen = 0;  // the last that may be drawn, if rounding keeps the sum from passing the number
        for (size_t v = 0; v < V; v++) {
            if (!(p[v] > 0)) continue;
            passed += p[v], chosen = v;
            if (passed > number * sum) break;
        }
        return chosen;
    }

private:
    // p (V) with all but the allowed tokens at 0.
    void narrow(const Asked &asked) {
        if (!asked.top_k && asked.top_p >= 1) return;
        order.resize(p.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
        double before = 0;
        for (size_t rank = 0; rank < order.size(); rank++) {
            float &one = p[order[rank]];
            const bool is_out = static_cast<float>(before + one) - one >= asked.top_p;
            before += one;
            if (is_out || (asked.top_k && rank >= static_cast<size_t>(asked.top_k))) one = 0;
        }
    }
    std::vector<float> p;
    std::vector<size_t> order;
};

}  // namespace qkv
