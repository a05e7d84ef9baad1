// The functions that Python calls, and the threads.
//
// No exception leaves them: what goes wrong is a sentence in `error`, and the result is null or not 0.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "search.h"
#include "workspace.h"

#define PUBLIC extern "C" __attribute__((visibility("default")))

namespace qkv {
namespace {

enum Pool : int32_t { STATES, MEAN, FIRST, LAST };
constexpr int GROUP = 128;    // tokens that go through the blocks together: what they need stays in a core's own cache
constexpr size_t ROWS = 128;  // hypotheses that do

struct Path {
    const char *name;
    const Arithmetic *by;
    bool is_here;
};

// The fastest first.
std::vector<Path> paths() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vnni");
    return {{"avx512", &avx512::arithmetic, has_avx512},
            {"avx2", &avx2::arithmetic, has_avx2},
            {"plain", &plain::arithmetic, true}};
#else
    return {{"plain", &plain::arithmetic, true}};
#endif
}

// The fastest path that this processor has, or the fastest from `held` on.
Path chosen(const std::string &held) {
    bool may = held.empty();
    for (const Path &path : paths()) {
        may = may || held == path.name;
        if (may && path.is_here) return path;
    }
    throw Error("this engine has no path " + held + "; it has avx512, avx2 and plain");
}

struct Engine {
    std::unique_ptr<Opened> file;
    Path path;
};

struct Reading {  // all sentences of a call
    int sentences;
    const int32_t *lengths, *ids, *segments;
    Pool pool;
    float *out;
};

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

// work(next) in so many threads; next(i) hands out the numbers from 0 to count - 1, each once. What one of them throws is
// thrown here, when all have ended.
template <class F> void share(size_t count, int threads, F work) {
    std::atomic<size_t> given{0};
    std::atomic<bool> failed{false};
    std::exception_ptr failure;
    std::mutex lock;
    const auto next = [&](size_t &i) { return !failed && (i = given++) < count; };
    const auto guarded = [&] {
        try {
            work(next);
        } catch (...) {
            const std::lock_guard<std::mutex> held(lock);
            failure = std::current_exception(), failed = true;
        }
    };
    std::vector<std::thread> others;
    try {
        for (size_t i = 1; i < std::min(static_cast<size_t>(std::max(threads, 1)), count); i++)
            others.emplace_back(guarded);
    } catch (const std::exception &) {
    }  // fewer threads than asked for: those that are here do it all
    guarded();
    for (std::thread &other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

void read_all(const Engine &engine, const Reading &asked, size_t tokens, int threads) {
    const Model &m = engine.file->model;
    const std::vector<Piece> all = pieces(m, asked, tokens);
    int most = 0, longest = 0;
    for (const Piece &piece : all) most = std::max(most, piece.group.tokens);
    for (int i = 0; i < asked.sentences; i++) longest = std::max(longest, asked.lengths[i]);

    share(all.size(), threads, [&](const std::function<bool(size_t &)> &next) {
        Workspace space(m, static_cast<size_t>(most), static_cast<size_t>(longest));
        for (size_t i; next(i);) {
            engine.path.by->read(m, all[i].group, space.scratch);
            give(m, asked, all[i], space.scratch.x);
        }
    });
}

// Sentences of like length go together, the longest first; as many groups as threads at least.
void search_all(const Engine &engine, const Asked &asked) {
    const Model &m = engine.file->model;
    check(m, asked);
    std::vector<size_t> starts;
    std::vector<int> order;
    size_t place = 0;
    for (int i = 0; i < asked.sentences; i++)
        starts.push_back(place), order.push_back(i), place += static_cast<size_t>(asked.lengths[i]);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return asked.lengths[a] > asked.lengths[b]; });
    const size_t threads = static_cast<size_t>(std::max(asked.threads, 1)), count = order.size();
    const size_t each = static_cast<size_t>(std::max(1, asked.samples ? asked.samples : asked.beam));
    const size_t size = std::max<size_t>(1, std::min(ROWS / each, (count + threads - 1) / threads));
    share((count + size - 1) / size, asked.threads, [&](const std::function<bool(size_t &)> &next) {
        for (size_t i; next(i);) {
            const auto first = order.begin() + static_cast<long>(i * size);
            search(m, *engine.path.by, asked, {first, first + static_cast<long>(std::min(size, count - i * size))}, starts);
        }
    });
}

template <class F> bool guarded(char *error, size_t size, F f) {
    try {
        f();
        return true;
    } catch (const std::bad_alloc &) {
        std::snprintf(error, size, "there is not enough memory");
    } catch (const std::exception &caught) {
        std::snprintf(error, size, "%s", caught.what());
    }
    return false;
}

}  // namespace
}  // namespace qkv

using namespace qkv;

PUBLIC void *qkv_open(const char *path, const char *held, char *error, size_t size) {
    Engine *found = nullptr;
    guarded(error, size, [&] { found = new Engine{open_file(path), chosen(held)}; });
    return found;
}

PUBLIC void qkv_close(void *engine) { delete static_cast<Engine *>(engine); }

// The name of the path that is taken, held to one or, if that is empty, not.
PUBLIC const char *qkv_path(const char *held, char *error, size_t size) {
    const char *found = nullptr;
    guarded(error, size, [&] { found = chosen(held).name; });
    return found;
}

PUBLIC int32_t qkv_width(void *engine) { return static_cast<Engine *>(engine)->file->model.d_model; }

PUBLIC int32_t qkv_places(void *engine) { return static_cast<Engine *>(engine)->file->model.places; }

PUBLIC int64_t qkv_multiply(const char *held, int32_t rounds, char *error, size_t size) {
    int64_t found = 0;
    guarded(error, size, [&] { found = chosen(held).by->multiply(rounds); });
    return found;
}

// Sentences of `lengths` (sentences), whose ids and segments (tokens; the latter may be null) stand one behind the
// other -> out (tokens, d_model), or with a pool (sentences, d_model).
PUBLIC int qkv_read(void *engine, int32_t sentences, int64_t tokens, const int32_t *lengths, const int32_t *ids,
                    const int32_t *segments, int32_t pool, int32_t threads, float *out, char *error, size_t size) {
    return !guarded(error, size, [&] {
        if (pool < STATES || pool > LAST) throw Error("there is no such pool");
        const Reading asked{sentences, lengths, ids, segments, static_cast<Pool>(pool), out};
        read_all(*static_cast<Engine *>(engine), asked, static_cast<size_t>(tokens), threads);
    });
}

// What `asked` says, and where it says; see search.h.
PUBLIC int qkv_search(void *engine, const Asked *asked, char *error, size_t size) {
    return !guarded(error, size, [&] { search_all(*static_cast<Engine *>(engine), *asked); });
}
