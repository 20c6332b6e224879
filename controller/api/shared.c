/* shared.c: long answers that many clients ask for at once, made once for all of them.
 *
 * A list of thousands of nodes takes milliseconds to make, and pages, exporters and operators ask for
 * the same one together. An answer is given again as long as no record was written since it was made,
 * to callers of the same role and user, for SHARED_MS: what changes without a record (steps, who is
 * connected) is never older than that. Short answers are made anew each time.
 *
 *   route -> http_answer -> durable -> shared_keep() ─┐
 *   the next request: shared_answer() <───────────────┘ */
#include <string.h>

#include "controller/api/internal.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { KEY_SIZE = 1024 };

struct shared_text {
    uint32_t uses; /* the table's, and those of answers under way */
    size_t size;
    char *text; /* owned */
};

struct shared {
    char *key; /* owned; NULL: free */
    struct shared_text *text;
    char tag[SHARED_TAG_SIZE];
    uint64_t records; /* of the loop when it was made */
    uint64_t made_ms;
};

static void release(void *context)
{
    struct shared_text *text = context;
    if (--text->uses == 0) {
        (void)mem_free(text->text);
        (void)mem_free(text);
    }
}

static struct MHD_Response *response_of(struct shared_text *text)
{
    text->uses++;
    return MHD_create_response_from_buffer_with_free_callback_cls(text->size, text->text, release,
                                                                  text);
}

static void drop(struct shared *shared)
{
    if (shared->key != NULL) {
        release(shared->text);
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

uint64_t shared_records(const struct http_request *request)
{
    return loop_figures(request->api->loop).records;
}

static bool holds(const struct http_request *request, const struct shared *shared)
{
    return shared->records == shared_records(request) &&
           loop_now_ms() - shared->made_ms < SHARED_MS;
}

bool shared_answer(struct http_request *request)
{
    struct key key;
    if (request->api->shared == NULL || !key_of(request, &key)) {
        return false;
    }
    for (uint32_t i = 0; i < SHARED_MAX; i++) {
        struct shared *shared = &request->api->shared[i];
        if (shared->key != NULL && holds(request, shared) && text_equal(shared->key, key.text)) {
            answer_tagged(request, response_of(shared->text), shared->tag);
            return true;
        }
    }
    return false;
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
        uint64_t age = shared->key == NULL ? 0 : shared->made_ms;
        oldest = age < (oldest->key == NULL ? 0 : oldest->made_ms) ? shared : oldest;
    }
    return oldest;
}

struct MHD_Response *shared_keep(struct http_request *request, char *text, size_t size,
                                 const char *tag)
{
    struct key key;
    struct api *api = request->api;
    if (size < SHARED_SIZE_MIN || !key_of(request, &key)) {
        return NULL;
    }
    if (api->shared == NULL) {
        api->shared = mem_alloc(SHARED_MAX, sizeof(api->shared[0]));
    }
    struct shared *shared = place(api, key.text);
    drop(shared);
    shared->key = mem_strdup(key.text);
    shared->text = mem_alloc(1, sizeof(*shared->text));
    *shared->text = (struct shared_text){.uses = 1, .size = size, .text = text};
    (void)text_copy(shared->tag, sizeof(shared->tag), tag); /* same size */
    shared->records = request->records;
    shared->made_ms = request->made_ms;
    return response_of(shared->text);
}

void shared_tick(struct api *api)
{
    const uint64_t now_ms = loop_now_ms();
    for (uint32_t i = 0; api->shared != NULL && i < SHARED_MAX; i++) {
        if (now_ms - api->shared[i].made_ms >= SHARED_MS) {
            drop(&api->shared[i]);
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
