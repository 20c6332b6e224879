/* spec_cache.c: see spec_cache.h. A miss is one small query, after a start or a new revision. */
#include "controller/io/spec_cache.h"

#include <errno.h>

#include "db/store.h"
#include "proto/base/mem.h"
#include "proto/base/message.h"

struct entry {
    uint32_t job; /* 0 = free */
    uint32_t revision;
    uint64_t used;
    char *text;
    size_t size;
};

struct spec_cache {
    struct store_reader *reader;
    uint64_t clock;
    struct entry entries[SPEC_CACHE_JOBS];
};

int spec_cache_create(const char *database, struct spec_cache **ret_cache, struct err *err)
{
    struct spec_cache *cache = mem_alloc(1, sizeof(*cache));
    int result = store_reader_open(database, &cache->reader, err);
    if (result < 0) {
        (void)mem_free(cache);
        return result;
    }
    *ret_cache = cache;
    return 0;
}

struct spec_cache *spec_cache_free(struct spec_cache *cache)
{
    if (cache == NULL) {
        return NULL;
    }
    for (uint32_t index = 0; index < SPEC_CACHE_JOBS; index++) {
        (void)mem_free(cache->entries[index].text);
    }
    (void)store_reader_close(cache->reader);
    return mem_free(cache);
}

/* The job's entry, else a free one, else the one not used for longest. */
static struct entry *entry_for(struct spec_cache *cache, uint32_t job)
{
    struct entry *oldest = &cache->entries[0];
    for (uint32_t index = 0; index < SPEC_CACHE_JOBS; index++) {
        struct entry *entry = &cache->entries[index];
        if (entry->job == job) {
            return entry;
        }
        if (entry->used < oldest->used) {
            oldest = entry;
        }
    }
    return oldest;
}

int spec_cache_get(struct spec_cache *cache, uint32_t job, uint32_t revision, const char **ret_text,
                   uint32_t *ret_size, struct err *err)
{
    struct entry *entry = entry_for(cache, job);
    bool hit =
        entry->job == job && entry->text != NULL && revision != 0 && entry->revision == revision;
    if (!hit) {
        char *text = NULL;
        size_t size = 0;
        int result = store_spec_text(cache->reader, job, revision, &text, &size, err);
        if (result < 0) {
            return result;
        }
        if (size > SPEC_TEXT_MAX) {
            (void)mem_free(text);
            return err_set(err, -EMSGSIZE, "the file of job %u has %zu bytes, at most %d travel",
                           job, size, SPEC_TEXT_MAX);
        }
        (void)mem_free(entry->text);
        *entry = (struct entry){.job = job, .revision = revision, .text = text, .size = size};
    }
    entry->used = ++cache->clock;
    *ret_text = entry->text;
    *ret_size = (uint32_t)entry->size;
    return 0;
}
