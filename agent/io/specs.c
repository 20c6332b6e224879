/* specs.c: a handful of job files, the oldest pushed out. */
#include "agent/io/specs.h"

#include <string.h>

#include "proto/base/mem.h"

struct spec {
    uint32_t job;
    uint32_t revision;
    uint64_t used; /* 0: this place is free */
    size_t size;
    char *text;
};

struct agent_specs {
    uint64_t count;
    struct spec specs[SPECS_MAX];
};

struct agent_specs *specs_create(void)
{
    return mem_alloc(1, sizeof(struct agent_specs));
}

struct agent_specs *specs_free(struct agent_specs *specs)
{
    if (specs != NULL) {
        for (int i = 0; i < SPECS_MAX; i++) {
            mem_free(specs->specs[i].text);
        }
        mem_free(specs);
    }
    return NULL;
}

void specs_put(struct agent_specs *specs, uint32_t job, uint32_t revision, const char *text,
               size_t size)
{
    struct spec *place = &specs->specs[0];
    for (int i = 0; i < SPECS_MAX; i++) {
        struct spec *spec = &specs->specs[i];
        if (spec->used > 0 && spec->job == job && spec->revision == revision) {
            place = spec;
            break;
        }
        if (spec->used < place->used) {
            place = spec;
        }
    }
    if (place->used > 0 && place->job == job && place->revision == revision &&
        place->size == size && memcmp(place->text, text, size) == 0) {
        place->used = ++specs->count;
        return;
    }
    mem_free(place->text);
    place->text = mem_alloc(size + 1, 1);
    memcpy(place->text, text, size);
    place->size = size;
    place->job = job;
    place->revision = revision;
    place->used = ++specs->count;
}

const char *specs_get(const struct agent_specs *specs, uint32_t job, uint32_t revision,
                      size_t *ret_size)
{
    const struct spec *best = NULL;
    for (int i = 0; i < SPECS_MAX; i++) {
        const struct spec *spec = &specs->specs[i];
        if (spec->used > 0 && spec->job == job && (revision == 0 || spec->revision == revision) &&
            (best == NULL || spec->used > best->used)) {
            best = spec;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    *ret_size = best->size;
    return best->text;
}
