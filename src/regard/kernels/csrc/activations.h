/* What may be done to a product before it is written. */

#include "common.h"

/* Activations, numbered as in ops.py; a loop over one of them is vectorised. */
enum { NONE, RELU, GELU, GELU_TANH, SILU };

static inline float sigmoid(float x) {
    float e = exponential(-fabsf(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* Within 1.5e-7: Abramowitz and Stegun, 7.1.26. */
static inline float error_function(float x) {
    float t = 1 / (1 + 0.3275911f * fabsf(x));
    float series = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float found = 1 - series * exponential(-x * x);
    return x < 0 ? -found : found;
}

static inline void activate(float *y, long size, int activation) {
    if (activation == RELU)
        for (long i = 0; i < size; i++) y[i] = y[i] < 0 ? 0 : y[i]; /* NaN stays NaN */
    if (activation == GELU)
        for (long i = 0; i < size; i++) y[i] = y[i] * 0.5f * (1 + error_function(y[i] * 0.707106781f));
    if (activation == GELU_TANH)
        for (long i = 0; i < size; i++) y[i] *= sigmoid(1.595769122f * (y[i] + 0.044715f * y[i] * y[i] * y[i]));
    if (activation == SILU)
        for (long i = 0; i < size; i++) y[i] *= sigmoid(y[i]);
}
