/* pace.c: sleeps to an absolute time in slices, so that a lost peer ends the wait early. */
#include "agent/trainer/pace.h"

#include <time.h>

enum { SLICE_US = 20000 };

uint64_t pace_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void sleep_until(uint64_t until_us)
{
    const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000u),
                                   .tv_nsec = (long)(until_us % 1000000u) * 1000};
    /* A signal that ends it early only costs one more look at the clock. */
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

int pace_stretch(struct comm *comm, uint64_t begun_us, uint32_t floor_ms, double slowness)
{
    uint64_t now_us = pace_now_us();
    const uint64_t floor_us = (uint64_t)floor_ms * 1000u;
    const uint64_t passed_us = now_us - begun_us > floor_us ? now_us - begun_us : floor_us;
    const uint64_t until_us = begun_us + (uint64_t)((double)passed_us * slowness);
    while (now_us < until_us) {
        const int code = comm_async_error(comm);
        if (code < 0) {
            return code;
        }
        sleep_until(until_us - now_us > SLICE_US ? now_us + SLICE_US : until_us);
        now_us = pace_now_us();
    }
    return 0;
}
