/* The functions that Python calls. regard/kernels/build.py reads their types from this file, so that they are written
   down once; regard/kernels/ops.py checks every argument before a call, and owns all memory. Tensors are contiguous unless
   strides are given; strides count elements. `threads` is the largest number of threads; a workspace has room for as
   many. */

#ifndef REGARD_KERNELS_H
#define REGARD_KERNELS_H

#include <stdint.h>

void linear_small(float *y, const float *x, long rows, const float *weight, const float *bias, int activation,
                  long outputs, long inputs, int threads);

void add_norm(float *y, const float *x, const float *z, long rows, long size, const float *weight, const float *bias,
              float epsilon, int threads);

long packed_int8_size(long outputs, long inputs);
void pack_int8(int8_t *packed, const int8_t *weight, long outputs, long inputs);
void linear_int8(float *y, const float *x, long rows, const int8_t *packed, const float *scale, const int32_t *sums,
                 const float *bias, const int64_t *columns, const float *outlier_weight, long num_columns,
                 int activation, long outputs, long inputs, uint8_t *quantized, float *largest, int threads);

void attention_decode(float *output, const float *query, const float *keys, const float *values, const uint8_t *allowed,
                      long batch, long heads, long queries, long count, long size, long value_size,
                      const long *query_strides, const long *key_strides, const long *value_strides,
                      const long *allowed_strides, int causal, float scale, float *workspace, int threads);

long attention_prefill_workspace(long count, long size, long value_size);
void attention_prefill(float *output, float *weights, const float *query, const float *keys, const float *values,
                       const uint8_t *allowed, long batch, long heads, long queries, long count, long size,
                       long value_size, const long *query_strides, const long *key_strides, const long *value_strides,
                       const long *allowed_strides, int causal, float scale, float *workspace, int threads);

long weight_grad_workspace(long inputs);
void accumulate_weight_grad(float *y, const float *d, const float *x, long rows, long outputs, long inputs,
                            float *workspace, int threads);

void gru_step(float *next, float *activations, const float *gates, const float *product, const float *state,
              long directions, long rows, long size, long direction_rows, long state_direction_rows, int threads);
void gru_step_backward(float *grad_gates, float *grad_product, float *carried, const float *gradient,
                       const float *activations, const float *product, const float *state, long directions, long rows,
                       long size, long direction_rows, long state_direction_rows, long carried_direction_rows,
                       int threads);

long fingerprint(const uint32_t *words, long count, int threads);

#endif
