// What stands before a token that is written: its source, and the keys and values of the tokens before it.
#pragma once
#include "file.h"
#include "workspace.h"

namespace qkv {

constexpr int GROUP = 128;  // tokens that go through the blocks together: what they need stays in a core's own cache

struct Ids {  // of one text
    const int32_t *begin = nullptr;
    size_t count = 0;
};

struct Source {  // keys and values of one
    const float *memory = nullptr;
    size_t stride = 0;
    int32_t length = 0;
};

using Past = std::vector<float *>;  // where the keys and values of the tokens of a text stand

// Room for the keys and values of tokens, which is never moved: as many slots at a time as are likely to be wanted.
class Slots {
public:
    Slots(const Model &m, size_t many) : width(2 * static_cast<size_t>(m.attention_width())), many(many), used(many) {
        layers = static_cast<size_t>(m.writer().count);
    }
    float *take() {
        if (!spare.empty()) {
            float *found = spare.back();
            spare.pop_back();
            return found;
        }
        if (used == many) chunks.push_back(memory.take<float>(layers * many * width)), used = 0;
        return chunks.back() + used++ * width;
    }
    // All but these, which are in order, may be taken again.
    void keep_only(const Past &kept) {
        spare.clear();
        for (float *chunk : chunks)
            for (size_t i = 0; i < (chunk == chunks.back() ? used : many); i++)
                if (!std::binary_search(kept.begin(), kept.end(), chunk + i * width)) spare.push_back(chunk + i * width);
    }
    size_t layer_stride() const { return many * width; }

private:
    Memory memory;
    size_t width, many, used, layers;
    std::vector<float *> chunks;
    Past spare;
};

// Some tokens of a step, and what they need; `weights` only where attention over the source is asked for.
struct Batch {
    std::vector<int32_t> tokens, places;
    std::vector<float *const *> past;
    std::vector<Source> of;
    int watched = -1;              // a layer
    std::vector<float *> weights;  // where (H, S) of each row goes

    void clear() { tokens.clear(), places.clear(), past.clear(), of.clear(), weights.clear(); }
};

// Reads for a search, or for whoever wants to know where a translation looks.
class Texts {
public:
    // At most `rows` go through the blocks together, or 128; no text has more than `longest` tokens; room for the keys and
    // values of `many` is made at a time.
    Texts(const Model &m, const Arithmetic &by, size_t rows, size_t longest, size_t many)
        : slots(m, many), m(m), by(by), space(m, std::max({static_cast<size_t>(GROUP), rows, longest}), longest) {}

    // Encoder and memory, some 128 tokens at a time.
    std::vector<Source> read_sources(const std::vector<Ids> &texts) {
        std::vector<Source> found;
        std::vector<int32_t> ids, lengths;
        for (size_t i = 0; i < texts.size(); i++) {
            ids.insert(ids.end(), texts[i].begin, texts[i].begin + texts[i].count);
            lengths.push_back(static_cast<int32_t>(texts[i].count));
            if (i + 1 < texts.size() && ids.size() + texts[i + 1].count <= GROUP) continue;
            Group group;
            group.sentences = static_cast<int>(lengths.size()), group.tokens = static_cast<int>(ids.size());
            group.lengths = lengths.data(), group.ids = ids.data();
            by.read(m, group, space.scratch);
            const size_t width = 2 * static_cast<size_t>(m.attention_width()), stride = ids.size() * width;
            float *memory = space.take<float>(static_cast<size_t>(m.decoder.count) * stride);
            by.remember(m, group.tokens, space.scratch, memory, stride);
            for (int32_t length : lengths) {
                found.push_back({memory, stride, length});
                memory += static_cast<size_t>(length) * width;
            }
            ids.clear(), lengths.clear();
        }
        return found;
    }

    // The pasts of some prompts, whose tokens see those before them.
    std::vector<Past> read_prompts(const std::vector<Ids> &texts) {
        std::vector<Past> found(texts.size());
        for (size_t i = 0; i < texts.size(); i++)  // before any is pointed to
            for (size_t t = 0; t < texts[i].count; t++) found[i].push_back(slots.take());
        Batch rows;
        for (size_t i = 0; i < texts.size(); i++)
            for (size_t t = 0; t < texts[i].count; t++) {
                rows.tokens.push_back(texts[i].begin[t]), rows.places.push_back(static_cast<int32_t>(t));
                rows.past.push_back(found[i].data());
                if (rows.tokens.size() == GROUP) write(rows), rows.clear();
            }
        if (!rows.tokens.empty()) write(rows);
        return found;
    }

    // Their states are left in scratch().x.
    void write(const Batch &rows) {
        std::vector<const float *> memory;
        std::vector<size_t> strides;
        std::vector<int32_t> lengths;
        for (const Source &source : rows.of)
            memory.push_back(source.memory), strides.push_back(source.stride), lengths.push_back(source.length);
        Step given;
        given.rows = static_cast<int>(rows.tokens.size());
        given.tokens = rows.tokens.data(), given.places = rows.places.data();
        given.past = rows.past.data(), given.layer_stride = slots.layer_stride();
        given.memory = memory.data(), given.memory_strides = strides.data(), given.memory_lengths = lengths.data();
        given.watched = rows.watched, given.weights = rows.weights.data();
        by.write(m, given, space.scratch);
    }

    const Scratch &scratch() const { return space.scratch; }
    template <class T> T *take(size_t count) { return space.take<T>(count); }
    Slots slots;

private:
    const Model &m;
    const Arithmetic &by;
    Workspace space;
};

}  // namespace qkv
