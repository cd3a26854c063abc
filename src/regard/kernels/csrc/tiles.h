/* How wide a matrix product may be while its sums stay in registers. */

#include "common.h"

#if defined __AVX512F__
enum { WIDE = 16, VECTORS = 4 };
#elif defined __AVX2__
enum { WIDE = 8, VECTORS = 2 };
#else
enum { WIDE = 4, VECTORS = 4 };
#endif
enum { PANEL = WIDE * VECTORS, TILE = 6 };
typedef float Floats __attribute__((vector_size(WIDE * sizeof(float)), aligned(sizeof(float))));
