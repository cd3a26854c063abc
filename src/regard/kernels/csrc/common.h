/* What all kernels share. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define LN2 0.693147180559945f
#define LOWEST 0xc2ae0000u /* the bits of -87: exp of less is no normal number, and is taken as 0 */

/* The part of `count` items that this thread computes. */
static inline void thread_range(long count, long *first, long *last) {
    long thread = omp_get_thread_num(), threads = omp_get_num_threads();
    *first = count * thread / threads;
    *last = count * (thread + 1) / threads;
}

static inline long smaller(long a, long b) { return a < b ? a : b; }

static inline long rounded_up(long count, long step) { return (count + step - 1) / step * step; }

static inline float dot(const float *a, const float *b, long size) {
    float sum = 0;
    for (long i = 0; i < size; i++) sum += a[i] * b[i];
    return sum;
}

/* e^x for x <= 0 within 2e-7 of it: 2^n e^r with |r| <= ln(2) / 2, e^r by its series; 0 below LOWEST, NaN for NaN. A loop
   over it is vectorised, because limits are compared as integers: of a comparison of floats, which may be NaN, the
   compiler makes a branch. Negative floats are in the order of their bits. */
static inline float exponential(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t is_low = -(uint32_t)(bits > LOWEST), is_nan = -(uint32_t)((bits & 0x7fffffff) > 0x7f800000);
    bits = (bits > LOWEST ? LOWEST : bits) & ~is_nan; /* so that the conversion to an integer is always defined */
    memcpy(&x, &bits, sizeof x);
    int32_t n = (int32_t)(x / LN2 - 0.5f);
    float r = x - (float)n * LN2;
    float series = 1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f))))));
    bits = ((uint32_t)(n + 127) << 23 & ~is_low) | (is_nan & 0x7fc00000);
    float power;
    memcpy(&power, &bits, sizeof power);
    return series * power;
}

/* The indices of the keys that a query may attend to, in ascending order; returns how many there are. */
static inline long visible_keys(int32_t *visible, long count, const uint8_t *may, long stride) {
    long found = 0;
    for (long j = 0; j < count; j++) {
        visible[found] = j;
        found += !may || may[j * stride];
    }
    return found;
}

/* The largest number, -infinity of none; NaN is passed over. Lanes of their own, because the compiler may not reorder
   comparisons with numbers that may be NaN. */
static inline float largest_of(const float *numbers, long count) {
    enum { LANES_OF_MAX = 16 };
    float lanes[LANES_OF_MAX], largest = -INFINITY;
    for (int lane = 0; lane < LANES_OF_MAX; lane++) lanes[lane] = -INFINITY;
    long i = 0;
    for (; i + LANES_OF_MAX <= count; i += LANES_OF_MAX)
        for (int lane = 0; lane < LANES_OF_MAX; lane++)
            lanes[lane] = numbers[i + lane] > lanes[lane] ? numbers[i + lane] : lanes[lane];
    for (int lane = 0; lane < LANES_OF_MAX; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
    for (; i < count; i++) largest = numbers[i] > largest ? numbers[i] : largest;
    return largest;
}

/* softmax(scale x) in place: NaN everywhere if a score is NaN or +infinity, or if all are -infinity, as in torch. */
static inline void softmax(float *scores, long count, float scale) {
    for (long j = 0; j < count; j++) scores[j] *= scale;
    float largest = largest_of(scores, count), sum = 0;
    for (long j = 0; j < count; j++) sum += scores[j] = exponential(scores[j] - largest);
    for (long j = 0; j < count; j++) scores[j] /= sum;
}
