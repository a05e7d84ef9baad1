#include "search.h"

#include "row.h"
#include "shortlist.h"

namespace qkv {
namespace {

class Search : public Searching {
public:
    Search(const Model &m, const Arithmetic &by, const Asked &asked, const std::vector<int> &some,
           const std::vector<size_t> &starts)
        : m(m), by(by), asked(asked), some(some), starts(starts), widest(widest_of()),
          texts(m, by, static_cast<size_t>(widest), longest_of(), static_cast<size_t>(widest) * 16) {
        choose_among();
        choice.every = asked.samples > 0;
        choice.logits = texts.take<float>(static_cast<size_t>(widest) * (choice.every ? choice.product->out : 64));
        found.resize(static_cast<size_t>(widest));
        const size_t kept = static_cast<size_t>(widest) * best_of_each();
        float *values = texts.take<float>(kept);
        int32_t *ids = texts.take<int32_t>(kept);
        for (size_t i = 0; i < found.size(); i++) {
            found[i].k = static_cast<int>(best_of_each());
            found[i].values = values + i * best_of_each(), found[i].ids = ids + i * best_of_each();
        }
        for (int text : some) asked.counts[text] = 0;
        m.translates() ? read_sources() : read_prompts();
    }

    bool step() override {
        if (rows.empty()) return false;
        slide();
        look_on();
        written.clear();
        asked.samples || asked.beam == 1 ? one_by_one() : advance();
        return !rows.empty();
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
    }
    int32_t column(int32_t id) const { return list ? static_cast<int32_t>(list->column(id)) : id; }

    // -- reading ------------------------------------------------------------------------------------------------------

    Ids ids_of(int text) const {
        return {asked.ids + starts[static_cast<size_t>(text)], static_cast<size_t>(asked.lengths[text])};
    }

    void read_sources() {
        std::vector<Ids> given;
        for (int text : some) given.push_back(ids_of(text));
        sources = texts.read_sources(given);
        for (size_t i = 0; i < some.size(); i++) begin_rows(static_cast<int>(i), asked.first, {});
    }

    // Prompts, or the last half of what the model has places for if one is too long; but for their last tokens, which
    // the first step reads.
    void read_prompts() {
        std::vector<Ids> given;
        for (int text : some) {
            Ids ids = ids_of(text);
            if (ids.count > context()) ids.begin += ids.count - half(), ids.count = half();
            ids.count--;
            given.push_back(ids);
        }
        std::vector<Past> pasts = texts.read_prompts(given);
        for (size_t i = 0; i < some.size(); i++)
            begin_rows(static_cast<int>(i), given[i].begin[given[i].count], pasts[i]);
    }

    void begin_rows(int text, int32_t first, const Past &past) {
        for (int sample = 0; sample < std::max(1, asked.samples); sample++) {
            Row row;
            row.text = text, row.sample = sample, row.tokens = {first}, row.past = past;
            rows.push_back(std::move(row));
        }
    }

    // Texts that have filled the model's context go on from its last half, read anew; see decoding/sliding.py.
    size_t context() const { return static_cast<size_t>(m.places); }
    size_t half() const { return std::max<size_t>(1, context() / 2); }
    void slide() {
        std::vector<size_t> full;
        for (size_t i = 0; i < rows.size() && !m.translates(); i++)
            if (rows[i].past.size() >= context()) full.push_back(i), rows[i].past.clear();
        if (full.empty()) return;
        Past kept;
        for (const Row &row : rows) kept.insert(kept.end(), row.past.begin(), row.past.end());
        std::sort(kept.begin(), kept.end());
        texts.slots.keep_only(kept);
        std::vector<std::vector<int32_t>> windows;
        for (size_t i : full) windows.push_back(last_of(rows[i], half()));
        std::vector<Ids> given;
        for (const auto &window : windows) given.push_back({window.data(), window.size() - 1});
        std::vector<Past> pasts = texts.read_prompts(given);
        for (size_t i = 0; i < full.size(); i++) rows[full[i]].past = std::move(pasts[i]);
    }
    std::vector<int32_t> last_of(const Row &row, size_t count) const {
        const Ids prompt = ids_of(some[static_cast<size_t>(row.text)]);
        std::vector<int32_t> found;
        const size_t before = prompt.count - 1, all = before + row.tokens.size();
        for (size_t i = all - count; i < all; i++) found.push_back(i < before ? prompt.begin[i] : row.tokens[i - before]);
        return found;
    }

    // -- a step -------------------------------------------------------------------------------------------------------

