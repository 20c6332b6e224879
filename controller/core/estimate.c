/* estimate.c: closed forms in 64-bit integers, times in ms, factors in 1/2^32 where they are under 1.
 */
#include "controller/core/estimate.h"

/* Products of two of these fit into 63 bits. */
#define STALL_MOST_MS (1ull << 26) /* 18 hours */
#define GAP_MOST_MS   (1ull << 36) /* 2 years */
enum { Q16 = 16 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t estimate_sqrt(uint64_t value)
{
    uint64_t root = 0;
    for (uint64_t bit = 1ull << 31; bit != 0; bit >>= 1) {
        uint64_t next = root + bit;
        root = next * next <= value ? next : root;
    }
    return root;
}

/* In 1/65536. The value is moved up as far as it goes, so that small ones have as many digits. */
static uint64_t sqrt_q16(uint64_t value)
{
    unsigned shift = 0;
    while (shift < 2 * Q16 && value < 1ull << 62) {
        value <<= 2;
        shift += 2;
    }
    return (estimate_sqrt(value) << Q16) >> shift / 2;
}

/* sqrt(2wM) [1 + x/3 + x^2/9] - w with x = sqrt(w/2M), which is w / sqrt(2wM): the brackets come to
 * root + w/3 + w^2/(9 root). Daly takes M where w is not under 2M. */
uint64_t estimate_interval_ms(const struct estimate_interval_input *input)
{
    uint64_t stall = least(input->stall_ms > 0 ? input->stall_ms : 1, STALL_MOST_MS);
    uint64_t gap = least(input->gap_ms > 0 ? input->gap_ms : 1, GAP_MOST_MS);
    uint64_t best = gap;
    if (stall < 2 * gap) {
        uint64_t root_q16 = sqrt_q16(2 * stall * gap);
        uint64_t third_q16 = (2 * stall << Q16) / 3;
        uint64_t ninth_q16 = (stall << Q16) / (9 * root_q16 >> Q16 > 0 ? 9 * root_q16 >> Q16 : 1);
        best = (root_q16 + ninth_q16 * stall - third_q16 + (1u << (Q16 - 1))) >> Q16;
    }
    best = best > 0 ? best : 1;
    return best > input->save_ms ? best : input->save_ms;
}

uint32_t estimate_interval_steps(const struct estimate_interval_input *input)
{
    uint64_t step = input->step_ms;
    if (step == 0) {
        return 0;
    }
    uint64_t least = input->save_ms / step + (input->save_ms % step != 0 ? 1 : 0);
    uint64_t steps = estimate_interval_ms(input) / step +
                     (estimate_interval_ms(input) % step * 2 >= step ? 1 : 0);
    steps = steps > least ? steps : least;
    steps = steps > 0 ? steps : 1;
    return steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX;
}
