#include "search.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "shortlist.h"

namespace qkv {
namespace {

constexpr float NONE = -std::numeric_limits<float>::infinity();
constexpr int GROUP = 128;  // tokens that go through the blocks together
constexpr int MOST = 4096;  // hypotheses of a text

// Room for the keys and values of tokens, which is never moved: as many slots at a time as are likely to be wanted.
class Slots {
public:
    Slots(const Model &m, size_t many) : width(2 * static_cast<size_t>(m.attention_width())), many(many), used(many) {
        layers = static_cast<size_t>(m.writer().count);
    }
    float *take() {
        if (used == many) current = memory.take<float>(layers * many * width), used = 0;
        return current + used++ * width;
    }
    size_t layer_stride() const { return many * width; }

private:
    Memory memory;
    size_t width, many, used, layers;
    float *current = nullptr;
};

struct Source {  // keys and values of one
    const float *memory = nullptr;
    size_t stride = 0;
    int32_t length = 0;
};

struct Row {  // a hypothesis at work
    int text = 0, sample = 0;
    float total = 0;               // log p
    std::vector<int32_t> tokens;   // with the one that it begins with
    std::vector<float *> past;     // where the keys and values of its tokens stand, a prompt's among them
    std::vector<int32_t> banned;   // what may not come next
};

// The tokens that would complete a run of n which the row already has.
void ban(Row &row, int n) {
    row.banned.clear();
    const auto &tokens = row.tokens;
    const size_t run = static_cast<size_t>(n);
    for (size_t i = 0; n && i + run <= tokens.size(); i++)
        if (std::equal(tokens.begin() + static_cast<long>(i), tokens.begin() + static_cast<long>(i + run - 1),
                       tokens.end() - static_cast<long>(run - 1)))
            row.banned.push_back(tokens[i + run - 1]);
}

class Search {
public:
    Search(const Model &m, const Arithmetic &by, const Asked &asked, const std::vector<int> &some,
           const std::vector<size_t> &starts)
        : m(m), by(by), asked(asked), some(some), starts(starts), widest(widest_of()),
          room(m, static_cast<size_t>(std::max(GROUP, widest)), longest_of()),
          slots(m, static_cast<size_t>(widest) * 16) {
        choose_among();
        choice.every = asked.samples > 0;
        choice.logits = room.take<float>(static_cast<size_t>(widest) * (choice.every ? choice.product->out : 64));
        found.resize(static_cast<size_t>(widest));
        const size_t kept = static_cast<size_t>(widest) * best_of_each();
        float *values = room.take<float>(kept);
        int32_t *ids = room.take<int32_t>(kept);
        for (size_t i = 0; i < found.size(); i++) {
            found[i].k = static_cast<int>(best_of_each());
            found[i].values = values + i * best_of_each(), found[i].ids = ids + i * best_of_each();
        }
    }

    void run() {
        for (int text : some) asked.counts[text] = 0;
        m.translates() ? read_sources() : read_prompts();
        while (!rows.empty()) {
            step();
            asked.samples || asked.beam == 1 ? one_by_one() : advance();
        }
    }

private:
    // The columns that tokens are chosen from: of the vocabulary, or of a shortlist.
    void choose_among() {
        std::vector<int32_t> hidden(asked.never, asked.never + asked.never_count);
        if (asked.ends == NEVER) hidden.push_back(asked.end);
        choice.product = &m.vocabulary, choice.words = m.vocab;
        if (asked.listed) {
            list = std::make_unique<Shortlist>(m, asked, some);
            choice.product = &list->product, choice.ids = list->ids.data();
            choice.words = static_cast<int>(list->ids.size());
        }
        for (int32_t id : hidden)
            if (!list || list->has(id)) never.push_back(column(id));
        choice.never = never.data(), choice.never_count = static_cast<int>(never.size());
        choice.watched = column(asked.end);
    }
    int32_t column(int32_t id) const { return list ? static_cast<int32_t>(list->column(id)) : id; }

    // -- reading ------------------------------------------------------------------------------------------------------

