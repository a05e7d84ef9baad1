// Everything that the engine does, once, with small files and no Python: for a program that watches every access.
//
//     small FILE ...     each a file of engines/native/file.py with a vocabulary of 40 words or more
#include <cstdint>
#include <cstdio>
#include <vector>

#include "../attention.h"
#include "../search.h"

extern "C" {
void *qkv_open(const char *, const char *, char *, size_t);
void qkv_close(void *);
void qkv_sizes(void *, int32_t *);
int qkv_read(void *, int32_t, int64_t, const int32_t *, const int32_t *, const int32_t *, int32_t, int32_t, float *, char *, size_t);
int qkv_search(void *, const qkv::Asked *, char *, size_t);
void *qkv_begin(void *, const qkv::Asked *, char *, size_t);
int32_t qkv_next(void *, int32_t *, int32_t *, char *, size_t);
void qkv_end(void *);
int qkv_attend(void *, const qkv::Looked *, char *, size_t);
}

namespace {

char error[512];
const std::vector<int32_t> lengths{5, 1, 9}, ids{5, 6, 7, 8, 2, 9, 11, 12, 13, 14, 15, 16, 17, 18, 2}, limits{6, 9, 4};
const std::vector<int32_t> never{0, 1, 3}, prefix{21, 22}, listed{2, 7, 9, 21, 22, 2, 8, 21, 22, 39, 2, 21, 22};
const std::vector<int64_t> listed_starts{0, 5, 10, 13};

int failed(const char *what) { return std::fprintf(stderr, "%s: %s\n", what, error), 1; }

// What is found goes into `out`, whose size is right for 8 texts of each sentence.
struct Found {
    std::vector<int32_t> counts = std::vector<int32_t>(3), sizes = std::vector<int32_t>(24), texts = std::vector<int32_t>(24 * 9);
    std::vector<float> log_p = std::vector<float>(24);
};

int search(void *engine, int beam, int samples, bool is_short, bool is_told, bool is_stream) {
    const std::vector<double> numbers(3 * 2 * 9, 0.4);
    Found out;
    qkv::Asked asked{};
    asked.sentences = 3, asked.beam = beam, asked.samples = samples, asked.no_repeat = 2, asked.ends = samples ? 1 : 0;
    asked.top_k = 5, asked.threads = 2, asked.never_count = 3, asked.at_least = 2, asked.prefix_count = is_told ? 2 : 0;
    asked.first = 1, asked.end = 2, asked.temperature = 1.5f, asked.top_p = 0.9f;
    asked.lengths = lengths.data(), asked.ids = ids.data(), asked.limits = limits.data(), asked.never = never.data();
    asked.prefix = prefix.data(), asked.numbers = numbers.data(), asked.tokens = 15, asked.width = 9, asked.each = samples ? samples : 8;
    if (is_short) asked.listed = listed.data(), asked.listed_starts = listed_starts.data();
    asked.counts = out.counts.data(), asked.sizes = out.sizes.data(), asked.texts = out.texts.data(), asked.log_p = out.log_p.data();
    if (!is_stream) return qkv_search(engine, &asked, error, sizeof error) ? failed("search") : 0;
    void *stream = qkv_begin(engine, &asked, error, sizeof error);
    int32_t rows[6], tokens[6], count = stream ? 1 : -1;
    for (int step = 0; count > 0 && step < 7; step++) count = qkv_next(stream, rows, tokens, error, sizeof error);
    qkv_end(stream);  // before it is over
    return count < 0 ? failed("stream") : 0;
}

int all(void *engine) {
    int32_t sizes[5];
    qkv_sizes(engine, sizes);
    std::vector<float> states(15 * static_cast<size_t>(sizes[0])), weights(45 * 15 * static_cast<size_t>(sizes[2]));
    if (qkv_read(engine, 3, 15, lengths.data(), ids.data(), nullptr, 0, 2, states.data(), error, sizeof error)) return failed("read");
    int wrong = 0;
    for (bool is_short : {false, true})
        for (bool is_told : {false, true}) {
            wrong += search(engine, 1, 0, is_short, is_told, false) + search(engine, 4, 0, is_short, is_told, false);
            wrong += search(engine, 1, 2, is_short, is_told, false) + search(engine, 1, 0, is_short, is_told, true);
        }
    qkv::Looked asked{3, 0, 2, lengths.data(), lengths.data(), ids.data(), ids.data(), 15, 15, weights.data()};
    if (sizes[3] && qkv_attend(engine, &asked, error, sizeof error)) return failed("attention");
    return wrong;
}

}  // namespace

int main(int count, char **names) {
    int wrong = 0;
    for (int i = 1; i < count; i++) {
        void *engine = qkv_open(names[i], "", error, sizeof error);
        wrong += engine ? all(engine) : failed(names[i]);
        qkv_close(engine);
    }
    return wrong != 0;
}
