#include "states.h"

#include <cstring>

#include "texts.h"
#include "threads.h"

namespace qkv {
namespace {

struct Piece {  // a group, and where its results begin
    Group group;
    size_t row;
};

void check_range(const char *what, const int32_t *values, size_t count, int end) {
    for (size_t i = 0; i < count; i++)
        if (values[i] < 0 || values[i] >= end)
            throw Error(std::string(what) + " " + std::to_string(values[i]) + " is none of the " + std::to_string(end) +
                        " that the model has");
}

std::vector<Piece> pieces(const Model &m, const Reading &asked, size_t tokens) {
    constexpr char WRONG[] = "the lengths of the sentences are not those of the tokens";
    std::vector<Piece> found;
    size_t place = 0;
    for (int i = 0; i < asked.sentences; i++) {
        const int32_t length = asked.lengths[i];
        if (length < 1 || static_cast<size_t>(length) > tokens - place) throw Error(WRONG);
        if (length > m.places)
            throw Error("it has " + std::to_string(length) + " tokens, and the model has " + std::to_string(m.places) +
                        " places");
        if (found.empty() || found.back().group.tokens + length > GROUP) {
            Piece piece;
            piece.group.lengths = asked.lengths + i, piece.group.ids = asked.ids + place;
            piece.group.segments = asked.segments ? asked.segments + place : nullptr;
            piece.row = asked.pool == STATES ? place : static_cast<size_t>(i);
            found.push_back(piece);
        }
        found.back().group.sentences++, found.back().group.tokens += length;
        place += static_cast<size_t>(length);
    }
    if (place != tokens) throw Error(WRONG);
    check_range("token", asked.ids, tokens, m.vocab);
    if (asked.segments && m.segments > 1) check_range("segment", asked.segments, tokens, m.segments);
    return found;
}

// States (N, D) of a group -> its rows of the result, without the numbers that D was rounded up by.
void give(const Model &m, const Reading &asked, const Piece &piece, const float *x) {
    const size_t D = m.D, width = m.d_model;
    float *out = asked.out + piece.row * width;
    if (asked.pool == STATES) {
        for (int n = 0; n < piece.group.tokens; n++, out += width) std::memcpy(out, x + n * D, width * 4);
        return;
    }
    for (int i = 0; i < piece.group.sentences; i++, out += width) {
        const int T = piece.group.lengths[i];
        if (asked.pool != MEAN) std::memcpy(out, x + (asked.pool == LAST ? T - 1 : 0) * D, width * 4);
        else
            for (size_t d = 0; d < width; d++) {
                float total = 0;
                for (int t = 0; t < T; t++) total += x[t * D + d];
                out[d] = total / static_cast<float>(T);
            }
        x += T * D;
    }
}

}  // namespace

void read_all(const Model &m, const Arithmetic &by, const Reading &asked, size_t tokens, int threads) {
    const std::vector<Piece> all = pieces(m, asked, tokens);
    int most = 0, longest = 0;
    for (const Piece &piece : all) most = std::max(most, piece.group.tokens);
    for (int i = 0; i < asked.sentences; i++) longest = std::max(longest, asked.lengths[i]);

    share(all.size(), threads, [&](auto next) {
        Workspace space(m, static_cast<size_t>(most), static_cast<size_t>(longest));
        for (size_t i; next(i);) {
            by.read(m, all[i].group, space.scratch);
            give(m, asked, all[i], space.scratch.x);
        }
    });
}

}  // namespace qkv
