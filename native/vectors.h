// Vectors in the compiler's own notation, which it turns into the instructions that a file is compiled for.
// No include of the standard library's templates here: see path.cpp.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

namespace qkv::PATH {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef float V __attribute__((vector_size(4 * LANES)));
typedef int32_t I __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE size_t at(int row, int width) { return static_cast<size_t>(row) * static_cast<size_t>(width); }
INLINE V load(const float *p) { return *reinterpret_cast<const Unaligned *>(p); }
#if defined(__AVX512F__)  // from float16
INLINE V load(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))); }
#elif defined(__AVX2__)
INLINE V load(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))); }
#else
// A float's exponent counts from 127, a half's from 15: what is moved to its place is 2^112 times too small.
INLINE V load(const uint16_t *p) {
    I half;
    for (int i = 0; i < LANES; i++) half[i] = p[i];
    const V size = reinterpret_cast<V>((half & 0x7fff) << 13) * 0x1p112f;
    return reinterpret_cast<V>(reinterpret_cast<I>(size) | (half & 0x8000) << 16);
}
#endif
INLINE void store(float *p, V v) { *reinterpret_cast<Unaligned *>(p) = v; }
INLINE V all(float x) { return x - V{}; }
INLINE V size_of(V x) { return reinterpret_cast<V>(reinterpret_cast<I>(x) & 0x7fffffff); }

#if defined(__AVX512F__)  // what gcc 12 does not find by itself
INLINE V larger(V a, V b) { return _mm512_max_ps(a, b); }
INLINE V smaller(V a, V b) { return _mm512_min_ps(a, b); }
INLINE void store_low_bytes(uint8_t *p, I v) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(v)));
}
#elif defined(__AVX2__)
INLINE V larger(V a, V b) { return _mm256_max_ps(a, b); }
INLINE V smaller(V a, V b) { return _mm256_min_ps(a, b); }
INLINE void store_low_bytes(uint8_t *p, I v) {
    const __m256i first = _mm256_set1_epi32(0x0c080400);  // of each half: the lowest bytes of four numbers
    const __m256i four = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(v), first);
    const int32_t halves[2] = {_mm256_extract_epi32(four, 0), _mm256_extract_epi32(four, 4)};
    memcpy(p, halves, sizeof halves);
}
#else
INLINE V larger(V a, V b) { return a > b ? a : b; }
INLINE V smaller(V a, V b) { return a < b ? a : b; }
INLINE void store_low_bytes(uint8_t *p, I v) {
    for (int i = 0; i < LANES; i++) p[i] = static_cast<uint8_t>(v[i]);
}
#endif

// Adding 1.5 * 2^23 leaves a float no bits for fractions: the nearest whole number stands in its lowest bits.
constexpr float ROUNDER = 12582912.0f;
constexpr int32_t ROUNDER_BITS = 0x4b400000;

// Of all numbers in a vector, by halves.
#if defined(__AVX512F__)
INLINE float sum(V v) { return _mm512_reduce_add_ps(v); }
INLINE float largest(V v) { return _mm512_reduce_max_ps(v); }
#else
INLINE float sum(V v) {
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) v[i] += v[i + half];
    return v[0];
}
INLINE float largest(V v) {
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
    return v[0];
}
#endif

// Every other number of two vectors, from the first or from the second on.
#if defined(__AVX512F__)
#define QKV_OTHERS(a, b, i) \
    __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14, i + 16, i + 18, i + 20, \
                            i + 22, i + 24, i + 26, i + 28, i + 30)
#elif defined(__AVX2__)
#define QKV_OTHERS(a, b, i) __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14)
#else
#define QKV_OTHERS(a, b, i) __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6)
#endif

// The sums of so many vectors as a vector has numbers: two by two, neighbours are added until each has one number left.
INLINE V sums(V *v) {
#pragma GCC unroll 4
    for (int count = LANES / 2; count; count /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < count; i++)
            v[i] = QKV_OTHERS(v[2 * i], v[2 * i + 1], 0) + QKV_OTHERS(v[2 * i], v[2 * i + 1], 1);
    return v[0];
}

// Bit i: whether number i is larger.
INLINE uint32_t above(V v, float than) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(v, all(than), _CMP_GT_OQ);
#elif defined(__AVX2__)
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, all(than), _CMP_GT_OQ)));
#else
    uint32_t found = 0;
    for (int i = 0; i < LANES; i++) found |= static_cast<uint32_t>(v[i] > than) << i;
    return found;
#endif
}

// e^x = 2^n e^r with n whole and |r| <= ln(2) / 2; the series of e^r ends where float32 does. Never 0, never infinite.
INLINE V exp(V x) {
    x = smaller(larger(x, all(-87.0f)), all(88.0f));
    V shifted = x * 1.44269504f + ROUNDER, n = shifted - ROUNDER;
    V r = x - n * 0.693359375f + n * 2.12194440e-4f;  // ln(2) in two parts
    V p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    I power = (reinterpret_cast<I>(shifted) - ROUNDER_BITS + 127) << 23;
    return p * reinterpret_cast<V>(power);
}

INLINE V logistic(V x) { return 1.0f / (1.0f + exp(-x)); }

// x (1 + erf(x / sqrt(2))) / 2, erf by Abramowitz & Stegun 1964, 7.1.26: |error| <= 1.5e-7.
INLINE V gelu(V x) {
    V z = size_of(x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
    V p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    V half = 0.5f * (p * t) * exp(-z * z);  // (1 - erf(z)) / 2
    return x > 0.0f ? x - x * half : x * half;
}

// x (1 + tanh(u)) / 2 = x logistic(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
INLINE V gelu_tanh(V x) { return x * logistic(1.5957691f * (x + 0.044715f * x * x * x)); }
INLINE V swish(V x) { return x * logistic(x); }
INLINE V relu(V x) { return larger(x, V{}); }

}  // namespace qkv::PATH
