/* catalog_filter.c: which of some hundred keys are in a line, in one pass over it.
 *
 * Each key is known by three of its bytes in a row, those that are rarest in logs. A set of bits
 * says of every three bytes whether they may belong to a key; it is small enough to stay in the
 * nearest cache, and nearly all of a log only ever asks it. Where it says yes, the keys with these
 * bytes are compared in full. */
#include <assert.h>
#include <string.h>

#include "agent/core/catalog_parts.h"
#include "agent/core/line_cursor.h"
#include "agent/core/line_pattern.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"

enum { GRAM_SIZE = 3 };
static_assert((int)GRAM_SIZE <= (int)LINE_KEY_MIN, "every key has one");

void filter_create(struct filter *filter, uint32_t key_max)
{
    CHECK(key_max > 0 && key_max < UINT16_MAX);
    *filter = (struct filter){.key_max = key_max};
    filter->bits = mem_alloc(FILTER_HASHES / 64, sizeof(filter->bits[0]));
    filter->first = mem_alloc(FILTER_HASHES, sizeof(filter->first[0]));
    filter->keys = mem_alloc(key_max, sizeof(filter->keys[0]));
}

void filter_free(struct filter *filter)
{
    (void)mem_free(filter->bits);
    (void)mem_free(filter->first);
    (void)mem_free(filter->keys);
}

void filter_clear(struct filter *filter)
{
    memset(filter->bits, 0, FILTER_HASHES / 64 * sizeof(filter->bits[0]));
    memset(filter->first, 0, FILTER_HASHES * sizeof(filter->first[0]));
    filter->key_count = 0;
}

static uint32_t hash_of(uint32_t gram)
{
    return gram * 2654435761u >> (32 - FILTER_HASH_BITS);
}

/* The three bytes that end with `byte`, from those that ended before it. */
static uint32_t next_gram(uint32_t gram, char byte)
{
    return (gram << 8 | (unsigned char)byte) & 0xffffff;
}

static uint32_t gram_at(const char *text)
{
    return next_gram(next_gram(next_gram(0, text[0]), text[1]), text[2]);
}

/* How common a byte is in logs, roughly: most are small letters, and most of those are a few. */
static uint32_t commonness(char byte)
{
    static const char usual[] = "etaoinsrdlc ";
    for (size_t i = 0; i + 1 < sizeof(usual); i++) {
        if (byte == usual[i]) {
            return 8;
        }
    }
    if (byte >= 'a' && byte <= 'z') {
        return 5;
    }
    return line_is_digit(byte) ? 6 : byte >= 'A' && byte <= 'Z' ? 2 : 1;
}

static size_t rarest_gram(const char *key, size_t size)
{
    size_t best = 0;
    uint32_t least = UINT32_MAX;
    for (size_t at = 0; at + GRAM_SIZE <= size; at++) {
        const uint32_t sum =
            commonness(key[at]) + commonness(key[at + 1]) + commonness(key[at + 2]);
        if (sum < least) {
            least = sum;
            best = at;
        }
    }
    return best;
}

void filter_add(struct filter *filter, const char *key, size_t size, uint32_t mark)
{
    CHECK(filter->key_count < filter->key_max && size >= GRAM_SIZE);
    const size_t offset = rarest_gram(key, size);
    const uint32_t hash = hash_of(gram_at(key + offset));
    filter->keys[filter->key_count] = (struct filter_key){.text = key,
                                                          .size = (uint8_t)size,
                                                          .offset = (uint8_t)offset,
                                                          .mark = (uint16_t)mark,
                                                          .next = filter->first[hash]};
    filter->first[hash] = (uint16_t)++filter->key_count;
    filter->bits[hash / 64] |= 1ull << (hash % 64);
}

/* The keys whose three bytes may stand at `at`. */
static bool compare_keys(const struct filter *filter, const char *text, size_t size, size_t at,
                         uint64_t *marks)
{
    bool any = false;
    uint32_t index = filter->first[hash_of(gram_at(text + at))];
    while (index != 0) {
        const struct filter_key *key = &filter->keys[index - 1];
        if (at >= key->offset && size - (at - key->offset) >= key->size &&
            memcmp(text + at - key->offset, key->text, key->size) == 0) {
            marks[key->mark / 64] |= 1ull << (key->mark % 64);
            any = true;
        }
        index = key->next;
    }
    return any;
}

bool filter_run(const struct filter *filter, const char *text, size_t size, uint64_t *marks)
{
    const uint64_t *bits = filter->bits;
    uint32_t gram = 0;
    bool any = false;
    for (size_t at = 0; at < size; at++) {
        gram = next_gram(gram, text[at]);
        const uint32_t hash = hash_of(gram);
        if ((bits[hash / 64] >> (hash % 64) & 1) != 0 && at + 1 >= GRAM_SIZE &&
            compare_keys(filter, text, size, at + 1 - GRAM_SIZE, marks)) {
            any = true;
        }
    }
    return any;
}
