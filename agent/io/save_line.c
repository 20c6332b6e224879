/* save_line.c: see save_line.h. */
#include "agent/io/save_line.h"

#include <errno.h>
#include <string.h>

#include "agent/io/save_manifest.h"
#include "agent/io/save_walk.h"
#include "proto/base/text.h"

uint64_t save_line_number(const json_t *tree, const char *key)
{
    const json_t *value = json_object_get(tree, key);
    return json_is_integer(value) && json_integer_value(value) > 0
               ? (uint64_t)json_integer_value(value)
               : 0;
}

const char *save_line_text(const json_t *tree, const char *key)
{
    const char *text = json_string_value(json_object_get(tree, key));
    return text != NULL ? text : "";
}

static uint32_t small_in(const json_t *tree, const char *key)
{
    const uint64_t value = save_line_number(tree, key);
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* Without a hash of its own: one over what is known of it, so that a change is noticed. */
static void fill_hash(const json_t *tree, struct msg_save_said *said)
{
    const char *hash = save_line_text(tree, "hash");
    if (strlen(hash) == HASH_TEXT_SIZE - 1 && strspn(hash, "0123456789abcdef") == strlen(hash)) {
        (void)text_copy(said->hash, sizeof(said->hash), hash);
        return;
    }
    char text[PATH_SIZE + 128];
    (void)text_format(text, sizeof(text), "%s\n%llu %u %llu", said->directory,
                      (unsigned long long)said->bytes, said->files,
                      (unsigned long long)save_line_number(tree, "last_ms"));
    save_hash(text, strlen(text), said->hash);
}

static void fill_found(const json_t *tree, uint64_t wall_ms, struct msg_save_said *said)
{
    const uint64_t first_ms = save_line_number(tree, "first_ms");
    const uint64_t last_ms = save_line_number(tree, "last_ms");
    const char *note = save_line_text(tree, "note");
    size_t index;
    json_t *part;
    json_array_foreach(json_object_get(tree, "parts"), index, part)
    {
        said->parts |= save_part(json_string_value(part));
    }
    said->word = SAVE_FOUND;
    said->ok = json_is_true(json_object_get(tree, "complete"));
    said->step = save_line_number(tree, "step");
    said->attempt = small_in(tree, "attempt");
    said->files = small_in(tree, "files");
    said->bytes = save_line_number(tree, "bytes");
    said->age_ms = last_ms > 0 && last_ms < wall_ms ? wall_ms - last_ms : 0;
    said->took_ms = last_ms > first_ms && first_ms > 0 ? last_ms - first_ms : 0;
    (void)text_sentence(said->text, sizeof(said->text), "%s", note); /* a cut one will do */
}

int save_line_parse(const char *line, size_t size, uint64_t wall_ms, struct msg_save_said *ret_said,
                    struct err *err)
{
    struct msg_save_said said = {.word = SAVE_FOUND};
    json_error_t error;
    json_t *tree = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
    const char *path = save_line_text(tree, "path");
    int r = 0;
    if (!json_is_object(tree)) {
        r = err_set(err, -EINVAL, "a line is no JSON object");
    } else if (!json_is_integer(json_object_get(tree, "step")) ||
               save_line_number(tree, "step") == 0) {
        r = err_set(err, -EINVAL, "a checkpoint without a step above 0");
    } else if (path[0] != '/' || !text_is_utf8(path, strlen(path)) ||
               strpbrk(path, "\t\n") != NULL ||
               !text_copy(said.directory, sizeof(said.directory), path)) {
        r = err_set(err, -EINVAL, "step %llu: its path is no absolute path of one line",
                    (unsigned long long)save_line_number(tree, "step"));
    } else {
        fill_found(tree, wall_ms, &said);
        fill_hash(tree, &said);
        *ret_said = said;
    }
    json_decref(tree);
    return r;
}
