#include "activations.h"

/* A GRU between its matrix products, for some rows, all directions at once:

       r = sigmoid(g_r + p_r),   z = sigmoid(g_z + p_z),   n = tanh(g_n + r p_n),   h' = n + z (h - n)

   with g = W x and p = U h, including their biases, as [r z n]. Two directions are `direction_rows` rows apart in the tensors
   of all tokens, `state_direction_rows` in h. NaN in any of them gives NaN. */

/* tanh, within 3e-7 of its own size; the coefficients are those of Eigen's odd rational function. */
static inline float tangent(float x) {
    x = x < -8 ? -8 : x > 8 ? 8 : x;
    float s = x * x;
    float over = -8.60467152213735e-11f + s * (2.00018790482477e-13f - s * 2.76076847742355e-16f);
    over = 5.12229709037114e-8f + s * over;
    over = x * (4.89352455891786e-3f + s * (6.37261928875436e-4f + s * (1.48572235717979e-5f + s * over)));
    float under = 2.26843463243900e-3f + s * (1.18534705686654e-4f + s * 1.19825839466702e-6f);
    return over / (4.89352518554385e-3f + s * under);
}

/* Writes h' to `next`, and r, z and n to `activations` for the backward pass. */
void gru_step(const gru_step_arguments *a) {
    long items = a->directions * a->rows, rows = a->rows, size = a->size;
#pragma omp parallel for num_threads(items > 4 ? a->threads : 1)
    for (long item = 0; item < items; item++) {
        long row = item / rows * a->direction_rows + item % rows;
        const float *g = a->gates + row * 3 * size, *p = a->product + row * 3 * size;
        const float *h = a->state + (item / rows * a->state_direction_rows + item % rows) * size;
        float *r = a->activations + row * 3 * size, *z = r + size, *n = z + size, *y = a->next + row * size;
#pragma omp simd /* none of these rows overlaps another */
        for (long i = 0; i < size; i++) {
            float to_reset = g[i] + p[i], to_update = g[size + i] + p[size + i];
            float reset = sigmoid(to_reset), update = sigmoid(to_update);
            float to_new = g[2 * size + i] + reset * p[2 * size + i], new = tangent(to_new);
            r[i] = reset, z[i] = update, n[i] = new;
            y[i] = new + update * (h[i] - new);
        }
    }
}

/* The backward pass: from dh' = `gradient` + `carried` to dg, dp, and the part of dh that does not come through p, which
   replaces `carried`. */
void gru_step_backward(const gru_step_backward_arguments *a) {
    long items = a->directions * a->rows, rows = a->rows, size = a->size;
#pragma omp parallel for num_threads(items > 4 ? a->threads : 1)
    for (long item = 0; item < items; item++) {
        long direction = item / rows, row = direction * a->direction_rows + item % rows;
        const float *r = a->activations + row * 3 * size, *z = r + size, *n = z + size;
        const float *p = a->product + (row * 3 + 2) * size, *given = a->gradient + row * size;
        const float *h = a->state + (direction * a->state_direction_rows + item % rows) * size;
        float *g = a->grad_gates + row * 3 * size, *d = a->grad_product + row * 3 * size;
        float *c = a->carried + (direction * a->carried_direction_rows + item % rows) * size;
#pragma omp simd /* none of these rows overlaps another */
        for (long i = 0; i < size; i++) {
            float total = given[i] + c[i], new = total * (1 - z[i]) * (1 - n[i] * n[i]);
            float update = total * (h[i] - n[i]) * z[i] * (1 - z[i]), reset = new * p[i] * r[i] * (1 - r[i]);
            g[i] = d[i] = reset;
            g[size + i] = d[size + i] = update;
            g[2 * size + i] = new;
            d[2 * size + i] = new * r[i];
            c[i] = total * z[i];
        }
    }
}
