/* names.c: open addressing, half full at most. */
#include "controller/tools/names.h"

#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/mem.h"

enum { PLACES_FIRST = 64 };

void names_init(struct names *names)
{
    *names = (struct names){.place_count = PLACES_FIRST};
    names->places = mem_alloc(names->place_count, sizeof(names->places[0]));
}

void names_done(struct names *names)
{
    for (uint32_t index = 0; index < names->count; index++) {
        names->names[index] = mem_free(names->names[index]);
    }
    names->names = mem_free(names->names);
    names->places = mem_free(names->places);
    names->count = 0;
}

static uint32_t *place_of(const struct names *names, const char *name, size_t size)
{
    uint64_t hash = hash_bytes(HASH_INIT, name, size);
    uint32_t place = (uint32_t)(hash ^ hash >> 32) & (names->place_count - 1);
    while (names->places[place] != 0) {
        const char *other = names->names[names->places[place] - 1];
        if (strlen(other) == size && memcmp(other, name, size) == 0) {
            break;
        }
        place = (place + 1) & (names->place_count - 1);
    }
    return &names->places[place];
}

static void more_places(struct names *names)
{
    names->places = mem_free(names->places);
    names->place_count *= 2;
    names->places = mem_alloc(names->place_count, sizeof(names->places[0]));
    for (uint32_t index = 0; index < names->count; index++) {
        *place_of(names, names->names[index], strlen(names->names[index])) = index + 1;
    }
}

uint32_t names_find(const struct names *names, const char *name, size_t size)
{
    return *place_of(names, name, size);
}

uint32_t names_take(struct names *names, const char *name, size_t size)
{
    uint32_t number = names_find(names, name, size);
    if (number != 0) {
        return number;
    }
    if (names->count == names->room) {
        names->room = names->room == 0 ? PLACES_FIRST : names->room * 2;
        names->names = mem_grow(names->names, names->room, sizeof(names->names[0]));
    }
    if (2 * (names->count + 1) > names->place_count) {
        more_places(names);
    }
    char *copy = mem_alloc(size + 1, 1);
    memcpy(copy, name, size);
    names->names[names->count++] = copy;
    *place_of(names, name, size) = names->count;
    return names->count;
}

const char *names_at(const struct names *names, uint32_t number)
{
    return number != 0 && number <= names->count ? names->names[number - 1] : "";
}
