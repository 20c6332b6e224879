/* exchange.c: keys between the ranks of one attempt. Both tables hold level state: a put stays for
 * the attempt's life and an answered get keeps its value, so an agent that starts anew reads both
 * again and nothing is lost. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/rank/attach.h"
#include "agent/rank/keepstep.h"
#include "agent/rank/mailbox.h"

_Static_assert((int)KEEPSTEP_KEY_SIZE == (int)MAILBOX_KEY_SIZE, "one size");
_Static_assert((int)KEEPSTEP_VALUE_MAX == (int)MAILBOX_VALUE_MAX, "one size");
_Static_assert((int)KEEPSTEP_PUTS_MAX == (int)MAILBOX_PUTS, "one size");

static bool key_is_valid(const char *key)
{
    size_t length = key == NULL ? 0 : strnlen(key, MAILBOX_KEY_SIZE);
    if (length == 0 || length == MAILBOX_KEY_SIZE) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (key[i] < ' ' || key[i] > '~') {
            return false;
        }
    }
    return true;
}

/* A slot of a table is whole: the agent finds the tables changed, and is rung. */
static void announce(struct attach *attach)
{
    attach_status_begin(attach);
    attach->file->status.exchange_count++;
    attach_status_end(attach);
    attach_ring(attach);
}

/* ---- put ---------------------------------------------------------------------------------- */

/* Our own put under this key, or NULL; *ret_free the first free one, or NULL. */
static struct mailbox_put *put_find(struct attach *attach, const char *key,
                                    struct mailbox_put **ret_free)
{
    uint32_t attempt = attach->file->status.attempt;
    *ret_free = NULL;
    for (uint32_t i = 0; i < MAILBOX_PUTS; i++) {
        struct mailbox_put *put = &attach->file->puts[i];
        bool current = put->number != 0 && put->attempt == attempt;
        if (current && strncmp(put->key, key, sizeof(put->key)) == 0) {
            return put;
        }
        if (!current && *ret_free == NULL) {
            *ret_free = put;
        }
    }
    return NULL;
}

static void put_write(struct attach *attach, struct mailbox_put *slot, const char *key,
                      const void *value, size_t size)
{
    struct mailbox_put put = {
        .number = (uint64_t)(slot - attach->file->puts) + 1,
        .attempt = attach->file->status.attempt,
        .size = (uint32_t)size,
    };
    memcpy(put.key, key, strlen(key));
    if (size > 0) {
        memcpy(put.value, value, size);
    }
    put.checksum = mailbox_checksum(&put, offsetof(struct mailbox_put, checksum));
    atomic_store_explicit((_Atomic uint64_t *)&slot->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy((uint8_t *)slot + sizeof(put.number), (const uint8_t *)&put + sizeof(put.number),
           sizeof(put) - sizeof(put.number));
    atomic_store_explicit((_Atomic uint64_t *)&slot->number, put.number, memory_order_release);
    announce(attach);
}

int keepstep_exchange_put(const char *key, const void *value, size_t size)
{
    struct mailbox_put *free_slot;
    if (!key_is_valid(key) || (value == NULL && size > 0)) {
        return -EINVAL;
    }
    if (size > MAILBOX_VALUE_MAX) {
        return -EMSGSIZE;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    int result = 0;
    const struct mailbox_put *old = put_find(attach, key, &free_slot);
    if (old != NULL) {
        bool same = old->size == size && (size == 0 || memcmp(old->value, value, size) == 0);
        result = same ? 0 : -EEXIST;
    } else if (free_slot == NULL) {
        result = -ENOSPC;
    } else {
        put_write(attach, free_slot, key, value, size);
    }
    attach_unlock(attach);
    return result;
}

/* ---- get ---------------------------------------------------------------------------------- */

static uint64_t value_number(const struct attach *attach, uint32_t slot)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)&attach->file->values[slot].number,
                                memory_order_acquire);
}

