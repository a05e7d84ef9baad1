// x W^T + b for the rows of a group: in 8 bits, in float16 or in float32, with sums in 32 bits.
#pragma once
#include <cstring>
#include "model.h"
#include "vectors.h"

namespace qkv::PATH {

constexpr int COLUMNS = 64;  // outputs that are computed at a time: weights are laid out in groups of so many

template <int M> struct Rows { static constexpr int count = M; };

// f(Rows<m>), for an m that is known at run time only, from 1 to M.
template <int M, class F> INLINE void with_rows(int m, F f) {
    if (m == M) f(Rows<M>{});
    else if constexpr (M > 1) with_rows<M - 1>(m, f);
}

// -- 8 bits -----------------------------------------------------------------------------------------------------------
// A row of x is rounded to whole numbers from -127 to 127, by its own largest: it does not depend on its neighbours.
// All paths sum the same whole numbers, so that they find the same sums.

#if defined(__AVX512VNNI__)
constexpr int TILE = 6;         // rows at a time: with 4 vectors each, 24 of the 32 registers hold sums
constexpr int OFFSET = 128;   // added to a rounded x: the instruction multiplies unsigned by signed bytes

INLINE void dot(__m512i &sums, __m512i x, __m512i w) {  // in assembly, or else gcc 12 spills the sums
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(w));
}

// x (M, in) by 64 rows of W -> sums (M, 64). Where these are all rows, W is read once and never again: what comes 4 kB
// later is fetched ahead. Otherwise it is `next`, a quarter of what the next rows of W are.
constexpr int AHEAD = 4096;
template <int M, bool IS_ALL>
static __attribute__((noinline)) void tile(const int8_t *__restrict w, const uint8_t *__restrict x, int in,
                                           const int8_t *next, int32_t *__restrict out) {
    __m512i sums[M][4];
#pragma GCC unroll 6
    for (int m = 0; m < M; m++)
        for (int p = 0; p < 4; p++) sums[m][p] = _mm512_setzero_si512();
    for (int k = 0; k < in; k += 4, w += 256, next += 64) {
        if constexpr (IS_ALL)
            for (int line = 0; line < 256; line += 64)
                _mm_prefetch(reinterpret_cast<const char *>(w) + AHEAD + line, _MM_HINT_T0);
        else _mm_prefetch(reinterpret_cast<const char *>(next), _MM_HINT_T1);
        __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
        __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);
#pragma GCC unroll 6
        for (int m = 0; m < M; m++) {
            int32_t four;
            memcpy(&four, x + at(m, in) + k, 4);
            __m512i xs = _mm512_set1_epi32(four);
            dot(sums[m][0], xs, w0), dot(sums[m][1], xs, w1), dot(sums[m][2], xs, w2), dot(sums[m][3], xs, w3);
        }
    }
#pragma GCC unroll 6
    for (int m = 0; m < M; m++)
        for (int p = 0; p < 4; p++) _mm512_storeu_si512(out + 64 * m + 16 * p, sums[m][p]);
}

#elif defined(__AVX2__)
constexpr int TILE = 4;
constexpr int OFFSET = 0;

// vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits. |x| <= 127 and |w| <= 127, so that with |x|
// and w * sign(x) the sum, 2 * 127^2 at most, fits.
template <int M, bool IS_ALL>
static __attribute__((noinline)) void tile(const int8_t *__restrict w, const uint8_t *__restrict x, int in,
                                           const int8_t *, int32_t *__restrict out) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int part = 0; part < 4; part++) {  // 16 columns: two vectors of sums for each row
        __m256i sums[M][2];
        for (int m = 0; m < M; m++) sums[m][0] = sums[m][1] = _mm256_setzero_si256();
        const int8_t *from = w + 64 * part;
        for (int k = 0; k < in; k += 4, from += 256) {
            __m256i w0 = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
            __m256i w1 = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + 32));
