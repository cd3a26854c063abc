/* Whether numbers are still what they were, asked at the speed of memory.

   The words of a part pass through LANES lanes, each of which mixes what it holds with the word that comes. No step
   lets two different words become the same, so a change of a single number is always noticed, and one of several but
   for an accident in billions. What is found does not depend on the number of threads. */

#include "common.h"

enum { LANES = 64, PART = 1 << 16 };

static inline uint32_t mixed(uint32_t lane, uint32_t word) {
    lane = (lane ^ word) * 0x85ebca6bu;
    return lane ^ lane >> 15;
}

static uint64_t of_part(const uint32_t *words, long count, uint64_t number) {
    uint32_t lanes[LANES] = {0};
    long i = 0;
    for (; i + LANES <= count; i += LANES)
        for (long lane = 0; lane < LANES; lane++) lanes[lane] = mixed(lanes[lane], words[i + lane]);
    for (; i < count; i++) lanes[i % LANES] = mixed(lanes[i % LANES], words[i]);
    uint64_t found = number + 1;
    for (long lane = 0; lane < LANES; lane++) {
        found = (found ^ lanes[lane]) * 0x9e3779b97f4a7c15u;
        found ^= found >> 32;
    }
    return found;
}

long fingerprint(const fingerprint_arguments *a) {
    const uint32_t *words = a->words;
    long count = a->count;
    long parts = rounded_up(count, PART) / PART;
    uint64_t found = 0;
#pragma omp parallel num_threads(a->threads) reduction(+ : found)
    {
        long first, last;
        thread_range(parts, &first, &last);
        for (long part = first; part < last; part++)
            found += of_part(words + part * PART, count - part * PART < PART ? count - part * PART : PART, part);
    }
    return (long)found;
}
