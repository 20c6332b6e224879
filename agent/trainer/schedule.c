/* schedule.c: three phases, each with a formula of its own. */
#include "agent/trainer/schedule.h"

#include <assert.h>

/* Forward passes before the first backward one, but for the last of them. */
static uint32_t ahead(const struct schedule *schedule)
{
    const uint32_t after = schedule->stages - schedule->stage - 1;
    return after < schedule->micros ? after : schedule->micros;
}

uint32_t schedule_length(const struct schedule *schedule)
{
    return 2 * schedule->micros;
}

struct schedule_pass schedule_at(const struct schedule *schedule, uint32_t index)
{
    const uint32_t first = ahead(schedule);
    const uint32_t pairs = schedule->micros - first;
    assert(index < schedule_length(schedule));
    if (index < first) {
        return (struct schedule_pass){.backward = false, .micro = index};
    }
    const uint32_t in_pairs = index - first;
    if (in_pairs >= 2 * pairs) {
        return (struct schedule_pass){.backward = true, .micro = pairs + in_pairs - 2 * pairs};
    }
    const bool backward = in_pairs % 2 == 1;
    return (struct schedule_pass){.backward = backward,
                                  .micro = in_pairs / 2 + (backward ? 0 : first)};
}

uint32_t schedule_in_flight(const struct schedule *schedule)
{
    const uint32_t first = ahead(schedule);
    return first < schedule->micros ? first + 1 : schedule->micros;
}