#pragma GCC unroll 4
            for (int m = 0; m < M; m++) {
                int32_t four;
                memcpy(&four, x + at(m, in) + k, 4);
                __m256i xs = _mm256_set1_epi32(four), size = _mm256_abs_epi8(xs);
                __m256i a = _mm256_maddubs_epi16(size, _mm256_sign_epi8(w0, xs));
                __m256i b = _mm256_maddubs_epi16(size, _mm256_sign_epi8(w1, xs));
                sums[m][0] = _mm256_add_epi32(sums[m][0], _mm256_madd_epi16(a, ones));
                sums[m][1] = _mm256_add_epi32(sums[m][1], _mm256_madd_epi16(b, ones));
            }
        }
        for (int m = 0; m < M; m++)
            for (int p = 0; p < 2; p++)
                _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + 64 * m + 16 * part + 8 * p), sums[m][p]);
    }
}

#else
constexpr int TILE = 4;
constexpr int OFFSET = 0;

// Floats are multiplied fast where bytes are not: in them, sums of 1,024 products of 127^2 at most are exact.
template <int M, bool IS_ALL>
static __attribute__((noinline)) void tile(const int8_t *w, const uint8_t *x, int in, const int8_t *, int32_t *out) {
    typedef int8_t Four __attribute__((vector_size(4)));
    const auto floats = [](const void *p) {
        Four four;
        memcpy(&four, p, 4);
        return __builtin_convertvector(four, V);
    };
    memset(out, 0, sizeof(int32_t) * M * COLUMNS);
    for (int begin = 0; begin < in; begin += 1024)
        for (int n = 0; n < COLUMNS; n += 4) {
            V sums[M][4] = {};
            for (int k = begin; k < in && k < begin + 1024; k += 4)
                for (int i = 0; i < 4; i++) {
                    const V ws = floats(w + at(k, COLUMNS) + 4 * (n + i));
                    for (int m = 0; m < M; m++) sums[m][i] += floats(x + at(m, in) + k) * ws;
                }
            for (int m = 0; m < M; m++)
                for (int i = 0; i < 4; i++) out[m * COLUMNS + n + i] += static_cast<int32_t>(sum(sums[m][i]));
        }
}
#endif

// x (in) / smooth -> bytes (in), and what to multiply them with.
INLINE float quantise(const float *x, const Linear &l, uint8_t *bytes) {
    V most{}, odd{};
    for (int k = 0; k < l.in; k += LANES) {
        V here = size_of(load(x + k) * load(l.inverse + k));
        if (k & LANES) odd = larger(odd, here);
        else most = larger(most, here);
    }
    float size = largest(larger(most, odd)), scale = size > 0 ? size / 127 : 1;
    V by = all(1 / scale);
    for (int k = 0; k < l.in; k += LANES) {
        V rounded = load(x + k) * load(l.inverse + k) * by + ROUNDER;
        store_low_bytes(bytes + k, reinterpret_cast<I>(rounded) ^ OFFSET);
    }
    return scale;
}

