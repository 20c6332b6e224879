/* walk.c: visits every field of a message and of the messages inside it.
 *
 * The walk keeps its own small stack instead of recursing: the depth is a constant, and the stack
 * doubles as the path for error texts. A field with nested messages goes to the visitor first (to
 * make room for the children on the target's side), then the walk goes down into each child. */
#include "proto/wire/walk.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "proto/wire/member.h"

/* "attempts[2].ranks[0]." before the text that err has. */
static int fail_with_path(const struct walk *walk, int code, struct err *err)
{
    char path[ERR_TEXT_SIZE] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < walk->depth; i++) {
        const struct walk_level *level = &walk->levels[i];
        const struct field *field = &level->layout->fields[level->field];
        const char *dot = i > 0 ? "." : "";
        if (field->type == FIELD_MESSAGES) {
            (void)text_format(path + used, sizeof path - used, "%s%s[%u]", dot, field->name,
                              level->child - 1); /* a cut path is still a path */
        } else {
            (void)text_format(path + used, sizeof path - used, "%s%s", dot, field->name);
        }
        used = strlen(path);
    }
    if (used > 0) {
        (void)err_wrap(err, "%s", path);
    }
    return code;
}

static uint32_t child_count(const struct field *field, const struct walk_level *level)
{
    if (field->type == FIELD_MESSAGES) {
        return member_load_count(field, level->plain);
    }
    return member_load_pointer(level->proto + field->proto_at) != NULL ? 1 : 0;
}

/* Goes down to the next child of the nested field that the top level stands at. */
static void descend(struct walk *walk, const struct field *field)
{
    struct walk_level *level = &walk->levels[walk->depth];
    uint32_t index = level->child;
    uint8_t *proto = member_load_pointer(level->proto + field->proto_at);
    if (field->type == FIELD_MESSAGES) {
        proto = member_load_pointer(proto + index * sizeof(void *));
    }
    level->child++;
    walk->depth++;
    CHECK(walk->depth < WALK_DEPTH_MAX);
    walk->levels[walk->depth] = (struct walk_level){
        .layout = field->nested,
        .plain = level->plain + field->at + (size_t)index * field->size,
        .proto = proto,
    };
}

/* One move of the walk. 1: more to do, 0: done, negative: a rule was broken. */
static int advance(struct walk *walk, struct err *err)
{
    struct walk_level *level = &walk->levels[walk->depth];
    if (level->field == level->layout->field_count) {
        if (level->layout->check != NULL && level->layout->check(level->plain, err) < 0) {
            return walk->code;
        }
        if (walk->depth == 0) {
            return 0;
        }
        walk->depth--;
        return 1;
    }
    const struct field *field = &level->layout->fields[level->field];
    if (level->child == 0) {
        int r = walk->visit(walk, field, level->plain, level->proto, err);
        if (r < 0) {
            return r;
        }
    }
    if (field->nested != NULL && level->child < child_count(field, level)) {
        descend(walk, field);
        return 1;
    }
    level->child = 0;
    level->field++;
    return 1;
}

int walk_run(struct walk *walk, struct err *err)
{
    int r;
    do {
        r = advance(walk, err);
    } while (r > 0);
    return r < 0 ? fail_with_path(walk, r, err) : 0;
}
