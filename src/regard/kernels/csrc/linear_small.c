/* Products with a few rows, of matrices as they lie.

   Libraries of matrix products are made for many rows, and for matrices in an order of their own. With a few, every
   weight is read from memory and used that often, so a product takes little longer than reading takes, if nothing stands
   in its way: a tile of some outputs and rows goes through their inputs vector by vector, and while the last rows are
   multiplied, the weights of the next outputs are fetched. */

#include "activations.h"

#if defined __AVX512F__
enum { WIDE = 16, OUTPUTS = 4, ROWS = 6 };
#elif defined __AVX2__
enum { WIDE = 8, OUTPUTS = 3, ROWS = 4 };
#else
enum { WIDE = 4, OUTPUTS = 4, ROWS = 4 };
#endif
enum { FEWEST = 3 }; /* rows of tiles: with less, one output after the other is as quick */
typedef float Floats __attribute__((vector_size(WIDE * sizeof(float)), aligned(sizeof(float))));

static inline float sum(Floats vector) {
    float found = 0;
    for (int i = 0; i < WIDE; i++) found += vector[i];
    return found;
}

/* y = W x for OUTPUTS rows of W and `rows` x; those of `next`, if it is not NULL, are fetched on the way. */
static inline __attribute__((always_inline)) void tile(float *y, long outputs, const float *x, const float *weight,
                                                       const float *next, long inputs, const int rows) {
    Floats sums[ROWS][OUTPUTS];
    for (int row = 0; row < rows; row++)
        for (int o = 0; o < OUTPUTS; o++) sums[row][o] = (Floats){0};
    long i = 0;
    for (; i + WIDE <= inputs; i += WIDE) {
        Floats some[OUTPUTS];
        for (int o = 0; o < OUTPUTS; o++) some[o] = *(const Floats *)(weight + o * inputs + i);
        if (next)
            for (int o = 0; o < OUTPUTS; o++) __builtin_prefetch(next + o * inputs + i, 0, 2);
        for (int row = 0; row < rows; row++) {
            Floats input = *(const Floats *)(x + row * inputs + i);
            for (int o = 0; o < OUTPUTS; o++) sums[row][o] += input * some[o];
        }
    }
    for (int row = 0; row < rows; row++)
        for (int o = 0; o < OUTPUTS; o++)
            y[row * outputs + o] = sum(sums[row][o]) + dot(weight + o * inputs + i, x + row * inputs + i, inputs - i);
}

/* The same for any number of rows, in tiles of about as many each. */
static void some_outputs(float *y, long outputs, const float *x, long rows, const float *weight, const float *next,
                         long inputs) {
    long tiles = (rows + ROWS - 1) / ROWS;
    for (long number = 0; number < tiles; number++) {
        long row = rows * number / tiles, until = rows * (number + 1) / tiles;
        float *to = y + row * outputs;
        const float *from = x + row * inputs, *ahead = number + 1 == tiles ? next : 0;
        switch (until - row) { /* so that the number is known when each is compiled, and sums stay in registers */
        case 1: tile(to, outputs, from, weight, ahead, inputs, 1); break;
        case 2: tile(to, outputs, from, weight, ahead, inputs, 2); break;
        case 3: tile(to, outputs, from, weight, ahead, inputs, 3); break;
#if defined __AVX512F__
        case 4: tile(to, outputs, from, weight, ahead, inputs, 4); break;
        case 5: tile(to, outputs, from, weight, ahead, inputs, 5); break;
#endif
        default: tile(to, outputs, from, weight, ahead, inputs, ROWS);
        }
    }
}

/* y = f(W x + b) for each row x. `bias` may be NULL. */
void linear_small(const linear_small_arguments *a) {
    float *y = a->y;
    const float *x = a->x, *weight = a->weight, *bias = a->bias;
    long rows = a->rows, outputs = a->outputs, inputs = a->inputs;
#pragma omp parallel num_threads(a->threads)
    {
        long first, last;
        thread_range(outputs, &first, &last);
        long output = first;
        for (; rows >= FEWEST && output + OUTPUTS <= last; output += OUTPUTS) {
            const float *here = weight + output * inputs, *next = here + OUTPUTS * inputs;
            some_outputs(y + output, outputs, x, rows, here, output + 2 * OUTPUTS <= last ? next : 0, inputs);
        }
        for (; output < last; output++)
            for (long row = 0; row < rows; row++)
                y[row * outputs + output] = dot(weight + output * inputs, x + row * inputs, inputs);
        for (long row = 0; row < rows; row++) {
            float *found = y + row * outputs;
            if (bias)
                for (output = first; output < last; output++) found[output] += bias[output];
            activate(found + first, last - first, a->activation);
        }
    }
}
