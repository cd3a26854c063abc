/* Sums of outer products, which are the gradient of a matrix: y[outputs, inputs] += d[rows, outputs]^T x[rows, inputs].

   CHUNK rows at a time, x is put into panels as wide as sums fit into registers, and stays in the cache while tile after
   tile of y takes its numbers of d. */

#include "tiles.h"

enum { CHUNK = 128 };

/* A row of x in panels, each of which has room for CHUNK rows; the last one is filled up with zeros. */
static void pack(float *panels, const float *row, long inputs) {
    for (long column = 0; column < inputs; column += PANEL) {
        float *to = panels + column * CHUNK;
        long real = smaller(inputs - column, PANEL);
        memcpy(to, row + column, real * sizeof *to);
        memset(to + real, 0, (PANEL - real) * sizeof *to);
    }
}

/* y[first:TILE, :wide] += d[rows, first:TILE]^T panel[rows, :wide] */
static void tile(float *y, const float *d, const float *panel, long rows, long outputs, long inputs, long first,
                 long wide) {
    Floats sums[TILE][VECTORS];
    for (int i = 0; i < TILE; i++)
        for (int v = 0; v < VECTORS; v++) sums[i][v] = (Floats){0};
    for (long row = 0; row < rows; row++) {
        Floats some[VECTORS];
        for (int v = 0; v < VECTORS; v++) some[v] = *(const Floats *)(panel + (row * VECTORS + v) * WIDE);
        for (int i = 0; i < TILE; i++)
            for (int v = 0; v < VECTORS; v++) sums[i][v] += d[row * outputs + i] * some[v];
    }
    float found[TILE * PANEL]; /* sums are in registers as long as nobody asks for one by a number not known before */
    for (int i = 0; i < TILE; i++)
        for (int v = 0; v < VECTORS; v++) *(Floats *)(found + (i * VECTORS + v) * WIDE) = sums[i][v];
    for (long i = first; i < TILE; i++)
        for (long j = 0; j < wide; j++) y[i * inputs + j] += found[i * PANEL + j];
}

/* Numbers of `workspace` that accumulate_weight_grad needs. */
long weight_grad_workspace(long inputs) { return CHUNK * rounded_up(inputs, PANEL); }

/* There are at least TILE outputs: the last tile begins before the end of the one before it, and adds the rest. */
void accumulate_weight_grad(const accumulate_weight_grad_arguments *a) {
    float *y = a->total, *workspace = a->workspace;
    const float *d = a->grad_outputs, *x = a->states;
    long rows = a->rows, outputs = a->outputs, inputs = a->inputs;
#pragma omp parallel num_threads(a->threads)
    for (long from = 0; from < rows; from += CHUNK) {
        long count = smaller(rows - from, CHUNK);
#pragma omp for
        for (long row = 0; row < count; row++) pack(workspace + row * PANEL, x + (from + row) * inputs, inputs);
#pragma omp for collapse(2)
        for (long next = 0; next < outputs; next += TILE)
            for (long column = 0; column < inputs; column += PANEL) {
                long output = smaller(next, outputs - TILE);
                tile(y + output * inputs + column, d + from * outputs + output, workspace + column * CHUNK, count, outputs,
                     inputs, next - output, smaller(inputs - column, PANEL));
            }
    }
}
