/* The functions that Python calls, and their arguments, one struct each: ctypes needs longer to convert twenty arguments than a
   step of decoding computes. regard/kernels/build.py reads the structs from this file, so that they are written down
   once; regard/kernels/ops.py checks every argument before a call, and owns all memory.

   Tensors are contiguous unless strides are given; strides count elements, and that of the last dimension is 1. `threads` is
   the largest number of threads; a workspace has room for as many. */

#ifndef REGARD_KERNELS_H
#define REGARD_KERNELS_H

#include <stdint.h>

typedef struct {
    float *y;
    const float *x, *weight, *bias; /* bias may be NULL */
    long rows, outputs, inputs;
    int activation, threads;
} linear_small_arguments;

typedef struct {
    float *y;
    const float *x, *z, *weight, *bias;
    long rows, size;
    float epsilon;
    int threads;
} add_norm_arguments;

typedef struct {
    int8_t *packed;
    const int8_t *weight;
    long outputs, inputs;
} pack_int8_arguments;

typedef struct {
    float *y;
    const float *x;
    const int8_t *packed;
    const float *scale;
    const int32_t *sums;
    const float *bias; /* or NULL */
    const int64_t *columns;
    const float *outlier_weight;
    uint8_t *quantized; /* a workspace [rows, inputs rounded up to 4] */
    float *largest;     /* a workspace [rows] */
    long rows, num_columns, outputs, inputs;
    int activation, threads;
} linear_int8_arguments;

typedef struct {
    float *output;
    const float *query, *keys, *values;
    const uint8_t *allowed; /* or NULL */
    float *workspace;
    long batch, heads, queries, count, size, value_size;
    long query_strides[3], key_strides[3], value_strides[3], allowed_strides[4];
    float scale;
    int causal, threads;
} attention_decode_arguments;

typedef struct {
    float *output, *weights; /* weights may be NULL */
    const float *query, *keys, *values;
    const uint8_t *allowed; /* or NULL */
    float *workspace;
    long batch, heads, queries, count, size, value_size;
    long query_strides[3], key_strides[3], value_strides[3], allowed_strides[2];
    float scale;
    int causal, threads;
} attention_prefill_arguments;

typedef struct {
    float *total;
    const float *grad_outputs, *states;
    float *workspace;
    long rows, outputs, inputs;
    int threads;
} accumulate_weight_grad_arguments;

typedef struct {
    float *next, *activations;
    const float *gates, *product, *state;
    long directions, rows, size, direction_rows, state_direction_rows;
    int threads;
} gru_step_arguments;

typedef struct {
    float *grad_gates, *grad_product, *carried;
    const float *gradient, *activations, *product, *state;
    long directions, rows, size, direction_rows, state_direction_rows, carried_direction_rows;
    int threads;
} gru_step_backward_arguments;

typedef struct {
    const uint32_t *words;
    long count;
    int threads;
} fingerprint_arguments;

void linear_small(const linear_small_arguments *a);
void add_norm(const add_norm_arguments *a);
void pack_int8(const pack_int8_arguments *a);
void linear_int8(const linear_int8_arguments *a);
void attention_decode(const attention_decode_arguments *a);
void attention_prefill(const attention_prefill_arguments *a);
void accumulate_weight_grad(const accumulate_weight_grad_arguments *a);
void gru_step(const gru_step_arguments *a);
void gru_step_backward(const gru_step_backward_arguments *a);
long fingerprint(const fingerprint_arguments *a);

/* Numbers of a workspace, or of a packed matrix. */
long packed_int8_size(long outputs, long inputs);
long attention_prefill_workspace(long count, long size, long value_size);
long weight_grad_workspace(long inputs);

#endif