/* The slot that asks for this key, made when there is none. -EBUSY: all are open for others. */
static int get_open(struct attach *attach, const char *key, uint32_t *ret_slot)
{
    uint32_t attempt = attach->file->status.attempt;
    uint64_t oldest = UINT64_MAX;
    uint32_t place = MAILBOX_GETS;
    for (uint32_t i = 0; i < MAILBOX_GETS; i++) {
        const struct mailbox_get *get = &attach->file->gets[i];
        if (get->number != 0 && get->attempt == attempt &&
            strncmp(get->key, key, sizeof(get->key)) == 0) {
            *ret_slot = i;
            return 0;
        }
        bool open =
            get->number != 0 && get->attempt == attempt && value_number(attach, i) != get->number;
        if (!open && get->number < oldest) {
            oldest = get->number;
            place = i;
        }
    }
    if (place == MAILBOX_GETS) {
        return -EBUSY;
    }
    struct mailbox_get get = {
        .number = ++attach->get_count * MAILBOX_GETS + place,
        .attempt = attempt,
    };
    struct mailbox_get *slot = &attach->file->gets[place];
    memcpy(get.key, key, strlen(key));
    get.checksum = mailbox_checksum(&get, offsetof(struct mailbox_get, checksum));
    atomic_store_explicit((_Atomic uint64_t *)&slot->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy((uint8_t *)slot + sizeof(get.number), (const uint8_t *)&get + sizeof(get.number),
           sizeof(get) - sizeof(get.number));
    atomic_store_explicit((_Atomic uint64_t *)&slot->number, get.number, memory_order_release);
    announce(attach);
    *ret_slot = place;
    return 0;
}

static int value_copy(const uint8_t *value, uint32_t size, void *ret_value, size_t capacity,
                      size_t *ret_size)
{
    if (size > capacity) {
        return -EMSGSIZE;
    }
    if (size > 0) {
        memcpy(ret_value, value, size);
    }
    *ret_size = size;
    return 0;
}

/* 0 or -errno: decided; 1: not yet. */
static int get_look(struct attach *attach, const char *key, void *ret_value, size_t capacity,
                    size_t *ret_size)
{
    struct mailbox_put *unused;
    struct mailbox_value value;
    uint32_t slot = 0;
    const struct mailbox_put *own = put_find(attach, key, &unused);
    if (own != NULL) {
        return value_copy(own->value, own->size, ret_value, capacity, ret_size);
    }
    int result = get_open(attach, key, &slot);
    if (result != 0) {
        return result;
    }
    uint64_t number = value_number(attach, slot);
    if (number != attach->file->gets[slot].number) {
        return 1;
    }
    memcpy(&value, &attach->file->values[slot], sizeof(value));
    value.number = number;
    if (value.size > MAILBOX_VALUE_MAX ||
        value.checksum != mailbox_checksum(&value, offsetof(struct mailbox_value, checksum))) {
        return 1; /* the agent writes it again just now */
    }
    if (value.result != 0) {
        return value.result < 0 ? value.result : -EBADMSG;
    }
    return value_copy(value.value, value.size, ret_value, capacity, ret_size);
}

int keepstep_exchange_get(const char *key, void *ret_value, size_t capacity, size_t *ret_size,
                          uint32_t timeout_ms)
{
    if (!key_is_valid(key) || ret_size == NULL || (ret_value == NULL && capacity > 0)) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    uint64_t deadline_us = attach_now_us() + (uint64_t)timeout_ms * 1000;
    while (attach != NULL) {
        uint32_t word = attach_wake_word(attach);
        int result = get_look(attach, key, ret_value, capacity, ret_size);
        if (result <= 0) {
            attach_unlock(attach);
            return result;
        }
        if (attach_now_us() >= deadline_us) {
            attach_unlock(attach);
            return -ETIMEDOUT;
        }
        attach = attach_wait(attach, word, deadline_us);
    }
    return -ENOTCONN;
}
