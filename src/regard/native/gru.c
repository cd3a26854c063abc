#include "activations.h"

/* A GRU between its matrix products, for some rows, all directions at once:

       r = sigmoid(g_r + p_r),   z = sigmoid(g_z + p_z),   n = tanh(g_n + r p_n),   h' = n + z (h - n)

   with g = W x and p = U h, biases and all, as [r z n]. Directions lie so many rows apart: `apart` in what is kept of
   all tokens, `state_apart` in h. */

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

/* All ones if x is NaN: a training that has failed must not look well again, and the compiler has been told that
   there are only numbers. */
static inline int32_t no_number(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return -((bits & 0x7fffffff) > 0x7f800000);
}

static inline float unless(int32_t failed, float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits |= failed & 0x7fc00000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Keeps r, z and n, which the way back needs. */
void gru_step(float *next, float *kept, const float *gates, const float *product,
              const float *state, long directions, long rows, long size, long apart, long state_apart) {
#pragma omp parallel for if (directions * rows > 4)
    for (long item = 0; item < directions * rows; item++) {
        long row = item / rows * apart + item % rows;
        const float *g = gates + row * 3 * size, *p = product + row * 3 * size;
        const float *h = state + (item / rows * state_apart + item % rows) * size;
        float *r = kept + row * 3 * size, *z = r + size, *n = z + size, *y = next + row * size;
#pragma omp simd /* none of these rows overlaps another */
        for (long i = 0; i < size; i++) {
            float to_reset = g[i] + p[i], to_update = g[size + i] + p[size + i];
            float reset = sigmoid(to_reset), update = sigmoid(to_update);
            float to_new = g[2 * size + i] + reset * p[2 * size + i], new = tangent(to_new);
            int32_t failed = no_number(to_reset) | no_number(to_update) | no_number(to_new);
            r[i] = reset, z[i] = update, n[i] = new;
            y[i] = unless(failed, new + update * (h[i] - new));
        }
    }
}

/* The way back: from d h' = `gradient` + `carried` to d g, d p, and what of d h does not come through p, which takes the
   place of `carried`. */
void gru_step_back(float *to_gates, float *to_product, float *carried,
                   const float *gradient, const float *kept, const float *product,
                   const float *state, long directions, long rows, long size, long apart, long state_apart,
                   long carried_apart) {
#pragma omp parallel for if (directions * rows > 4)
    for (long item = 0; item < directions * rows; item++) {
        long direction = item / rows, row = direction * apart + item % rows;
        const float *r = kept + row * 3 * size, *z = r + size, *n = z + size, *p = product + (row * 3 + 2) * size;
        const float *h = state + (direction * state_apart + item % rows) * size, *given = gradient + row * size;
        float *g = to_gates + row * 3 * size, *d = to_product + row * 3 * size;
        float *c = carried + (direction * carried_apart + item % rows) * size;
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
