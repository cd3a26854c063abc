/* Attention of many queries: two products with a softmax between them, while the scores of some queries lie in a cache.

   Keys and values of a head are put side by side in panels, as wide as sums fit into registers; those that nobody may
   see are left out. Then a tile of TILE queries by a panel is one loop that reads a row of the panel and a number of
   each query. Weights that somebody wants to keep are copied on the way, so that looking costs little more than the
   memory it fills, and what is read does not depend on it. */

#include "tiles.h"

enum { MOST_ROWS = 8 * TILE, CACHED = 1 << 16 };
typedef float Four __attribute__((vector_size(16), aligned(sizeof(float))));
#if defined __clang__ || __GNUC__ >= 12
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t Four32 __attribute__((vector_size(16)));
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (Four32){i, j, k, l})
#endif

/* y[TILE, vectors * WIDE] = a[TILE, inner] b[inner, vectors * WIDE] */
static inline __attribute__((always_inline)) void tile(float *y, long y_stride, const float *a, long a_stride,
                                                       const float *b, long inner, const int vectors) {
    Floats sums[TILE][VECTORS];
    for (int row = 0; row < TILE; row++)
        for (int v = 0; v < vectors; v++) sums[row][v] = (Floats){0};
    for (long i = 0; i < inner; i++) {
        Floats some[VECTORS];
        for (int v = 0; v < vectors; v++) some[v] = *(const Floats *)(b + (i * vectors + v) * WIDE);
        for (int row = 0; row < TILE; row++)
            for (int v = 0; v < vectors; v++) sums[row][v] += a[row * a_stride + i] * some[v];
    }
    for (int row = 0; row < TILE; row++)
        for (int v = 0; v < vectors; v++) *(Floats *)(y + row * y_stride + v * WIDE) = sums[row][v];
}

/* A matrix [rows, columns] as panels, one after the other. */
typedef struct {
    float *numbers;
    long rows, columns;
} Panels;

static long panel_width(const Panels *panels, long column) {
    long left = panels->columns - column;
    return left < PANEL ? rounded_up(left, WIDE) : PANEL;
}

/* y[rows, columns] = a[rows, inner] b[:inner, :columns], and perhaps some more columns, up to the end of a panel. The
   last tile may do some rows once more: so there need not be tiles of fewer. */
static void product(float *y, long y_stride, const float *a, long a_stride, const Panels *b, long rows, long inner,
                    long columns) {
    for (long column = 0; column < columns; column += PANEL) {
        const float *panel = b->numbers + column * b->rows;
        long vectors = panel_width(b, column) / WIDE;
        for (long next = 0; next < rows; next += TILE) {
            long row = next + TILE <= rows ? next : rows - TILE;
            float *to = y + row * y_stride + column;
            const float *from = a + row * a_stride;
            switch (vectors) { /* so that the number is known when each is compiled, and sums stay in registers */
            case 1: tile(to, y_stride, from, a_stride, panel, inner, 1); break;
#if defined __AVX512F__ || !defined __AVX2__
            case 2: tile(to, y_stride, from, a_stride, panel, inner, 2); break;
            case 3: tile(to, y_stride, from, a_stride, panel, inner, 3); break;
#endif
            default: tile(to, y_stride, from, a_stride, panel, inner, VECTORS);
            }
        }
    }
}

/* k^T [size, many] of the keys that are visible, four by four numbers at a time; size is a multiple of four. Behind the
   last key the last one stands again: what comes of it is not read. */
static void pack_keys(const Panels *packed, const float *keys, long stride, const int32_t *visible) {
    long size = packed->rows, many = packed->columns;
    for (long column = 0; column < many; column += PANEL) {
        long width = panel_width(packed, column);
        for (long j = column; j < column + width; j += 4) {
            const float *key[4];
            for (long n = 0; n < 4; n++) key[n] = keys + visible[j + n < many ? j + n : many - 1] * stride;
            for (long i = 0; i < size; i += 4) {
                float *to = packed->numbers + column * size + i * width + j - column;
                Four a = *(Four *)(key[0] + i), b = *(Four *)(key[1] + i), c = *(Four *)(key[2] + i), d = *(Four *)(key[3] + i);
                Four ab = SHUFFLE(a, b, 0, 4, 1, 5), cd = SHUFFLE(c, d, 0, 4, 1, 5);
                Four ef = SHUFFLE(a, b, 2, 6, 3, 7), gh = SHUFFLE(c, d, 2, 6, 3, 7);
                *(Four *)to = SHUFFLE(ab, cd, 0, 1, 4, 5);
                *(Four *)(to + width) = SHUFFLE(ab, cd, 2, 3, 6, 7);
                *(Four *)(to + 2 * width) = SHUFFLE(ef, gh, 0, 1, 4, 5);
                *(Four *)(to + 3 * width) = SHUFFLE(ef, gh, 2, 3, 6, 7);
            }
        }
    }
}

/* v [many, size] of the values that are visible. */
static void pack_values(const Panels *packed, const float *values, long stride, const int32_t *visible) {
    for (long column = 0; column < packed->columns; column += PANEL) {
        long width = panel_width(packed, column);
        float *panel = packed->numbers + column * packed->rows;
        for (long j = 0; j < packed->rows; j++)
            memcpy(panel + j * width, values + visible[j] * stride + column, width * sizeof *panel);
    }
}

