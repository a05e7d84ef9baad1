// The searches: greedy, beam and sampling, on a model that writes (src/qkv/decoding is the plain form of all of it).
#pragma once
#include "file.h"

namespace qkv {

// When a text ends: it must at its limit (a translation), it is cut there, or it never does before.
enum Ends : int32_t { FORCED, CUT, NEVER };

// What is asked of a call. The same struct stands in library.py.
struct Asked {
    int32_t sentences, beam, samples, no_repeat, ends, top_k, threads, never_count;  // samples: texts drawn of each
    int32_t at_least, prefix_count;  // tokens that a text has before it ends; that all begin with
    int32_t first, end;         // the tokens that a translation begins with and that a text ends with
    float temperature, top_p;   // with samples
    const int32_t *lengths;     // (sentences)
    const int32_t *ids;         // sources or prompts, one behind the other
    const int32_t *limits;      // (sentences): most tokens of each text, its end included
    const int32_t *never;       // (never_count): tokens that no text holds
    const int32_t *prefix;      // (prefix_count)
    const int32_t *listed;      // tokens of the sentences' shortlists, one behind the other, each rising; null: all may be used
    const int64_t *listed_starts;  // (sentences + 1): where each list begins
    const double *numbers;      // (sentences, samples, width): from 0 to 1, what is drawn by
    int64_t tokens, width;      // how many ids there are; the largest limit
    // What is found: of each sentence at most `each` texts, in the order in which they ended.
    int64_t each;
    int32_t *counts;            // (sentences)
    int32_t *sizes;             // (sentences, each): their tokens, the end among them
    int32_t *texts;             // (sentences, each, width)
    float *log_p;               // (sentences, each)
};

void check(const Model &, const Asked &);

// Some sentences that go through the model together, step by step.
class Searching {
public:
    virtual ~Searching() = default;
    // A token more of each text; whether some go on. With a beam of one, or samples, `written` are then pairs of a
    // text's number, sentence * samples + sample, and its token.
    virtual bool step() = 0;
    std::vector<std::pair<int32_t, int32_t>> written;
};

// The sentences with the numbers `some`; starts[i] is where the ids of i begin. What is given must outlive it.
std::unique_ptr<Searching> search(const Model &, const Arithmetic &, const Asked &, const std::vector<int> &some,
                                  const std::vector<size_t> &starts);

}  // namespace qkv
