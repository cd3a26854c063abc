/* Products of 8 bits, of matrices in an order of their own. A vector holds four inputs of each of LANES outputs, a block VECTORS of them: with four inputs of
   a row in every lane, an instruction or three add four products to each output. ROWS rows share what is loaded. */

#if defined __x86_64__
#include <immintrin.h>
#endif
#include "activations.h"

#define SMALLEST 0x04000000 /* the bits of 2^-119, by which 127 can be divided: a row of zeros has a scale, too */
#define INFINITE 0x7f800000 /* the bits of infinity; those of NaN are larger */

#if defined __AVX512VNNI__ && defined __AVX512BW__
enum { LANES = 16, VECTORS = 4, ROWS = 6 };
typedef __m512i Vector;
#define LOAD(place) _mm512_loadu_si512(place)
#define STORE(place, vector) _mm512_storeu_si512(place, vector)
#define EVERYWHERE(four) _mm512_set1_epi32(four)
#define ADD_PRODUCTS(sums, x, w) _mm512_dpbusd_epi32(sums, x, w)
#elif defined __AVX2__
enum { LANES = 8, VECTORS = 2, ROWS = 4 };
typedef __m256i Vector;
#define LOAD(place) _mm256_loadu_si256((const __m256i *)(place))
#define STORE(place, vector) _mm256_storeu_si256((__m256i *)(place), vector)
#define EVERYWHERE(four) _mm256_set1_epi32(four)
/* Two products are added in 16 bits: weights of at most 64 leave room for them. */
#define ADD_PRODUCTS(sums, x, w) \
    _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)))
#endif

#ifdef LOAD
enum { BLOCK = LANES * VECTORS, CHUNK = 8 * ROWS };

/* Bytes of a matrix in the order in which it is read. */
long packed_int8_size(long outputs, long inputs) { return rounded_up(outputs, BLOCK) * rounded_up(inputs, 4); }

/* [outputs, inputs] as [blocks, inputs / 4, BLOCK outputs, 4 inputs], filled up with zeros. */
void pack_int8(const pack_int8_arguments *a) {
    int8_t *packed = a->packed;
    long outputs = a->outputs, inputs = a->inputs;
    long fours = rounded_up(inputs, 4) / 4;
    memset(packed, 0, packed_int8_size(outputs, inputs));
    for (long output = 0; output < outputs; output++)
        for (long i = 0; i < inputs; i++)
            packed[((output / BLOCK * fours + i / 4) * BLOCK + output % BLOCK) * 4 + i % 4] =
                a->weight[output * inputs + i];
}

static inline __attribute__((always_inline)) void tile8(int32_t sums[][BLOCK], const int8_t *weight, const uint8_t *x,
                                                        const int rows, long fours) {
    Vector found[ROWS][VECTORS];
    for (int row = 0; row < rows; row++)
        for (int v = 0; v < VECTORS; v++) found[row][v] = EVERYWHERE(0);
    for (long i = 0; i < fours; i++) {
        Vector w[VECTORS];
        for (int v = 0; v < VECTORS; v++) w[v] = LOAD(weight + (i * VECTORS + v) * LANES * 4);
        for (int row = 0; row < rows; row++) {
            int32_t four;
            memcpy(&four, x + (row * fours + i) * 4, 4);
            Vector same = EVERYWHERE(four);
            for (int v = 0; v < VECTORS; v++) found[row][v] = ADD_PRODUCTS(found[row][v], same, w[v]);
        }
    }
    for (int row = 0; row < rows; row++)
        for (int v = 0; v < VECTORS; v++) STORE(sums[row] + v * LANES, found[row][v]);
}

/* So that the number of rows is known when each is compiled, and sums stay in registers. */
static void some_rows8(int32_t sums[][BLOCK], const int8_t *weight, const uint8_t *x, long rows, long fours) {
    switch (rows) {
    case 1: tile8(sums, weight, x, 1, fours); break;
    case 2: tile8(sums, weight, x, 2, fours); break;
    case 3: tile8(sums, weight, x, 3, fours); break;
    case 4: tile8(sums, weight, x, 4, fours); break;
#if defined __AVX512VNNI__ && defined __AVX512BW__
    case 5: tile8(sums, weight, x, 5, fours); break;
    case 6: tile8(sums, weight, x, 6, fours); break;
#endif
    }
}

/* A row as integers -127 ... 127, with 128 added. Returns what 127 stands for: the largest input, but for those of
   `columns`, in ascending order, whose weights are zeros. If one is infinite or NaN, the row gives NaN, and integers that
   do not matter. Sizes are compared by their bits, which are in the same order and keep NaN. */
