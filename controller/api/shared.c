/* shared.c: long answers that many clients ask for at once, made once for all of them.
 *
 * A list of thousands of nodes takes milliseconds to make, and pages, exporters and operators ask for
 * the same one together. An answer that shows records up to R is given again, to callers of the same
 * role and user, until a later record than R is durable: nobody was told of anything newer before.
 * What changes without a record (steps, who is connected) is never older than SHARED_MS. An answer
 * whose R is not durable yet is waited for by all who ask. Short answers are made anew each time.
 *
 *   route -> http_answer ──> shared_keep() ──> durable -> sent
 *   the next request: shared_find() <──┘ */
#include <string.h>

#include "controller/api/internal.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { KEY_SIZE = 1024 };

struct shared {
    char *key; /* owned; NULL: free */
    struct shared_text *text;
};

/* ---- texts ------------------------------------------------------------------------------------ */

/* Steps and connections change without a record, so the revision alone would hide changes. */
static void make_tag(const struct api *api, struct shared_text *text)
{
    text_format(text->tag, sizeof(text->tag), "\"%s-%llu-%016llx\"",
                core_globals(loop_core(api->loop))->store_id, (unsigned long long)text->revision,
                (unsigned long long)hash_bytes(HASH_INIT, text->text, text->size));
}

struct shared_text *shared_make(const struct api *api, char *text, size_t size, uint64_t revision)
{
    struct shared_text *made = mem_alloc(1, sizeof(*made));
    *made = (struct shared_text){
        .uses = 1, .size = size, .text = text, .revision = revision, .made_ms = loop_now_ms()};
    make_tag(api, made);
    return made;
}

void shared_release(struct shared_text *text)
{
    if (text != NULL && --text->uses == 0) {
        (void)mem_free(text->text);
        (void)mem_free(text);
    }
}

static void release_cb(void *context)
{
    shared_release(context);
}

struct MHD_Response *shared_response(struct shared_text *text)
{
    text->uses++;
    return MHD_create_response_from_buffer_with_free_callback_cls(text->size, text->text,
                                                                  release_cb, text);
}

static void drop(struct shared *shared)
{
    if (shared->key != NULL) {
        shared_release(shared->text);
        (void)mem_free(shared->key);
    }
    *shared = (struct shared){.key = NULL};
}

/* ---- what is the same question ---------------------------------------------------------------- */

struct key {
    char text[KEY_SIZE];
    bool whole;
};

static void add(struct key *key, const char *before, const char *text)
{
    size_t used = strlen(key->text);
    key->whole =
        text_format(key->text + used, sizeof(key->text) - used, "%s%s", before, text) && key->whole;
}

static enum MHD_Result add_cb(void *context, enum MHD_ValueKind kind, const char *name,
                              const char *value)
{
    (void)kind;
    add(context, "\n", name);
    add(context, "=", value != NULL ? value : "");
    return MHD_YES;
}

/* false: it is not of a sort that is shared, or too long to be remembered. */
static bool key_of(const struct http_request *request, struct key *ret_key)
{
    *ret_key = (struct key){.whole = true};
    if (!text_equal(request->method, "GET")) {
        return false;
    }
    (void)text_format(ret_key->text, sizeof(ret_key->text), "%u", request->role);
    add(ret_key, "\n", request->user);
    add(ret_key, "\n", request->path);
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_cb, ret_key);
    return ret_key->whole;
}

/* ---- keeping and giving ----------------------------------------------------------------------- */

static bool holds(const struct api *api, const struct shared_text *text)
{
    return text->revision >= loop_revision(api->loop) && loop_now_ms() - text->made_ms < SHARED_MS;
}

struct shared_text *shared_find(const struct http_request *request)
{
    struct key key;
    const struct api *api = request->api;
    if (api->shared == NULL || !key_of(request, &key)) {
        return NULL;
    }
    for (uint32_t i = 0; i < SHARED_MAX; i++) {
        const struct shared *shared = &api->shared[i];
        if (shared->key != NULL && holds(api, shared->text) && text_equal(shared->key, key.text)) {
            shared->text->uses++;
            return shared->text;
        }
    }
    return NULL;
}

/* The place of the same question, a free one, or that of the oldest answer. */
static struct shared *place(struct api *api, const char *key)
{
    struct shared *oldest = &api->shared[0];
    for (uint32_t i = 0; i < SHARED_MAX; i++) {
        struct shared *shared = &api->shared[i];
        if (shared->key != NULL && text_equal(shared->key, key)) {
            return shared;
        }
        uint64_t age = shared->key == NULL ? 0 : shared->text->made_ms;
        oldest = age < (oldest->key == NULL ? 0 : oldest->text->made_ms) ? shared : oldest;
    }
    return oldest;
}

void shared_keep(struct http_request *request)
{
    struct key key;
    struct api *api = request->api;
    if (request->status != 200 || request->text->size < SHARED_SIZE_MIN || !key_of(request, &key)) {
        return;
    }
    if (api->shared == NULL) {
        api->shared = mem_alloc(SHARED_MAX, sizeof(api->shared[0]));
    }
    struct shared *shared = place(api, key.text);
    drop(shared);
    shared->key = mem_strdup(key.text);
    shared->text = request->text;
    shared->text->uses++;
}

void shared_tick(struct api *api)
{
    const uint64_t now_ms = loop_now_ms();
    for (uint32_t i = 0; api->shared != NULL && i < SHARED_MAX; i++) {
        struct shared *shared = &api->shared[i];
        if (shared->key != NULL && now_ms - shared->text->made_ms >= SHARED_MS) {
            drop(shared);
        }
    }
}

void shared_free(struct api *api)
{
    for (uint32_t i = 0; api->shared != NULL && i < SHARED_MAX; i++) {
        drop(&api->shared[i]);
    }
    api->shared = mem_free(api->shared);
}
