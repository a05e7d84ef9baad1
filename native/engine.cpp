// The functions that Python calls, and the threads.
//
// No exception leaves them: what goes wrong is a sentence in `error`, and the result is null or not 0.
#include <cstdio>
#include <new>

#include "attention.h"
#include "search.h"
#include "states.h"
#include "threads.h"

#define PUBLIC extern "C" __attribute__((visibility("default")))

namespace qkv {
namespace {

constexpr size_t ROWS = 128;  // hypotheses that go through the blocks together

struct Path {
    const char *name;
    const Arithmetic *by;
    bool is_here;
};

// The fastest first.
std::vector<Path> paths() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
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

// The searches of a call, by groups: sentences of like length go together, the longest first; as many groups as threads
// at least.
struct Searches {
    Searches(const Engine &engine, const Asked &given) : engine(engine), asked(given) {
        check(engine.file->model, asked);
        std::vector<int> order;
        size_t place = 0;
        for (int i = 0; i < asked.sentences; i++)
            starts.push_back(place), order.push_back(i), place += static_cast<size_t>(asked.lengths[i]);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return asked.lengths[a] > asked.lengths[b]; });
        const size_t threads = static_cast<size_t>(std::max(asked.threads, 1)), count = order.size();
        const size_t each = static_cast<size_t>(std::max(1, asked.samples ? asked.samples : asked.beam));
        const size_t size = std::max<size_t>(1, std::min(ROWS / each, (count + threads - 1) / threads));
        for (size_t i = 0; i < count; i += size)
            groups.emplace_back(order.begin() + static_cast<long>(i), order.begin() + static_cast<long>(std::min(i + size, count)));
    }
    std::unique_ptr<Searching> begin(size_t group) const {
        return search(engine.file->model, *engine.path.by, asked, groups[group], starts);
    }
    void run() {
        share(groups.size(), asked.threads, [&](auto next) {
            for (size_t i; next(i);)
                for (const auto running = begin(i); running->step();) {}
        });
    }
    const Engine &engine;
    const Asked asked;
    std::vector<size_t> starts;
    std::vector<std::vector<int>> groups;
};

// All of them at once, a token of each text at a time.
struct Stream {
    Stream(const Engine &engine, const Asked &given) : all(engine, given), running(all.groups.size()) {
        if (given.beam > 1 && !given.samples) throw Error("a beam has no next token before its end");
    }
    // What was written, by the numbers of the texts; how many.
    int32_t next(int32_t *rows, int32_t *tokens) {
        share(running.size(), all.asked.threads, [&](auto next) {
            for (size_t i; next(i);) {
                if (!running[i]) running[i] = all.begin(i);
                running[i]->written.clear();
                running[i]->step();
            }
        });
        std::vector<std::pair<int32_t, int32_t>> written;
        for (const auto &one : running) written.insert(written.end(), one->written.begin(), one->written.end());
        std::sort(written.begin(), written.end());
        for (size_t i = 0; i < written.size(); i++) rows[i] = written[i].first, tokens[i] = written[i].second;
        return static_cast<int32_t>(written.size());
    }
    Searches all;
    std::vector<std::unique_ptr<Searching>> running;
};

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

// What a file is of: d_model, places, heads, layers of the decoder that look at a source, bits of a weight.
PUBLIC void qkv_sizes(void *engine, int32_t *five) {
    const Opened &file = *static_cast<Engine *>(engine)->file;
    const Model &m = file.model;
    const int32_t found[] = {m.d_model, m.places, m.H, m.decoder.count, file.bits};
    std::copy(std::begin(found), std::end(found), five);
}

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
        const Engine &opened = *static_cast<Engine *>(engine);
        read_all(opened.file->model, *opened.path.by, asked, static_cast<size_t>(tokens), threads);
    });
}

// What `asked` says, and where it says; see search.h.
PUBLIC int qkv_search(void *engine, const Asked *asked, char *error, size_t size) {
    return !guarded(error, size, [&] { Searches(*static_cast<Engine *>(engine), *asked).run(); });
}

// The same, greedy or drawn, a token of each text at a time; what `asked` points to must stay until the end.
PUBLIC void *qkv_begin(void *engine, const Asked *asked, char *error, size_t size) {
    Stream *found = nullptr;
    guarded(error, size, [&] { found = new Stream(*static_cast<Engine *>(engine), *asked); });
    return found;
}

// -> rows and tokens (sentences * samples at most): how many there are, 0 when all have ended, -1 if it failed.
PUBLIC int32_t qkv_next(void *stream, int32_t *rows, int32_t *tokens, char *error, size_t size) {
    int32_t found = -1;
    guarded(error, size, [&] { found = static_cast<Stream *>(stream)->next(rows, tokens); });
    return found;
}

PUBLIC void qkv_end(void *stream) { delete static_cast<Stream *>(stream); }

// Where the decoder looks; see attention.h.
PUBLIC int qkv_attend(void *engine, const Looked *asked, char *error, size_t size) {
    return !guarded(error, size, [&] {
        const Engine &opened = *static_cast<Engine *>(engine);
        attend(opened.file->model, *opened.path.by, *asked);
    });
}
