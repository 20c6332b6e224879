/* swarm_waves.c: an order goes out to thousands of agents; when did it reach each of them? */
#include "controller/tools/swarm.h"

#include "proto/base/mem.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum { AGENTS_ROOM = 64 };

static struct swarm_wave *find(struct swarm *swarm, const char *what, uint32_t job,
                               uint32_t attempt)
{
    for (uint32_t index = 0; index < SWARM_WAVES; index++) {
        struct swarm_wave *wave = &swarm->waves[index];
        if (wave->used && wave->job == job && wave->attempt == attempt &&
            text_equal(wave->what, what)) {
            return wave;
        }
    }
    return NULL;
}

static void drop(struct swarm_wave *wave)
{
    (void)mem_free(wave->at_us);
    *wave = (struct swarm_wave){.used = false};
}

/* A free place, or that of the wave which began first: what it waits for will not come. */
static struct swarm_wave *place(struct swarm *swarm)
{
    struct swarm_wave *oldest = &swarm->waves[0];
    for (uint32_t index = 0; index < SWARM_WAVES; index++) {
        struct swarm_wave *wave = &swarm->waves[index];
        if (!wave->used) {
            return wave;
        }
        oldest = wave->at_us[0] < oldest->at_us[0] ? wave : oldest;
    }
    drop(oldest);
    return oldest;
}

/* Nearest rank: a time at which it really reached somebody. They come in their order. */
static uint64_t percentile(const struct swarm_wave *wave, uint32_t percent)
{
    uint64_t rank = ((uint64_t)wave->count * percent + 99) / 100;
    return wave->at_us[rank > 0 ? rank - 1 : 0];
}

static void tell(const struct swarm_wave *wave)
{
    swarm_say(wave->what,
              "\"job\":%u,\"attempt\":%u,\"agents\":%u,\"first_us\":%llu,\"p50_us\":%llu,"
              "\"p99_us\":%llu,\"last_us\":%llu",
              wave->job, wave->attempt, wave->count, (unsigned long long)wave->at_us[0],
              (unsigned long long)percentile(wave, 50), (unsigned long long)percentile(wave, 99),
              (unsigned long long)wave->at_us[wave->count - 1]);
}

void wave_add(struct swarm *swarm, const char *what, uint32_t job, uint32_t attempt,
              uint32_t expected)
{
    struct swarm_wave *wave = find(swarm, what, job, attempt);
    if (wave == NULL) {
        wave = place(swarm);
        *wave = (struct swarm_wave){
            .used = true, .what = what, .job = job, .attempt = attempt, .expected = expected};
        wave->at_us = mem_alloc(expected + AGENTS_ROOM, sizeof(wave->at_us[0]));
    }
    wave->at_us[wave->count++] = swarm_now_us();
    if (wave->count >= wave->expected) {
        tell(wave);
        drop(wave);
    }
}

void waves_free(struct swarm *swarm)
{
    for (uint32_t index = 0; index < SWARM_WAVES; index++) {
        drop(&swarm->waves[index]);
    }
}