    // Encoder and memory, some 128 tokens at a time; each text begins with the token `first`.
    void read_sources() {
        sources.resize(some.size());
        std::vector<int32_t> ids, lengths;
        for (size_t i = 0, begin = 0; i < some.size(); i++) {
            const int32_t length = asked.lengths[some[i]];
            const int32_t *from = asked.ids + starts[static_cast<size_t>(some[i])];
            ids.insert(ids.end(), from, from + length), lengths.push_back(length);
            const bool is_last = i + 1 == some.size();
            if (!is_last && ids.size() + static_cast<size_t>(asked.lengths[some[i + 1]]) <= GROUP) continue;
            Group group;
            group.sentences = static_cast<int>(lengths.size()), group.tokens = static_cast<int>(ids.size());
            group.lengths = lengths.data(), group.ids = ids.data();
            by.read(m, group, room.scratch);
            const size_t width = 2 * static_cast<size_t>(m.attention_width()), stride = ids.size() * width;
            float *memory = room.take<float>(static_cast<size_t>(m.decoder.count) * stride);
            by.remember(m, group.tokens, room.scratch, memory, stride);
            for (size_t j = begin, token = 0; j <= i; token += static_cast<size_t>(lengths[j - begin]), j++)
                sources[j] = {memory + token * width, stride, lengths[j - begin]};
            ids.clear(), lengths.clear(), begin = i + 1;
        }
        for (size_t i = 0; i < some.size(); i++) begin_rows(static_cast<int>(i), asked.first, {});
    }

    // Prompts, but for their last tokens, which the first step reads.
    void read_prompts() {
        std::vector<int32_t> tokens, places;
        std::vector<std::vector<float *>> pasts(some.size());
        std::vector<size_t> owner;
        const auto flush = [&] {
            std::vector<float *const *> past;
            for (size_t i : owner) past.push_back(pasts[i].data());
            write(tokens, places, past, {});
            tokens.clear(), places.clear(), owner.clear();
        };
        for (size_t i = 0; i < some.size(); i++) {
            const int32_t *ids = asked.ids + starts[static_cast<size_t>(some[i])];
            for (int32_t t = 0; t + 1 < asked.lengths[some[i]]; t++) {
                pasts[i].push_back(slots.take());
                tokens.push_back(ids[t]), places.push_back(t), owner.push_back(i);
                if (tokens.size() == GROUP) flush();
            }
        }
        if (!tokens.empty()) flush();
        for (size_t i = 0; i < some.size(); i++)
            begin_rows(static_cast<int>(i), asked.ids[starts[static_cast<size_t>(some[i])] +
                                                      static_cast<size_t>(asked.lengths[some[i]]) - 1], pasts[i]);
    }

    void begin_rows(int text, int32_t first, const std::vector<float *> &past) {
        for (int sample = 0; sample < std::max(1, asked.samples); sample++) {
            Row row;
            row.text = text, row.sample = sample, row.tokens = {first}, row.past = past;
            rows.push_back(std::move(row));
        }
    }

    // -- a step -------------------------------------------------------------------------------------------------------

    void write(const std::vector<int32_t> &tokens, const std::vector<int32_t> &places,
               const std::vector<float *const *> &past, const std::vector<Source> &of) {
        std::vector<const float *> memory;
        std::vector<size_t> strides;
        std::vector<int32_t> lengths;
        for (const Source &source : of)
            memory.push_back(source.memory), strides.push_back(source.stride), lengths.push_back(source.length);
        Step given;
        given.rows = static_cast<int>(tokens.size()), given.tokens = tokens.data(), given.places = places.data();
        given.past = past.data(), given.layer_stride = slots.layer_stride();
        given.memory = memory.data(), given.memory_strides = strides.data(), given.memory_lengths = lengths.data();
        by.write(m, given, room.scratch);
    }

    void step() {
        std::vector<int32_t> tokens, places;
        std::vector<float *const *> past;
        std::vector<Source> of;
        for (size_t i = 0; i < rows.size(); i++) {
            Row &row = rows[i];
            places.push_back(static_cast<int32_t>(row.past.size())), tokens.push_back(row.tokens.back());
            row.past.push_back(slots.take());
            past.push_back(row.past.data());
            if (m.translates()) of.push_back(sources[static_cast<size_t>(row.text)]);
            ban(row, asked.no_repeat);
            if (list) found[i].may = list->may[static_cast<size_t>(row.text)].data();
            found[i].banned = row.banned.data(), found[i].banned_count = static_cast<int>(row.banned.size());
        }
        write(tokens, places, past, of);
        by.choose(m, static_cast<int>(rows.size()), room.scratch, choice, found.data());
    }

