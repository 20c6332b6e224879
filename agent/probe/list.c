/* list.c: see list.h. */
#include "agent/probe/list.h"

#include <string.h>

#include "proto/base/text.h"

bool list_next(const char **list, char *part, size_t size)
{
    while (**list != '\0') {
        const size_t length = strcspn(*list, ",");
        const bool fits = length > 0 && length < size;
        if (fits) {
            (void)text_copy(part, length + 1, *list);
        }
        *list += length + ((*list)[length] == ',');
        if (fits) {
            return true;
        }
    }
    return false;
}

bool list_has(const char *list, const char *part)
{
    const size_t size = strlen(part);
    while (*list != '\0') {
        const size_t length = strcspn(list, ",");
        if (length == size && memcmp(list, part, size) == 0) {
            return true;
        }
        list += length + (list[length] == ',');
    }
    return false;
}
