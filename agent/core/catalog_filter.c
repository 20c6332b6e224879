/* catalog_filter.c: all keys at once, in one pass over the line.
 *
 * The automaton is a table: for each node and each class of bytes, the node that follows. Node 0 is
 * the beginning; the path from there to a node spells the longest end of the text so far that any
 * key begins with. 16 bits a step, and bytes that no key has are one class, keep it small enough to
 * stay in the cache: nearly all of a log only ever sees the nodes next to the beginning. */
#include <string.h>

#include "agent/core/catalog_parts.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"

void filter_create(struct filter *filter, uint32_t node_max, uint32_t mark_max)
{
    CHECK(node_max > 0 && node_max < UINT16_MAX && mark_max < UINT16_MAX);
    *filter = (struct filter){.node_max = node_max, .mark_max = mark_max};
    filter->next = mem_alloc((size_t)node_max * FILTER_CLASSES_MAX, sizeof(filter->next[0]));
    filter->fail = mem_alloc(node_max, sizeof(filter->fail[0]));
    filter->queue = mem_alloc(node_max, sizeof(filter->queue[0]));
    filter->found = mem_alloc(node_max, sizeof(filter->found[0]));
    filter->first = mem_alloc(node_max, sizeof(filter->first[0]));
    filter->marks = mem_alloc(node_max, sizeof(filter->marks[0]));
    filter->other = mem_alloc(node_max, sizeof(filter->other[0]));
    filter_clear(filter);
}

void filter_free(struct filter *filter)
{
    (void)mem_free(filter->next);
    (void)mem_free(filter->fail);
    (void)mem_free(filter->queue);
    (void)mem_free(filter->found);
    (void)mem_free(filter->first);
    (void)mem_free(filter->marks);
    (void)mem_free(filter->other);
}

/* While keys are added, a node's row has room for all classes; it is packed in the end. */
static uint16_t *row_of(const struct filter *filter, uint32_t node)
{
    return filter->next + (size_t)node * FILTER_CLASSES_MAX;
}

void filter_clear(struct filter *filter)
{
    const uint32_t used = filter->node_count > 0 ? filter->node_count : 1;
    memset(filter->next, 0, (size_t)used * FILTER_CLASSES_MAX * sizeof(filter->next[0]));
    memset(filter->found, 0, filter->node_max * sizeof(filter->found[0]));
    memset(filter->first, 0, filter->node_max * sizeof(filter->first[0]));
    memset(filter->classes, 0, sizeof(filter->classes));
    filter->node_count = 1;
    filter->class_count = 1;
    filter->key_count = 0;
}

void filter_add(struct filter *filter, const char *key, size_t size, uint32_t mark)
{
    uint32_t node = 0;
    CHECK(mark < filter->mark_max && size > 0);
    for (size_t i = 0; i < size; i++) {
        uint8_t *class = &filter->classes[(unsigned char)key[i]];
        if (*class == 0) {
            CHECK(filter->class_count < FILTER_CLASSES_MAX);
            *class = (uint8_t)filter->class_count++;
        }
        uint16_t *next = &row_of(filter, node)[*class];
        if (*next == 0) {
            CHECK(filter->node_count < filter->node_max);
            *next = (uint16_t)filter->node_count++;
        }
        node = *next;
    }
    CHECK(filter->key_count < filter->node_max);
    filter->marks[filter->key_count] = (uint16_t)mark;
    filter->other[filter->key_count] = filter->first[node];
    filter->first[node] = (uint16_t)++filter->key_count;
}

/* A node whose fail is known gives its own steps to the rest of the alphabet. */
static uint32_t visit(struct filter *filter, uint32_t node, uint32_t waiting)
{
    uint16_t *row = row_of(filter, node);
    const uint32_t fail = filter->fail[node];
    const uint16_t *fallback = row_of(filter, fail);
    filter->found[node] = filter->first[node] != 0 ? (uint16_t)node : filter->found[fail];
    for (uint32_t class = 0; class < filter->class_count; class ++) {
        const uint16_t child = row[class];
        if (child == 0) {
            row[class] = node == 0 ? 0 : fallback[class];
            continue;
        }
        filter->fail[child] = node == 0 ? 0 : fallback[class];
        filter->queue[waiting++] = child;
    }
    return waiting;
}

/* Breadth first: the fail of a node is nearer to the beginning, so it has been visited. */
void filter_finish(struct filter *filter)
{
    uint32_t waiting = 0;
    filter->fail[0] = 0;
    waiting = visit(filter, 0, waiting);
    for (uint32_t at = 0; at < waiting; at++) {
        waiting = visit(filter, filter->queue[at], waiting);
    }
    CHECK(waiting + 1 == filter->node_count);
    for (uint32_t node = 1; node < filter->node_count; node++) {
        memmove(filter->next + (size_t)node * filter->class_count, row_of(filter, node),
                filter->class_count * sizeof(filter->next[0]));
    }
}

static void set_marks(const struct filter *filter, uint32_t node, uint64_t *bits)
{
    for (uint32_t key = filter->first[node]; key != 0; key = filter->other[key - 1]) {
        const uint32_t mark = filter->marks[key - 1];
        bits[mark / 64] |= 1ull << (mark % 64);
    }
}

/* The keys that end where a node ends: its own, and those of its ends, of which found[] tells the
 * longest; a shorter one is an end of that one's own fail. */
static void set_all_marks(const struct filter *filter, uint32_t node, uint64_t *bits)
{
    while (node != 0) {
        set_marks(filter, node, bits);
        node = filter->found[filter->fail[node]];
    }
}

bool filter_run(const struct filter *filter, const char *text, size_t size, uint64_t *bits)
{
    const uint16_t *next = filter->next;
    const size_t classes = filter->class_count;
    size_t node = 0;
    bool any = false;
    for (size_t at = 0; at < size; at++) {
        node = next[node * classes + filter->classes[(unsigned char)text[at]]];
        if (filter->found[node] != 0) {
            set_all_marks(filter, filter->found[node], bits);
            any = true;
        }
    }
    return any;
}
