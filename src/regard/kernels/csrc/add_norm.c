#include "common.h"

/* LayerNorm(x + z) for each row: (s - mean) / sqrt(variance + epsilon) * weight + bias, with s = x + z. */
void add_norm(const add_norm_arguments *arguments) {
    float *y = arguments->y;
    const float *x = arguments->x, *z = arguments->z, *weight = arguments->weight, *bias = arguments->bias;
    long rows = arguments->rows, size = arguments->size;
#pragma omp parallel num_threads(rows > 1 ? arguments->threads : 1)
    {
        long first, last;
        thread_range(rows, &first, &last);
        for (long row = first; row < last; row++) {
            const float *a = x + row * size, *b = z + row * size;
            float *s = y + row * size, mean = 0, variance = 0;
            for (long i = 0; i < size; i++) mean += s[i] = a[i] + b[i];
            mean /= size;
            for (long i = 0; i < size; i++) variance += (s[i] - mean) * (s[i] - mean);
            float scale = 1 / sqrtf(variance / size + arguments->epsilon);
            for (long i = 0; i < size; i++) s[i] = (s[i] - mean) * scale * weight[i] + bias[i];
        }
    }
}
