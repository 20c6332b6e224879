/* estimate.c: closed forms in 64-bit integers, times in ms, chances in 1/2^32. */
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

uint32_t estimate_interval_cost_ppm(const struct estimate_interval_input *input,
                                    uint64_t interval_ms)
{
    const uint64_t all = 1000000;
    uint64_t stall = least(input->stall_ms, STALL_MOST_MS);
    uint64_t gap = least(input->gap_ms > 0 ? input->gap_ms : 1, GAP_MOST_MS);
    uint64_t interval = least(interval_ms > 0 ? interval_ms : 1, GAP_MOST_MS);
    uint64_t cost = stall * all / interval + interval * (all / 2) / gap;
    return (uint32_t)least(cost > 0 ? cost : 1, all);
}

/* ---- chances ------------------------------------------------------------------------------- */

#define Q32     (1ull << 32)
#define LN2_Q32 2977044472ull /* ln 2 */

/* a x b / 2^32 for b under 2^33, without more than 64 bits. */
static uint64_t times_q32(uint64_t a, uint64_t b)
{
    uint64_t high = (a >> 32) * b;
    uint64_t low = (a & (Q32 - 1)) * (b & (Q32 - 1));
    uint64_t rest = b >> 32 != 0 ? a & (Q32 - 1) : 0;
    return high + rest + (low >> 32);
}

/* e^-x = 2^-k e^-r with r under ln 2: ten terms of the series are enough for 32 bits. */
uint64_t estimate_exp_minus(uint64_t x_q32)
{
    uint64_t halvings = x_q32 / LN2_Q32;
    uint64_t r = x_q32 % LN2_Q32;
    uint64_t sum = Q32;
    if (halvings > 32) {
        return 0;
    }
    for (uint64_t term = 12; term >= 1; term--) { /* 1 - r/1 (1 - r/2 (1 - ...)) */
        sum = Q32 - times_q32(sum, r) / term;
    }
    return sum >> halvings;
}

uint64_t estimate_mean_ms(uint64_t count, uint64_t all_ms, uint64_t assumed_ms)
{
    uint64_t assumed = least(assumed_ms > 0 ? assumed_ms : 1, GAP_MOST_MS);
    uint64_t all = least(all_ms, GAP_MOST_MS * 1024);
    return (all + assumed) / (least(count, UINT32_MAX) + 1);
}

uint64_t estimate_gap_ms(uint64_t count, uint64_t span_ms, uint64_t assumed_ms)
{
    return estimate_mean_ms(count, least(span_ms, GAP_MOST_MS), assumed_ms);
}

/* ---- spares -------------------------------------------------------------------------------- */

enum { MEAN_MOST = 32767 }; /* so that a term of 32 bits times a mean in 1/2^16 fits */

static uint64_t term_above(uint64_t term, uint64_t mean_q16, uint64_t k)
{
    return term * mean_q16 / ((k + 1) << Q16);
}

static uint64_t term_below(uint64_t term, uint64_t mean_q16, uint64_t k)
{
    return term * (k << Q16) / mean_q16;
}

/* The terms of a Poisson distribution follow from each other, P(k + 1) = P(k) m / (k + 1). The
 * largest one is taken as 1, the others relative to it, and all are measured by their own sum: so no
 * power is needed, and none is too small for 32 bits where it counts. */
static uint32_t poisson_quantile(uint64_t mean_q16, uint64_t enough_q32)
{
    uint64_t mode = mean_q16 >> Q16;
    uint64_t below = 0;
    uint64_t all = 0;
    for (uint64_t term = Q32, k = mode; term > 0 && k > 0; k--) {
        term = term_below(term, mean_q16, k);
        below += term;
    }
    for (uint64_t term = Q32, k = mode; term > 0; k++) {
        all += term;
        term = term_above(term, mean_q16, k);
    }
    uint64_t wanted = times_q32(all + below, enough_q32);
    uint64_t k = mode;
    uint64_t term = Q32;
    while (below + term < wanted && term > 0) { /* upwards from the mode */
        below += term;
        term = term_above(term, mean_q16, k++);
    }
    while (k == mode && mode > 0 && below >= wanted) { /* the quantile is under the mode */
        term = term_below(term, mean_q16, k);
        below -= term;
        mode--;
        k--;
    }
    return (uint32_t)k;
}

uint32_t estimate_spares(const struct estimate_spares_input *input)
{
    uint64_t gap = least(input->node_gap_ms > 0 ? input->node_gap_ms : 1, GAP_MOST_MS * 1024);
    uint64_t away = least(input->away_ms, (1u << 31) - 1); /* 24 days */
    uint64_t nodes = least(input->nodes, (1u << 17) - 1);
    uint64_t most_q16 = (uint64_t)MEAN_MOST << Q16;
    uint64_t all_away = nodes * away; /* under 2^48 */
    uint64_t mean_q16 = all_away / gap > MEAN_MOST ? most_q16 : (all_away << Q16) / gap;
    return (uint32_t)least(poisson_quantile(least(mean_q16, most_q16), input->enough_q32), nodes);
}

/* ---- strikes and evictions ----------------------------------------------------------------- */

uint64_t estimate_decayed(uint64_t milli, uint64_t age_ms, uint64_t half_ms)
{
    uint64_t half = least(half_ms > 0 ? half_ms : 1, UINT32_MAX);
    uint64_t halvings = age_ms / half;
    uint64_t rest_q32 = ((age_ms % half) << 32) / half;
    if (halvings > 63) {
        return 0;
    }
    uint64_t weight = estimate_exp_minus(times_q32(rest_q32, LN2_Q32));
    return times_q32(least(milli, UINT32_MAX), weight) >> halvings;
}

int64_t estimate_eviction_gain_ms(const struct estimate_eviction_input *input)
{
    uint64_t cycle = least(input->cycle_ms, UINT32_MAX);
    uint64_t wait = least(input->wait_ms, UINT32_MAX);
    uint64_t saved = times_q32(cycle, input->wrong_q32);
    uint64_t lost = times_q32(wait, input->no_spare_q32) * least(input->extra, 1u << 16);
    return (int64_t)saved - (int64_t)lost;
}
