/* What all kernels share. Compiled by compiled.py for the processor it is found on; called by kernels.py, to which all
   memory belongs. Tensors are contiguous unless strides are given; strides count elements. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

#define LN2 0.693147180559945f
#define LOWEST -87.0f /* exp of less is no longer a normal number */

/* This thread's stretch of `count` things. */
static inline void stretch(long count, long *first, long *last) {
    long thread = omp_get_thread_num(), threads = omp_get_num_threads();
    *first = count * thread / threads;
    *last = count * (thread + 1) / threads;
}

static inline float larger(float a, float b) { return a > b ? a : b; }

static inline float dot(const float *a, const float *b, long size) {
    float sum = 0;
    for (long i = 0; i < size; i++) sum += a[i] * b[i];
    return sum;
}

/* e^x for x <= 0 within 2e-7 of it: 2^n e^r with |r| <= ln(2) / 2, e^r by its series. A loop over it is vectorised, one
   over the library's is not everywhere. */
static inline float exponential(float x) {
    x = x < LOWEST ? LOWEST : x;
    int32_t n = (int32_t)(x / LN2 - 0.5f);
    float r = x - (float)n * LN2;
    float series = 1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f))))));
    int32_t bits = (n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return series * power;
}

static inline long rounded_up(long count, long step) { return (count + step - 1) / step * step; }

/* The keys that a query may see, in their order, and how many they are. */
static inline long visible(int32_t *seen, long count, const uint8_t *may, long stride) {
    long found = 0;
    for (long j = 0; j < count; j++) {
        seen[found] = j;
        found += !may || may[j * stride];
    }
    return found;
}

static inline void softmax(float *scores, long count, float scale) {
    float largest = -3e38f, sum = 0;
    for (long j = 0; j < count; j++) largest = larger(largest, scores[j] * scale);
    for (long j = 0; j < count; j++) sum += scores[j] = exponential(scores[j] * scale - largest);
    for (long j = 0; j < count; j++) scores[j] /= sum;
}