    // Whether a row now writes the last token that it may.
    bool is_last(const Row &row) const {
        return static_cast<size_t>(asked.limits[some[static_cast<size_t>(row.text)]]) <= row.tokens.size();
    }
    bool must_end(const Row &row) const { return asked.ends == FORCED && is_last(row); }

    void finish(const Row &row, int32_t token, float total) {
        const size_t text = static_cast<size_t>(some[static_cast<size_t>(row.text)]), each = static_cast<size_t>(asked.each);
        const size_t at = text * each + (asked.samples ? static_cast<size_t>(row.sample)
                                                       : static_cast<size_t>(asked.counts[text]));
        int32_t *to = std::copy(row.tokens.begin() + 1, row.tokens.end(), asked.texts + at * static_cast<size_t>(asked.width));
        *to = token;
        asked.sizes[at] = static_cast<int32_t>(row.tokens.size()), asked.log_p[at] = total;
        asked.counts[text]++;
    }

    // -- beam search --------------------------------------------------------------------------------------------------

    struct Candidate {
        float total;
        size_t row;
        int32_t token;
    };

    // Of all continuations of a text's hypotheses the best 2 * beam: ends among the first `beam` of them are finished,
    // the first `beam` that do not end live on, until `beam` are finished.
    void advance() {
        std::vector<Row> next;
        const size_t beam = static_cast<size_t>(asked.beam);
        for (size_t first = 0, end; first < rows.size(); first = end) {
            std::vector<Candidate> all;
            for (end = first; end < rows.size() && rows[end].text == rows[first].text; end++) continuations(end, all);
            std::stable_sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.total > b.total; });
            if (all.size() > 2 * beam) all.resize(2 * beam);
            const bool at_limit = is_last(rows[first]);
            for (size_t i = 0; i < std::min(beam, all.size()); i++)
                if (all[i].token == asked.end || at_limit) finish(rows[all[i].row], all[i].token, all[i].total);
            const int text = some[static_cast<size_t>(rows[first].text)];
            if (at_limit || asked.counts[text] >= asked.beam) continue;
            size_t alive = 0;
            for (const Candidate &one : all)
                if (one.token != asked.end && alive++ < beam) {
                    next.push_back(rows[one.row]);
                    next.back().total = one.total, next.back().tokens.push_back(one.token);
                }
        }
        rows.swap(next);
    }

    void continuations(size_t i, std::vector<Candidate> &all) const {
        const Row &row = rows[i];
        const Best &best = found[i];
        const auto add = [&](float log_p, int32_t token) {
            if (row.total + log_p > NONE) all.push_back({row.total + log_p, i, token});
        };
        if (must_end(row)) return add(best.end, asked.end);
        for (int j = 0; j < best.found; j++) add(best.values[j], best.ids[j]);
    }

    // -- greedy and sampling ------------------------------------------------------------------------------------------

    void one_by_one() {
        std::vector<Row> next;
        for (size_t i = 0; i < rows.size(); i++) {
            Row &row = rows[i];
            const auto [log_p, token] = asked.samples ? drawn(i) : most_probable(i);
            row.total += log_p;
            if (token == asked.end || is_last(row)) finish(row, token, row.total);
            else row.tokens.push_back(token), next.push_back(std::move(row));
        }
        rows.swap(next);
    }

    std::pair<float, int32_t> most_probable(size_t i) const {
        if (must_end(rows[i])) return {found[i].end, asked.end};
        if (found[i].found) return {found[i].values[0], found[i].ids[0]};
        return {NONE, 0};  // nothing may follow
    }