// done(row, column, a vector of outputs), for all rows (N) and columns (out); and each time all rows of 64 columns are
// done, all_done(the first of them).
template <class F, class G>
static void product_in_bytes(const Linear &l, const float *x, int N, const Scratch &s, F done, G all_done) {
    for (int n = 0; n < N; n++)
        s.scale[n] = quantise(x + at(n, l.in), l, s.bytes + at(n, l.in));
    for (int first = 0; first < l.out; first += COLUMNS) {
        const int8_t *w = l.values + at(first, l.in);
        const int8_t *next = first + COLUMNS < l.out ? w + at(COLUMNS, l.in) : w;
        const int vectors = (l.out - first < COLUMNS ? l.out - first : COLUMNS) / LANES;
        const int tiles = (N + TILE - 1) / TILE;
        for (int t = 0, row = 0; t < tiles; t++) {
            const int rows = (N - row + tiles - t - 1) / (tiles - t);  // of like size
            alignas(64) int32_t sums[TILE * COLUMNS];
            const int8_t *ahead = next + static_cast<size_t>(t % 4) * l.in * 16;  // a quarter of the next weights
            with_rows<TILE>(rows, [&](auto m) {
                constexpr int M = decltype(m)::count;
                if (tiles == 1) tile<M, true>(w, s.bytes + at(row, l.in), l.in, ahead, sums);
                else tile<M, false>(w, s.bytes + at(row, l.in), l.in, ahead, sums);
            });
            for (int p = 0; p < vectors; p++) {
                const int column = first + p * LANES;
                I zero{};
                if (OFFSET) memcpy(&zero, l.sums + column, sizeof zero);
                V scale = load(l.scale + column), bias = load(l.bias + column);
                for (int m = 0; m < rows; m++) {
                    I sum;
                    memcpy(&sum, sums + m * COLUMNS + p * LANES, sizeof sum);
                    done(row + m, column, __builtin_convertvector(sum - zero, V) * (scale * s.scale[row + m]) + bias);
                }
            }
            row += rows;
        }
        all_done(first);
    }
}

// -- float32 and float16 ----------------------------------------------------------------------------------------------
// Weights of 16 bits become floats as they are read; all else is the same.

template <int M, class W> static void tile(const W *w, const float *x, int in, float *out) {
    constexpr int WIDTH = LANES < 16 ? 2 : 4;  // vectors of columns at a time
    for (int n = 0; n < COLUMNS; n += WIDTH * LANES) {
        V sums[M][WIDTH] = {};
        for (int k = 0; k < in; k++) {
            V ws[WIDTH];
            for (int p = 0; p < WIDTH; p++) ws[p] = load(w + at(k, COLUMNS) + n + p * LANES);
            for (int m = 0; m < M; m++)
                for (int p = 0; p < WIDTH; p++) sums[m][p] += x[at(m, in) + k] * ws[p];
        }
        for (int m = 0; m < M; m++)
            for (int p = 0; p < WIDTH; p++) store(out + m * COLUMNS + n + p * LANES, sums[m][p]);
    }
}

template <class W, class F, class G>
static void product_in_floats(const Linear &l, const W *weights, const float *x, int N, F done, G all_done) {
    for (int first = 0; first < l.out; first += COLUMNS) {
        for (int row = 0; row < N; row += TILE) {
            const int rows = N - row < TILE ? N - row : TILE;
            alignas(64) float sums[TILE * COLUMNS];
            with_rows<TILE>(rows, [&](auto m) {
                tile<decltype(m)::count>(weights + at(first, l.in), x + at(row, l.in), l.in, sums);
            });
            for (int m = 0; m < rows; m++)
                for (int column = first; column < l.out && column < first + COLUMNS; column += LANES)
                    done(row + m, column, load(sums + m * COLUMNS + column - first) + load(l.bias + column));
        }
        all_done(first);
    }
}

template <class F, class G>
static void product(const Linear &l, const float *x, int N, const Scratch &s, F done, G all_done) {
    if (l.values) product_in_bytes(l, x, N, s, done, all_done);
    else if (l.halves) product_in_floats(l, l.halves, x, N, done, all_done);
    else product_in_floats(l, l.weights, x, N, done, all_done);
}

template <class F> static void product(const Linear &l, const float *x, int N, const Scratch &s, F done) {
    product(l, x, N, s, done, [](int) {});
}

// ... -> y (N, out)
static void product(const Linear &l, const float *x, int N, const Scratch &s, float *y) {
    product(l, x, N, s, [&](int row, int column, V v) { store(y + at(row, l.out) + column, v); });
}

// y (N, out) += ...: the residual
static void add_product(const Linear &l, const float *x, int N, const Scratch &s, float *y) {
    product(l, x, N, s, [&](int row, int column, V v) {
        float *to = y + at(row, l.out) + column;
        store(to, load(to) + v);
    });
}

}  // namespace qkv::PATH
