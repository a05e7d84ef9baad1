#include "attention.h"

#include "texts.h"
#include "threads.h"

namespace qkv {
namespace {

struct Pair {
    Ids source, target;
    float *weights;
};

// The texts of one side.
std::vector<Ids> split(const Model &m, const int32_t *lengths, int32_t count, const int32_t *ids, int64_t tokens) {
    std::vector<Ids> found;
    int64_t place = 0;
    for (int32_t i = 0; i < count; i++) {
        if (lengths[i] < 1 || lengths[i] > tokens - place) throw Error("the lengths of the texts are not those of the tokens");
        if (lengths[i] > m.places)
            throw Error("it has " + std::to_string(lengths[i]) + " tokens, and the model has " + std::to_string(m.places) +
                        " places");
        found.push_back({ids + place, static_cast<size_t>(lengths[i])});
        place += lengths[i];
    }
    if (place != tokens) throw Error("the lengths of the texts are not those of the tokens");
    for (int64_t i = 0; i < tokens; i++)
        if (ids[i] < 0 || ids[i] >= m.vocab)
            throw Error("token " + std::to_string(ids[i]) + " is none of the " + std::to_string(m.vocab) +
                        " that the model has");
    return found;
}

// Some pairs: their sources are read, and their targets as prompts are.
void attend(const Model &m, const Arithmetic &by, const std::vector<Pair> &pairs, int layer) {
    size_t longest = 0, tokens = 0;
    std::vector<Ids> given;
    for (const Pair &pair : pairs) {
        longest = std::max({longest, pair.source.count, pair.target.count}), tokens += pair.target.count;
        given.push_back(pair.source);
    }
    Texts texts(m, by, GROUP, longest, tokens);
    const std::vector<Source> sources = texts.read_sources(given);
    Past past;
    for (size_t t = 0; t < tokens; t++) past.push_back(texts.slots.take());
    Batch batch;
    batch.watched = layer;
    for (size_t i = 0, before = 0; i < pairs.size(); before += pairs[i++].target.count)
        for (size_t t = 0; t < pairs[i].target.count; t++) {
            batch.tokens.push_back(pairs[i].target.begin[t]), batch.places.push_back(static_cast<int32_t>(t));
            batch.past.push_back(past.data() + before), batch.of.push_back(sources[i]);
            batch.weights.push_back(pairs[i].weights + t * static_cast<size_t>(m.H) * pairs[i].source.count);
            if (batch.tokens.size() == GROUP) texts.write(batch), batch.clear();
        }
    if (!batch.tokens.empty()) texts.write(batch);
}

}  // namespace

void attend(const Model &m, const Arithmetic &by, const Looked &asked) {
    if (asked.layer < 0 || asked.layer >= m.decoder.count)
        throw Error("it has no layer " + std::to_string(asked.layer) + " that looks at a source, but " +
                    std::to_string(m.decoder.count) + " of them");
    const auto sources = split(m, asked.source_lengths, asked.pairs, asked.sources, asked.source_tokens);
    const auto targets = split(m, asked.target_lengths, asked.pairs, asked.targets, asked.target_tokens);
    std::vector<std::vector<Pair>> groups;
    float *weights = asked.weights;
    for (size_t i = 0, tokens = 0; i < sources.size(); i++) {
        tokens += targets[i].count;
        if (groups.empty() || tokens > GROUP) groups.emplace_back(), tokens = targets[i].count;
        groups.back().push_back({sources[i], targets[i], weights});
        weights += targets[i].count * static_cast<size_t>(m.H) * sources[i].count;
    }
    share(groups.size(), asked.threads, [&](auto next) {
        for (size_t i; next(i);) attend(m, by, groups[i], asked.layer);
    });
}

}  // namespace qkv