static float quantized_row(uint8_t *q, const float *x, long inputs, const int64_t *columns, long few) {
    int32_t largest_bits = SMALLEST;
    for (long i = 0, from = 0; i <= few; i++) {
        long to = i < few ? columns[i] : inputs;
        for (long j = from; j < to; j++) {
            int32_t bits;
            memcpy(&bits, x + j, sizeof bits);
            bits &= 0x7fffffff;
            largest_bits = bits > largest_bits ? bits : largest_bits;
        }
        from = to + 1;
    }
    float largest;
    memcpy(&largest, &largest_bits, sizeof largest);
    float steps = largest_bits < INFINITE ? 127 / largest : 0;
    for (long i = 0; i < inputs; i++) {
        float value = nearbyintf(x[i] * steps);
        value = value < 127 ? value : 127; /* only of `columns`, and of NaN */
        value = value > -127 ? value : -127;
        q[i] = (uint8_t)((int32_t)value + 128);
    }
    for (long i = inputs; i % 4; i++) q[i] = 0; /* the weights there are zeros, too */
    return largest_bits < INFINITE ? largest : NAN;
}

/* What there is to know of each output of a block. */
typedef struct {
    const float *scale, *bias, *whole;
    const int32_t *sums;
} Outputs;

/* y[width] from the sums of whole numbers: in their scale, with b and with the inputs that stayed whole. With a width
   that is known when this is compiled, all of it stays in registers. */
static inline __attribute__((always_inline)) void finished(float *restrict y, const int32_t *restrict found,
                                                           const Outputs *of, const float *restrict x, float largest,
                                                           const int64_t *columns, long few, long outputs, long width) {
    const float *restrict scale = of->scale, *restrict bias = of->bias;
    const int32_t *restrict sums = of->sums;
    if (bias)
        for (long o = 0; o < width; o++) y[o] = (float)(found[o] - sums[o]) * scale[o] * largest + bias[o];
    else
        for (long o = 0; o < width; o++) y[o] = (float)(found[o] - sums[o]) * scale[o] * largest;
    for (long c = 0; c < few; c++) {
        const float *restrict whole = of->whole + c * outputs;
        float input = x[columns[c]];
        for (long o = 0; o < width; o++) y[o] += input * whole[o];
    }
}

/* y = f(W x + b) in 8 bits for each row x: see regard/layers/int8.py. `scale` is that of a product of whole numbers,
   `sums` are 128 times the sums of an output's weights; `whole` are the weights [few, outputs] of the `few` inputs
   `columns` that stay whole. `q` and `largest` are room for rows of whole numbers, and what 127 stands for in each. */
void linear_int8(const linear_int8_arguments *a) {
    float *y = a->y, *largest = a->largest;
    const float *x = a->x, *scale = a->scale, *bias = a->bias, *whole = a->outlier_weight;
    const int8_t *packed = a->packed;
    const int32_t *sums = a->sums;
    const int64_t *columns = a->columns;
    uint8_t *q = a->quantized;
    long rows = a->rows, few = a->num_columns, outputs = a->outputs, inputs = a->inputs;
    long fours = rounded_up(inputs, 4) / 4, blocks = rounded_up(outputs, BLOCK) / BLOCK;
    long chunks = rounded_up(rows, CHUNK) / CHUNK;
#pragma omp parallel num_threads(a->threads)
    {
        long first, last;
        thread_range(rows, &first, &last);
        for (long row = first; row < last; row++)
            largest[row] = quantized_row(q + row * fours * 4, x + row * inputs, inputs, columns, few);
#pragma omp barrier
        thread_range(blocks * chunks, &first, &last);
        for (long item = first; item < last; item++) {
            long start = item / chunks * BLOCK, width = outputs - start < BLOCK ? outputs - start : BLOCK;
            long until = item % chunks * CHUNK + CHUNK < rows ? item % chunks * CHUNK + CHUNK : rows;
            Outputs of = {scale + start, bias ? bias + start : 0, few ? whole + start : 0, sums + start};
            for (long row = item % chunks * CHUNK; row < until; row += ROWS) {
                long some = until - row < ROWS ? until - row : ROWS;
                int32_t found[ROWS][BLOCK];
                some_rows8(found, packed + start * fours * 4, q + row * fours * 4, some, fours);
                for (long i = 0; i < some; i++) {
                    float *result = y + (row + i) * outputs + start;
                    const float *input = x + (row + i) * inputs;
                    if (width == BLOCK)
                        finished(result, found[i], &of, input, largest[row + i], columns, few, outputs, BLOCK);
                    else
                        finished(result, found[i], &of, input, largest[row + i], columns, few, outputs, width);
                    activate(result, width, a->activation);
                }
            }
        }
    }
}
#endif
