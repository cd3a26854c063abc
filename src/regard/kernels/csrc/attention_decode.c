/* Attention of a few queries, as every step of decoding has them. */

#include "common.h"

/* One query of some heads: its products with the keys it sees, [heads, count]. Four keys share what is loaded. */
static void score(float *scores, const float *query, long query_stride, const float *keys, const long *strides,
                  const int32_t *visible, long count, long heads, long size) {
    long j = 0;
    for (; j + 4 <= count; j += 4)
        for (long h = 0; h < heads; h++) {
            const float *q = query + h * query_stride, *k = keys + h * strides[1];
            const float *a = k + visible[j] * strides[2], *b = k + visible[j + 1] * strides[2];
            const float *c = k + visible[j + 2] * strides[2], *d = k + visible[j + 3] * strides[2];
            float sums[4] = {0, 0, 0, 0};
            for (long i = 0; i < size; i++) {
                sums[0] += q[i] * a[i];
                sums[1] += q[i] * b[i];
                sums[2] += q[i] * c[i];
                sums[3] += q[i] * d[i];
            }
            memcpy(scores + h * count + j, sums, sizeof sums);
        }
    for (; j < count; j++)
        for (long h = 0; h < heads; h++)
            scores[h * count + j] = dot(query + h * query_stride, keys + h * strides[1] + visible[j] * strides[2], size);
}

/* The weighted sums of the values it sees, [heads, size]. */
static void read_values(float *output, const float *weights, const float *values, const long *strides,
                        const int32_t *visible, long count, long heads, long size) {
    memset(output, 0, heads * size * sizeof *output);
    long j = 0;
    for (; j + 4 <= count; j += 4)
        for (long h = 0; h < heads; h++) {
            const float *w = weights + h * count + j, *v = values + h * strides[1];
            const float *a = v + visible[j] * strides[2], *b = v + visible[j + 1] * strides[2];
            const float *c = v + visible[j + 2] * strides[2], *d = v + visible[j + 3] * strides[2];
            float *read = output + h * size;
            for (long i = 0; i < size; i++) read[i] += w[0] * a[i] + w[1] * b[i] + w[2] * c[i] + w[3] * d[i];
        }
    for (; j < count; j++)
        for (long h = 0; h < heads; h++) {
            const float *value = values + h * strides[1] + visible[j] * strides[2];
            for (long i = 0; i < size; i++) output[h * size + i] += weights[h * count + j] * value[i];
        }
}

/* softmax(q k^T scale) v for every batch, head and query, read where keys and values lie: those of all heads together,
   where they lie side by side and may see the same. `allowed` may be NULL; if `causal`, queries are the last of the
   keys and see no later one; one that may attend to nothing reads zeros. The output is [batch, queries, heads,
   value_size]; each thread has room in `workspace` for the weights of a query and a row more. */
void attention_decode(const attention_decode_arguments *a) {
    const long *query_strides = a->query_strides, *key_strides = a->key_strides, *value_strides = a->value_strides;
    const long *allowed_strides = a->allowed_strides;
    const uint8_t *allowed = a->allowed;
    long heads = a->heads, queries = a->queries, count = a->count, value_size = a->value_size;
    int together = key_strides[1] < key_strides[2] && !(allowed && allowed_strides[1]);
#pragma omp parallel num_threads(a->threads)
    {
        long first, last;
        thread_range(a->batch * heads, &first, &last);
        float *weights = a->workspace + omp_get_thread_num() * (heads + 1) * count;
        int32_t *visible = (int32_t *)(weights + heads * count);
        for (long item = first, some; item < last; item += some) {
            long b = item / heads, h = item % heads;
            some = together ? (heads - h < last - item ? heads - h : last - item) : 1;
            for (long i = 0; i < queries; i++) {
                long many = a->causal ? count - queries + i + 1 : count;
                const uint8_t *may = allowed;
                if (may) may += b * allowed_strides[0] + h * allowed_strides[1] + i * allowed_strides[2];
                many = visible_keys(visible, many, may, may ? allowed_strides[3] : 0);
                score(weights, a->query + b * query_strides[0] + h * query_strides[1] + i * query_strides[2],
                      query_strides[1], a->keys + b * key_strides[0] + h * key_strides[1], key_strides, visible, many, some,
                      a->size);
                for (long head = 0; head < some; head++) softmax(weights + head * many, many, a->scale);
                read_values(a->output + ((b * queries + i) * heads + h) * value_size, weights,
                            a->values + b * value_strides[0] + h * value_strides[1], value_strides, visible, many, some,
                            value_size);
            }
        }
    }
}
