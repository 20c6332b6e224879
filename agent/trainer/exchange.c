/* exchange.c: by keys, or by the connections that are there. */
#include "agent/trainer/exchange.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/rank/keepstep.h"
#include "agent/trainer/pace.h"

enum { LOOK_MS = 100 }; /* how often one who waits for a key looks whether its peers live */

int exchange_by_agent(struct comm *comm, bool *ret_by_agent)
{
    int64_t attached = keepstep_attached();
    const int code =
        comm_all_reduce(comm_group(comm, COMM_WORLD), &attached, 1, COMM_I64, COMM_SUM);
    *ret_by_agent = code == 0 && attached == (int64_t)comm->world;
    return code;
}

/* Groups of one axis are told apart by their first member. */
static void key_of(const struct comm_group *group, const char *name, char *ret_key)
{
    const int size = snprintf(ret_key, KEEPSTEP_KEY_SIZE, "%s.%s.%u", name,
                              comm_axis_name(group->axis), group->members[0]);
    assert(size > 0 && size < KEEPSTEP_KEY_SIZE);
}

static int wait_for_key(struct comm_group *group, const char *key, void *bytes, size_t size,
                        uint32_t timeout_ms)
{
    const uint64_t begun_us = pace_now_us();
    for (;;) {
        size_t got = 0;
        int code = keepstep_exchange_get(key, bytes, size, &got, LOOK_MS);
        if (code == 0) {
            return got == size ? 0 : -EPROTO;
        }
        if (code != -ETIMEDOUT && code != -EBUSY) {
            return code;
        }
        code = comm_async_error(group->comm);
        if (code < 0) {
            return code;
        }
        if (pace_now_us() - begun_us > (uint64_t)timeout_ms * 1000u) {
            return -ETIMEDOUT;
        }
    }
}

int exchange_bytes(struct comm_group *group, const char *name, bool by_agent, void *bytes,
                   size_t size, uint32_t timeout_ms)
{
    char key[KEEPSTEP_KEY_SIZE];
    assert(strlen(name) <= EXCHANGE_NAME_MAX && size <= KEEPSTEP_VALUE_MAX);
    if (!by_agent) {
        return comm_broadcast(group, bytes, size, COMM_U8, 0);
    }
    key_of(group, name, key);
    if (group->index == 0) {
        return keepstep_exchange_put(key, bytes, size);
    }
    return wait_for_key(group, key, bytes, size, timeout_ms);
}
