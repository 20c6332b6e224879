/* names.h: a number for each name that was seen: 1, 2, 3 … in the order of their coming. */
#ifndef KEEPSTEP_TOOLS_NAMES_H
#define KEEPSTEP_TOOLS_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names {
    char **names; /* owned */
    uint32_t count;
    uint32_t room;
    uint32_t *places; /* a power of two of them */
    uint32_t place_count;
};

void names_init(struct names *names);
void names_done(struct names *names);
uint32_t names_take(struct names *names, const char *name,
                    size_t size); /* its number, made if new */
uint32_t names_find(const struct names *names, const char *name, size_t size); /* 0: never seen */
const char *names_at(const struct names *names, uint32_t number); /* borrowed; "" for 0 */

#endif
