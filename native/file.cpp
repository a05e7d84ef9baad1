// The file: a header of 128 bytes, then arrays in a fixed order, each at a multiple of 64 bytes, little-endian.
//
//   tokens (V, D)   positions (places, D)   segments (segments, D)   [first norm]
//   for each layer: qkv, output, norm, expand, contract, feed-forward norm
//   [last norm, if pre-norm]
// of a model that translates, then its decoder:
//   [tokens (V, D), unless the source's are the same]   positions (places, D)   [first norm]
//   for each layer: qkv, output, norm, memory query, memory output, memory norm, expand, contract, feed-forward norm
//   [last norm, if pre-norm]
//   memory: keys and values of the source, for all layers
// and of a model that writes:
//   vocabulary
//
// A norm is gain (D), bias (D). A product in float32 or float16 is weights (out / 64, in, 64), bias (out); in 8 bits
// values (out / 64, in / 4, 64, 4), scale (out), bias (out), sums (out), inverse (in). All but weights is float32, and
// tokens may be float16. The sizes say where each array stands, and the last one must end where the file does; nothing in
// a file is an offset or a pointer.
#include "file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

namespace qkv {

namespace {

constexpr char MAGIC[8] = {'Q', 'K', 'V', 'M', 'O', 'D', 'E', 'L'};
constexpr uint32_t VERSION = 2;
enum Flags : uint32_t { PRE = 1, NORM_INPUTS = 2, CAUSAL = 4, WRITES = 8, ONE_TABLE = 16, HALVES = 32, ALL_FLAGS = 63 };

struct Header {
    char magic[8];
    uint32_t version, bits;   // bits of a weight: 8, 16 or 32
    uint64_t size, checksum;  // of the file; of all that stands behind this number
    uint32_t d_model, heads, head_width, inner, layers, vocab, places, segments, activation, flags;
    float eps;
    unsigned char made_of[32];  // the SHA-256 of the weights
    uint32_t decoder_layers;    // 0: it does not translate
    uint64_t parameters;        // of the model, for whoever asks; 0: nobody counted them
    uint32_t unused[2];
};
static_assert(sizeof(Header) == 128, "no gaps");
constexpr size_t CHECKED_FROM = offsetof(Header, checksum) + sizeof(uint64_t);

// The sum of all words of 8 bytes, word i times 2 i + 1: no change of one word goes unseen, since those are odd.
uint64_t checksum(const unsigned char *data, size_t size) {
    uint64_t total = 0;
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t word;
        std::memcpy(&word, data + 8 * i, 8);
        total += word * (2 * i + 1);
    }
    return total;
}

int padded(uint32_t width) { return static_cast<int>((width + 15) / 16 * 16); }

// Hands out the arrays of a file, one behind the other.
class Cursor {
public:
    Cursor(const Map &map, size_t start) : map(map), place(start) {}
    template <class T> const T *take(size_t count) {
        const size_t bytes = count * sizeof(T);
        if (bytes > map.size - place) throw Error("it is shorter than its sizes say");
        const T *found = reinterpret_cast<const T *>(map.data + place);
        place += bytes;
        place = (place + 63) / 64 * 64;
        if (place > map.size) throw Error("it is shorter than its sizes say");
        return found;
    }
    Norm norm(int width) {
        Norm found;
        found.gain = take<float>(width), found.bias = take<float>(width);
        return found;
    }
    Linear linear(int out, int in, uint32_t bits) {
        Linear found;
        found.in = in, found.out = out;
        const size_t cells = static_cast<size_t>((out + 63) / 64 * 64) * in;
        if (bits == 8) found.values = take<int8_t>(cells), found.scale = take<float>(out);
        if (bits == 16) found.halves = take<uint16_t>(cells);
        if (bits == 32) found.weights = take<float>(cells);
        found.bias = take<float>(out);
        if (bits == 8) found.sums = take<int32_t>(out), found.inverse = take<float>(in);
        return found;
    }
    Table table(int rows, int width, bool is_halves) {
        const size_t cells = static_cast<size_t>(rows) * static_cast<size_t>(width);
        Table found;
        if (is_halves) found.halves = take<uint16_t>(cells);
        else found.floats = take<float>(cells);
        return found;
    }
    bool at_end() const { return place == map.size; }

private:
    const Map &map;
    size_t place;
};

void at_most(const char *name, uint32_t value, uint32_t least, uint32_t most) {
    if (value < least || value > most)
        throw Error(std::string(name) + " is " + std::to_string(value) + ", which is not from " +
                    std::to_string(least) + " to " + std::to_string(most));
}

// 65,535 wide at most: 255 * 127 * 65,535 still is a number of 32 bits.
void check(const Header &h, const Map &map) {
    if (std::memcmp(h.magic, MAGIC, sizeof MAGIC) != 0) throw Error("it is no file of this engine");
    const auto text = [](uint64_t number) { return std::to_string(number); };
    if (h.version != VERSION)
        throw Error("its version is " + text(h.version) + ", and this engine reads " + text(VERSION));
    if (h.size != map.size) throw Error("it has " + text(map.size) + " bytes and should have " + text(h.size));
    if (map.size % 8 != 0) throw Error("its size is no multiple of 8");
    if (h.checksum != checksum(map.data + CHECKED_FROM, map.size - CHECKED_FROM)) throw Error("its checksum is wrong");
    if (h.bits != 8 && h.bits != 16 && h.bits != 32)
        throw Error("its weights have " + std::to_string(h.bits) + " bits, not 8, 16 or 32");
    at_most("d_model", h.d_model, 1, 65520);
    at_most("heads", h.heads, 1, 1024);
    at_most("head_width", h.head_width, 1, 65520);
    at_most("the width of all heads", h.heads * static_cast<uint32_t>(padded(h.head_width)), 16, 65520);
    at_most("inner", h.inner, 1, 65520);
    at_most("layers", h.layers, 1, 4096);
    at_most("vocab", h.vocab, 1, 1u << 28);
    at_most("places", h.places, 1, 1u << 24);
    at_most("segments", h.segments, 0, 1u << 16);
    at_most("activation", h.activation, 0, 3);
    at_most("flags", h.flags, 0, ALL_FLAGS);
    at_most("decoder_layers", h.decoder_layers, 0, 4096);
    if (h.decoder_layers && !(h.flags & WRITES)) throw Error("it has a decoder and no vocabulary");
    at_most("the width of the memory", h.decoder_layers * 2 * h.heads * static_cast<uint32_t>(padded(h.head_width)), 0,
            1u << 28);
    if (!(h.eps > 0 && h.eps < 1)) throw Error("eps is not between 0 and 1");
}

// The norms and blocks of a stack.
void take_stack(Cursor &cursor, const Model &m, Stack &stack, std::vector<Layer> &layers, uint32_t count, uint32_t bits,
                bool has_memory) {
    const int D = m.D, A = m.attention_width(), F = m.F;
    if (m.norm_inputs) stack.first = cursor.norm(D);
    for (uint32_t i = 0; i < count; i++) {
        Layer l;
        l.qkv = cursor.linear(3 * A, D, bits), l.output = cursor.linear(D, A, bits), l.norm = cursor.norm(D);
        if (has_memory) {
            l.memory_query = cursor.linear(A, D, bits), l.memory_output = cursor.linear(D, A, bits);
            l.memory_norm = cursor.norm(D);
        }
        l.expand = cursor.linear(F, D, bits), l.contract = cursor.linear(D, F, bits);
        l.feed_forward_norm = cursor.norm(D);
        layers.push_back(l);
    }
    if (m.is_pre) stack.last = cursor.norm(D);
    stack.count = static_cast<int>(count), stack.layers = layers.data();
}

}  // namespace

