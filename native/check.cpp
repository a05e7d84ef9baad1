// Whether what is asked of a search can be done.
#include <algorithm>

#include "search.h"

namespace qkv {

constexpr int MOST = 4096;  // hypotheses of a text

void check(const Model &m, const Asked &a) {
    const auto text = [](int64_t number) { return std::to_string(number); };
    if (!m.vocabulary.out) throw Error("the model of this file reads, and does not write");
    if (a.beam < 1 || a.beam > MOST || a.samples < 0 || a.samples > MOST || a.ends < FORCED || a.ends > NEVER ||
        std::min({a.no_repeat, a.top_k, a.at_least, a.prefix_count}) < 0)
        throw Error("there is no such search");
    if (a.each < std::max(a.samples ? a.samples : 2 * static_cast<int64_t>(a.beam), int64_t{1}))
        throw Error("there is no room for what is found");
    const auto is_token = [&](int32_t id) {
        if (id < 0 || id >= m.vocab)
            throw Error("token " + text(id) + " is none of the " + text(m.vocab) + " that the model has");
    };
    is_token(a.end);
    if (m.translates()) is_token(a.first);
    for (int i = 0; i < a.never_count; i++) is_token(a.never[i]);
    for (int i = 0; i < a.prefix_count; i++) is_token(a.prefix[i]);
    int64_t place = 0;
    for (int i = 0; i < a.sentences; i++) {
        const int64_t length = a.lengths[i], limit = a.limits[i];
        if (length < 1 || length > a.tokens - place)
            throw Error("the lengths of the sentences are not those of the tokens");
        if (limit < 1 || limit > a.width) throw Error("a text may have " + text(limit) + " tokens, which is no limit");
        if (m.translates() && std::max(length, limit) > m.places)
            throw Error("it has " + text(length) + " tokens and may go on for " + text(limit) + ", and the model has " +
                        text(m.places) + " places");
        place += length;
    }
    for (int i = 0; a.listed && i < a.sentences; i++) {
        if (a.listed_starts[i] > a.listed_starts[i + 1]) throw Error("the lists of the sentences are not in order");
        const int32_t *begin = a.listed + a.listed_starts[i], *end = a.listed + a.listed_starts[i + 1];
        std::for_each(begin, end, is_token);
        if (std::find(begin, end, a.end) == end) throw Error("a sentence's list has not the token that ends it");
        for (int j = 0; j < a.prefix_count; j++)
            if (std::find(begin, end, a.prefix[j]) == end) throw Error("a sentence's list has not what it begins with");
    }
    if (place != a.tokens) throw Error("the lengths of the sentences are not those of the tokens");
    for (int64_t i = 0; i < a.tokens; i++) is_token(a.ids[i]);
}

}  // namespace qkv