/* The weights of a query over all keys. */
static void keep(float *kept, const float *weights, const int32_t *visible, long many, long count) {
    if (many && visible[many - 1] == many - 1) {
        memcpy(kept, weights, many * sizeof *kept);
        memset(kept + many, 0, (count - many) * sizeof *kept);
    } else {
        memset(kept, 0, count * sizeof *kept);
        for (long j = 0; j < many; j++) kept[visible[j]] = weights[j];
    }
}

/* The values that a causal tile reads beyond the last key of a query have weight 0, but 0 * NaN is NaN, and 0 * infinity,
   too. Where a result is NaN, each query is computed again over its own keys alone. */
static void repair_causal(float *output, long output_stride, const float *weights, long weights_stride,
                          const Panels *values, long rows, long least) {
    long size = values->columns;
    int is_nan = 0;
    for (long i = 0; i < rows; i++)
        for (long c = 0; c < size; c++) is_nan |= output[i * output_stride + c] != output[i * output_stride + c];
    if (!is_nan) return;
    for (long column = 0; column < size; column += PANEL) {
        long width = panel_width(values, column);
        const float *panel = values->numbers + column * values->rows;
        for (long i = 0; i < rows; i++)
            for (long c = 0; c < width; c++) {
                float sum = 0;
                for (long j = 0; j < least + i; j++) sum += weights[i * weights_stride + j] * panel[j * width + c];
                output[i * output_stride + column + c] = sum;
            }
    }
}

/* Queries whose scores lie in a cache together. */
static long rows_at_once(long count) {
    long rows = CACHED / rounded_up(count, WIDE) / TILE * TILE;
    return rows < 2 * TILE ? 2 * TILE : rows > MOST_ROWS ? MOST_ROWS : rows;
}

/* Numbers of `workspace` that each thread of attention_prefill needs. */
long attention_prefill_workspace(long count, long size, long value_size) {
    return rounded_up(count, WIDE) * (size + rows_at_once(count)) + count * (value_size + 1);
}

/* softmax(q k^T scale) v for every batch, head and query, of which there are at least TILE; value_size is a multiple of
   WIDE. `allowed` [batch, count] may be NULL, `kept` [batch, heads, queries, count] too. If `causal`, there is no
   `allowed`, and queries, no more than keys, are the last of these and see no later one. A query that may attend to
   nothing reads zeros. The output is [batch, queries, heads, value_size]. */
void attention_prefill(const attention_prefill_arguments *a) {
    const long *query_strides = a->query_strides, *key_strides = a->key_strides, *value_strides = a->value_strides;
    long batch = a->batch, heads = a->heads, queries = a->queries, count = a->count, size = a->size;
    long value_size = a->value_size;
    int causal = a->causal;
    long wide = rounded_up(count, WIDE), chunks = (queries + rows_at_once(count) - 1) / rows_at_once(count);
#pragma omp parallel num_threads(a->threads)
    {
        float *own = a->workspace + omp_get_thread_num() * attention_prefill_workspace(count, size, value_size);
        Panels own_keys = {own, size, 0}, own_values = {own + wide * size, 0, value_size};
        float *weights = own_values.numbers + count * value_size;
        int32_t *visible = (int32_t *)(weights + wide * rows_at_once(count));
        long first, last, packed = -1;
        thread_range(batch * heads * chunks, &first, &last);
        for (long item = first; item < last; item++) {
            long b = item / chunks / heads, h = item / chunks % heads, chunk = item % chunks;
            if (item / chunks != packed) {
                const uint8_t *may = a->allowed ? a->allowed + b * a->allowed_strides[0] : 0;
                own_keys.columns = own_values.rows = visible_keys(visible, count, may, may ? a->allowed_strides[1] : 0);
                pack_keys(&own_keys, a->keys + b * key_strides[0] + h * key_strides[1], key_strides[2], visible);
                pack_values(&own_values, a->values + b * value_strides[0] + h * value_strides[1], value_strides[2], visible);
                packed = item / chunks;
            }
            long from = queries * chunk / chunks, rows = queries * (chunk + 1) / chunks - from;
            long least = causal ? count - queries + from + 1 : own_values.rows; /* that a query of these sees */
            long most = causal ? least + rows - 1 : least;
            product(weights, wide, a->query + b * query_strides[0] + h * query_strides[1] + from * query_strides[2],
                    query_strides[2], &own_keys, rows, size, most);
            for (long i = 0; i < rows; i++) {
                float *row = weights + i * wide;
                long sees = causal ? least + i : least;
                softmax(row, sees, a->scale);
                memset(row + sees, 0, (most - sees) * sizeof *row);
                if (a->weights) keep(a->weights + ((b * heads + h) * queries + from + i) * count, row, visible, most, count);
            }
            float *result = a->output + ((b * queries + from) * heads + h) * value_size;
            product(result, heads * value_size, weights, wide, &own_values, rows, most, value_size);
            if (causal) repair_causal(result, heads * value_size, weights, wide, &own_values, rows, least);
        }
    }
}
