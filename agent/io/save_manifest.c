/* save_manifest.c: see save_manifest.h. */
#include "agent/io/save_manifest.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { SHARDS_MAX = 1 << 20 };

uint32_t save_part(const char *word)
{
    static const struct {
        const char *word;
        uint32_t bit;
    } parts[] = {
        {"weights", PART_WEIGHTS},
        {"optimizer", PART_OPTIMIZER},
        {"scheduler", PART_SCHEDULER},
        {"data", PART_DATA},
        {"rng", PART_RNG},
    };
    for (size_t i = 0; word != NULL && i < ARRAY_SIZE(parts); i++) {
        if (text_equal(word, parts[i].word)) {
            return parts[i].bit;
        }
    }
    return 0;
}

static int take_number(const json_t *tree, const char *key, uint64_t max, uint64_t *ret_value,
                       struct err *err)
{
    const json_t *value = json_object_get(tree, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > max) {
        return err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": %s is missing or no such number", key);
    }
    *ret_value = (uint64_t)json_integer_value(value);
    return 0;
}

static int check_shard(const json_t *shard, uint32_t index, struct err *err)
{
    uint64_t size = 0;
    const char *file = json_string_value(json_object_get(shard, "file"));
    const char *hash = json_string_value(json_object_get(shard, "hash"));
    if (file == NULL || !save_name_ok(file) || strlen(file) >= SAVE_NAME_SIZE ||
        text_equal(file, ".") || text_equal(file, "..")) {
        return err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": shard %u has no plain file name",
                       index);
    }
    if (hash == NULL || strlen(hash) != HASH_TEXT_SIZE - 1 ||
        strspn(hash, "0123456789abcdef") != HASH_TEXT_SIZE - 1) {
        return err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": shard %u has no XXH3-128", index);
    }
    return take_number(shard, "size", INT64_MAX, &size, err);
}

static int take_shards(struct save_manifest *manifest, struct err *err)
{
    const json_t *shards = json_object_get(manifest->tree, "shards");
    const size_t count = json_array_size(shards);
    if (count == 0 || count > SHARDS_MAX) {
        return err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": it lists %zu shards, 1 to %d can be",
                       count, SHARDS_MAX);
    }
    manifest->shard_count = (uint32_t)count;
    for (uint32_t i = 0; i < manifest->shard_count; i++) {
        const int r = check_shard(json_array_get(shards, i), i, err);
        if (r != 0) {
            return r;
        }
        const struct save_shard shard = save_manifest_shard(manifest, i);
        if (shard.size > (uint64_t)INT64_MAX - manifest->bytes) {
            return err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": its sizes are impossible");
        }
        manifest->bytes += shard.size;
    }
    return 0;
}

static int take_members(struct save_manifest *manifest, struct err *err)
{
    uint64_t attempt = 0;
    size_t index;
    json_t *part;
    const char *format = json_string_value(json_object_get(manifest->tree, "format"));
    const char *job = json_string_value(json_object_get(manifest->tree, "job"));
    if (format == NULL || !text_equal(format, "keepstep")) {
        return err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": its format is not \"keepstep\"");
    }
    if (job == NULL || !text_is_name(job, NAME_SIZE)) {
        return err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": it names no job");
    }
    (void)text_copy(manifest->job, sizeof(manifest->job), job); /* a name fits */
    int r = take_number(manifest->tree, "step", INT64_MAX, &manifest->step, err);
    r = r == 0 ? take_number(manifest->tree, "attempt", UINT32_MAX, &attempt, err) : r;
    manifest->attempt = (uint32_t)attempt;
    json_array_foreach(json_object_get(manifest->tree, "parts"), index, part)
    {
        manifest->parts |= save_part(json_string_value(part));
    }
    return r == 0 ? take_shards(manifest, err) : r;
}

static int check_owner(const struct save_manifest *manifest, const struct save_owner *owner,
                       struct err *err)
{
    if (owner->job[0] != '\0' && !text_equal(manifest->job, owner->job)) {
        return err_set(err, -EXDEV, "it is of another job, '%s'", manifest->job);
    }
    if (manifest->step != owner->step || manifest->attempt != owner->attempt) {
        return err_set(err, -EXDEV, "its manifest is of step %llu, attempt %u",
                       (unsigned long long)manifest->step, manifest->attempt);
    }
    return 0;
}

int save_manifest_read(int folder_fd, const struct save_owner *owner,
                       struct save_manifest *ret_manifest, struct err *err)
{
    struct save_manifest manifest = {.tree = NULL};
    json_error_t error;
    char *text = NULL;
    size_t size = 0;
    int r = save_read(folder_fd, SAVE_MANIFEST_NAME, SAVE_MANIFEST_MAX, &text, &size);
    if (r == -ENOENT) {
        return err_set(err, r, "it has no " SAVE_MANIFEST_NAME);
    }
    if (r != 0) {
        return err_set(err, r, SAVE_MANIFEST_NAME ": %s", strerror(-r));
    }
    save_hash(text, size, manifest.hash);
    manifest.tree = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    mem_free(text);
    r = json_is_object(manifest.tree)
            ? take_members(&manifest, err)
            : err_set(err, -EBADMSG, SAVE_MANIFEST_NAME ": it is cut off, or no JSON");
    r = r == 0 ? check_owner(&manifest, owner, err) : r;
    if (r != 0) {
        save_manifest_done(&manifest);
        return r;
    }
    *ret_manifest = manifest;
    return 0;
}

void save_manifest_done(struct save_manifest *manifest)
{
    json_decref(manifest->tree);
    manifest->tree = NULL;
}

struct save_shard save_manifest_shard(const struct save_manifest *manifest, uint32_t index)
{
    CHECK(index < manifest->shard_count);
    const json_t *one = json_array_get(json_object_get(manifest->tree, "shards"), index);
    return (struct save_shard){
        .file = json_string_value(json_object_get(one, "file")),
        .size = (uint64_t)json_integer_value(json_object_get(one, "size")),
        .hash = json_string_value(json_object_get(one, "hash")),
    };
}