    // Holtzman et al. 2020: by p = softmax(log p / temperature), cut to the `top_k` best and to the fewest that sum to
    // top_p, the token at which the sum of p passes the row's next number.
    std::pair<float, int32_t> drawn(size_t i) {
        const Row &row = rows[i];
        const size_t V = static_cast<size_t>(choice.words);
        float *log_p = choice.logits + i * static_cast<size_t>(choice.product->out);
        const float top = *std::max_element(log_p, log_p + V);
        double total = 0;
        for (size_t v = 0; v < V; v++) total += std::exp(log_p[v] - top);
        const float rest = static_cast<float>(std::log(total));
        for (size_t v = 0; v < V; v++) log_p[v] = log_p[v] - top - rest;
        for (int32_t id : row.banned)
            if (!list || list->has(id)) log_p[column(id)] = NONE;
        if (must_end(row)) return {log_p[choice.watched], asked.end};

        p.resize(V);
        const float most = *std::max_element(log_p, log_p + V) / asked.temperature;
        total = 0;
        for (size_t v = 0; v < V; v++) total += p[v] = std::exp(log_p[v] / asked.temperature - most);
        for (size_t v = 0; v < V; v++) p[v] = static_cast<float>(p[v] / total);
        narrow();
        double sum = 0, passed = 0;
        for (size_t v = 0; v < V; v++) sum += p[v];
        const int text = some[static_cast<size_t>(row.text)];
        const size_t at = static_cast<size_t>(text) * static_cast<size_t>(asked.samples) + static_cast<size_t>(row.sample);
        const double number = asked.numbers[at * static_cast<size_t>(asked.width) + row.tokens.size() - 1] * sum;
        size_t chosen = 0;  // the last that may be drawn, if rounding keeps the sum from passing the number
        for (size_t v = 0; v < V; v++) {
            if (!(p[v] > 0)) continue;
            passed += p[v], chosen = v;
            if (passed > number) break;
        }
        return {log_p[chosen], choice.ids ? choice.ids[chosen] : static_cast<int32_t>(chosen)};
    }

    // p (V) with all but the allowed tokens at 0.
    void narrow() {
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

    // -- sizes --------------------------------------------------------------------------------------------------------

    int widest_of() const {  // rows at most
        return static_cast<int>(some.size()) * std::max({1, asked.samples, asked.samples ? 1 : asked.beam});
    }
    size_t best_of_each() const {
        const bool is_beam = asked.beam > 1 && !asked.samples;
        return static_cast<size_t>(is_beam ? std::min(2 * asked.beam, choice.words) : 1);
    }
    size_t longest_of() const {  // places that anything looks at
        size_t longest = 0;
        for (int text : some) {
            const size_t given = static_cast<size_t>(asked.lengths[text]), limit = static_cast<size_t>(asked.limits[text]);
            longest = std::max(longest, m.translates() ? std::max(given, limit) : given + limit);
        }
        return longest;
    }

    const Model &m;
    const Arithmetic &by;
    const Asked &asked;
    const std::vector<int> &some;
    const std::vector<size_t> &starts;
    const int widest;
    Workspace room;
    Slots slots;
    std::unique_ptr<Shortlist> list;
    std::vector<int32_t> never;  // columns
    Choice choice;
    std::vector<Best> found;
    std::vector<Source> sources;
    std::vector<Row> rows;
    std::vector<float> p;
    std::vector<size_t> order;
};

}  // namespace

void check(const Model &m, const Asked &a) {
    const auto text = [](int64_t number) { return std::to_string(number); };
    if (!m.vocabulary.out) throw Error("the model of this file reads, and does not write");
    if (a.beam < 1 || a.beam > MOST || a.samples < 0 || a.samples > MOST || a.no_repeat < 0 || a.top_k < 0 || a.ends < FORCED || a.ends > NEVER)
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
    int64_t place = 0;
    for (int i = 0; i < a.sentences; i++) {
        const int64_t length = a.lengths[i], limit = a.limits[i], read = m.translates() ? limit : length + limit - 1;
        if (length < 1 || length > a.tokens - place)
            throw Error("the lengths of the sentences are not those of the tokens");
        if (limit < 1 || limit > a.width) throw Error("a text may have " + text(limit) + " tokens, which is no limit");
        if (std::max(length, read) > m.places)
            throw Error("it has " + text(length) + " tokens and may go on for " + text(limit) + ", and the model has " +
                        text(m.places) + " places");
        place += length;
    }
    for (int i = 0; a.listed && i < a.sentences; i++) {
        if (a.listed_starts[i] > a.listed_starts[i + 1]) throw Error("the lists of the sentences are not in order");
        const int32_t *begin = a.listed + a.listed_starts[i], *end = a.listed + a.listed_starts[i + 1];
        std::for_each(begin, end, is_token);
        if (std::find(begin, end, a.end) == end) throw Error("a sentence's list has not the token that ends it");
    }
    if (place != a.tokens) throw Error("the lengths of the sentences are not those of the tokens");
    for (int64_t i = 0; i < a.tokens; i++) is_token(a.ids[i]);
}

void search(const Model &m, const Arithmetic &by, const Asked &asked, const std::vector<int> &some,
            const std::vector<size_t> &starts) {
    Search(m, by, asked, some, starts).run();
}

}  // namespace qkv
