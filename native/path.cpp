// The engine's arithmetic, compiled once for each kind of processor: PATH is its name, and the compiler's flags are its
// instructions. Everything is inside namespace qkv::PATH, and no template of the standard library is used: the linker
// keeps one copy of such a template, which might be one with instructions that this processor does not have.
#include "choice.h"
#include "decoder.h"

namespace qkv::PATH {

static int64_t multiply(int rounds) {
    constexpr int in = 256;
    alignas(64) static const int8_t weights[in * COLUMNS] = {};
    alignas(64) uint8_t x[TILE * in] = {};
    alignas(64) int32_t sums[TILE * COLUMNS];
    int64_t operations = 0;
    for (int i = 0; i < rounds; i++) {
        tile<TILE, false>(weights, x, in, weights, sums);
        x[i % in] = static_cast<uint8_t>(sums[0]);  // so that none is left out
        operations += 2 * TILE * in * COLUMNS;
    }
    return operations;
}

const Arithmetic arithmetic = {read, remember, write, choose, multiply};

}  // namespace qkv::PATH