    // The last token of each row, and what may follow it.
    void look_on() {
        Batch batch;
        for (size_t i = 0; i < rows.size(); i++) {
            Row &row = rows[i];
            batch.places.push_back(static_cast<int32_t>(row.past.size())), batch.tokens.push_back(row.tokens.back());
            row.past.push_back(texts.slots.take());
            batch.past.push_back(row.past.data());
            if (m.translates()) batch.of.push_back(sources[static_cast<size_t>(row.text)]);
            ban(row, asked.no_repeat);
            Best &best = found[i];
            if (list) best.may = list->may[static_cast<size_t>(row.text)].data();
            best.banned = row.banned.data(), best.banned_count = static_cast<int>(row.banned.size());
            const bool is_early = row.tokens.size() <= static_cast<size_t>(asked.at_least) && !is_last(row);
            best.hidden = is_early ? column(asked.end) : -1;
            best.watched = column(is_given(row) ? given_to(row) : asked.end);
        }
        texts.write(batch);
        by.choose(m, static_cast<int>(rows.size()), texts.scratch(), choice, found.data());
    }

    // Whether a row now writes the last token that it may.
    bool is_last(const Row &row) const {
        return static_cast<size_t>(asked.limits[some[static_cast<size_t>(row.text)]]) <= row.tokens.size();
    }
    bool must_end(const Row &row) const { return asked.ends == FORCED && is_last(row); }
    // Whether its next token is one of the prefix.
    bool is_given(const Row &row) const {
        return row.tokens.size() <= static_cast<size_t>(asked.prefix_count) && !must_end(row);
    }
    int32_t given_to(const Row &row) const { return asked.prefix[row.tokens.size() - 1]; }

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
        if (must_end(row)) return add(best.seen, asked.end);
        if (is_given(row)) return add(best.seen, given_to(row));
        for (int j = 0; j < best.found; j++) add(best.values[j], best.ids[j]);
    }

    // -- greedy and sampling ------------------------------------------------------------------------------------------

    void one_by_one() {
        std::vector<Row> next;
        for (size_t i = 0; i < rows.size(); i++) {
            Row &row = rows[i];
            const auto [log_p, token] = asked.samples ? drawn(i) : most_probable(i);
            row.total += log_p;
            written.emplace_back(some[static_cast<size_t>(row.text)] * std::max(1, asked.samples) + row.sample, token);
            if (token == asked.end || is_last(row)) finish(row, token, row.total);
            else row.tokens.push_back(token), next.push_back(std::move(row));
        }
        rows.swap(next);
    }

    std::pair<float, int32_t> most_probable(size_t i) const {
        if (must_end(rows[i])) return {found[i].seen, asked.end};
        if (is_given(rows[i])) return {found[i].seen, given_to(rows[i])};
        if (found[i].found) return {found[i].values[0], found[i].ids[0]};
        return {NONE, 0};  // nothing may follow
    }

    std::pair<float, int32_t> drawn(size_t i) {
        const Row &row = rows[i];
        const size_t V = static_cast<size_t>(choice.words);
        float *log_p = choice.logits + i * static_cast<size_t>(choice.product->out);
        to_log_p(log_p, V);
        if (is_given(row)) return {log_p[found[i].watched], given_to(row)};
        for (int32_t id : row.banned)
            if (!list || list->has(id)) log_p[column(id)] = NONE;
        if (must_end(row)) return {log_p[found[i].watched], asked.end};
        const size_t text = static_cast<size_t>(some[static_cast<size_t>(row.text)]);
        const size_t at = text * static_cast<size_t>(asked.samples) + static_cast<size_t>(row.sample);
        const double number = asked.numbers[at * static_cast<size_t>(asked.width) + row.tokens.size() - 1];
        const size_t chosen = drawing.draw(log_p, V, asked, number);
        return {log_p[chosen], choice.ids ? choice.ids[chosen] : static_cast<int32_t>(chosen)};
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
            longest = std::max(longest, m.translates() ? std::max(given, limit) : std::min(given + limit, context()));
        }
        return longest;
    }

    const Model &m;
    const Arithmetic &by;
    const Asked &asked;
    const std::vector<int> some;
    const std::vector<size_t> &starts;
    const int widest;
    Texts texts;
    std::unique_ptr<Shortlist> list;
    std::vector<int32_t> never;  // columns
    Choice choice;
    std::vector<Best> found;
    std::vector<Source> sources;
    std::vector<Row> rows;
    Drawing drawing;
};

}  // namespace

std::unique_ptr<Searching> search(const Model &m, const Arithmetic &by, const Asked &asked, const std::vector<int> &some,
                                  const std::vector<size_t> &starts) {
    return std::make_unique<Search>(m, by, asked, some, starts);
}

}  // namespace qkv
