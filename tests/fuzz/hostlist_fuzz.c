/* hostlist_fuzz.c: any text as a host list; what it names folds into a list of the same names. */
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { NAMES_KEPT = 512, TEXT_MAX = 4096 };

const char fuzz_alphabet[] = "abn-[],,0019]._";

static const char *const examples[] = {
    "gpu-[0000-0416,0418],head",
    "n1,n2,n[5-7]-ib0,n[08-12]",
    "[1-3].a.b,x[1,2,3]y,z",
    "a[1-131072]",
};

FUZZ_TEXTS(examples)

struct names {
    char names[NAMES_KEPT][HOSTLIST_NAME_SIZE];
    const char *list[NAMES_KEPT];
    size_t count; /* of all names; the first NAMES_KEPT are kept */
};

static int keep(const char *name, void *context)
{
    struct names *names = context;
    CHECK(text_is_name(name, HOSTLIST_NAME_SIZE));
    if (names->count < NAMES_KEPT) {
        (void)text_copy(names->names[names->count], HOSTLIST_NAME_SIZE, name);
        names->list[names->count] = names->names[names->count];
    }
    names->count++;
    return 0;
}

static int is_kept(const char *name, void *context)
{
    struct names *names = context;
    for (size_t index = 0; index < names->count; index++) {
        if (text_equal(names->names[index], name)) {
            return 0;
        }
    }
    CHECK(false); /* folding made a name up */
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_MAX];
    size_t length = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, length);
    text[length] = '\0';
    struct names *names = mem_alloc(1, sizeof(*names));
    struct err err = {.code = 0};
    int result = hostlist_each(text, keep, names, &err);
    CHECK(result == 0 || (names->count == 0 && err.text[0] != '\0'));
    if (result == 0 && names->count <= NAMES_KEPT) {
        static const size_t folded_size = NAMES_KEPT * (HOSTLIST_NAME_SIZE + 1);
        char *folded = mem_alloc(folded_size, 1);
        size_t needed = hostlist_fold(names->list, names->count, folded, folded_size);
        CHECK(needed < folded_size);
        result = hostlist_each(folded, is_kept, names, NULL);
        CHECK(result == 0);
        (void)mem_free(folded);
    }
    (void)mem_free(names);
    return 0;
}