Map::Map(const std::string &path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw Error(std::string("it cannot be opened: ") + std::strerror(errno));
    struct stat about;
    void *found = MAP_FAILED;
    if (::fstat(file, &about) == 0 && S_ISREG(about.st_mode) && static_cast<size_t>(about.st_size) >= sizeof(Header)) {
        size = static_cast<size_t>(about.st_size);
        found = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    ::close(file);
    if (!size) throw Error("it is no file of this engine");
    if (found == MAP_FAILED) throw Error(std::string("it cannot be mapped: ") + std::strerror(errno));
    data = static_cast<const unsigned char *>(found);
}

Map::~Map() { ::munmap(const_cast<unsigned char *>(data), size); }

std::unique_ptr<Opened> open_file(const std::string &path) {
    auto opened = std::make_unique<Opened>();
    opened->map = std::make_unique<Map>(path);
    Header h;
    std::memcpy(&h, opened->map->data, sizeof h);
    check(h, *opened->map);

    Model &m = opened->model;
    m.d_model = static_cast<int>(h.d_model), m.D = padded(h.d_model);
    m.H = static_cast<int>(h.heads), m.K = padded(h.head_width), m.F = padded(h.inner);
    m.vocab = static_cast<int>(h.vocab), m.places = static_cast<int>(h.places);
    m.segments = static_cast<int>(h.segments);
    m.activation = static_cast<Activation>(h.activation);
    m.is_pre = h.flags & PRE, m.norm_inputs = h.flags & NORM_INPUTS, m.is_causal = h.flags & CAUSAL;
    m.eps = h.eps;
    opened->bits = static_cast<int32_t>(h.bits);

    Cursor cursor(*opened->map, sizeof(Header));
    m.reader.tokens = cursor.table(m.vocab, m.D, h.flags & HALVES);
    m.reader.positions = cursor.take<float>(static_cast<size_t>(m.places) * m.D);
    m.segment_table = cursor.take<float>(static_cast<size_t>(m.segments) * m.D);
    take_stack(cursor, m, m.reader, opened->reader, h.layers, h.bits, false);
    if (h.decoder_layers) {
        const bool is_one = h.flags & ONE_TABLE;
        m.decoder.tokens = is_one ? m.reader.tokens : cursor.table(m.vocab, m.D, h.flags & HALVES);
        m.decoder.positions = cursor.take<float>(static_cast<size_t>(m.places) * m.D);
        take_stack(cursor, m, m.decoder, opened->decoder, h.decoder_layers, h.bits, true);
        m.memory = cursor.linear(m.decoder.count * 2 * m.attention_width(), m.D, h.bits);
    }
    if (h.flags & WRITES) m.vocabulary = cursor.linear(padded(h.vocab), m.D, h.bits);
    if (!cursor.at_end()) throw Error("it is longer than its sizes say");
    return opened;
}

}  // namespace qkv
