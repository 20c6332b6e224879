/* page.c: lists, one page at a time. The cursor is the place of the last item that was shown;
 * nobody but us need know that. */
#include "controller/api/http.h"
#include "proto/base/check.h"

bool http_page_begin(struct http_request *request, struct http_page *ret_page)
{
    *ret_page = (struct http_page){.items = NULL};
    if (!http_query_u64(request, "limit", HTTP_LIMIT_DEFAULT, HTTP_LIMIT_MAX, &ret_page->limit) ||
        !http_query_u64(request, "cursor", 0, UINT32_MAX, &ret_page->after)) {
        return false;
    }
    if (ret_page->limit == 0) {
        http_problem(request, 400, "invalid-request", "", "limit: 1 to %d", HTTP_LIMIT_MAX);
        return false;
    }
    ret_page->items = json_array();
    return true;
}

bool http_page_takes(struct http_page *page, uint64_t place)
{
    if (place <= page->after || page->more) {
        return false;
    }
    if (json_array_size(page->items) == page->limit) {
        page->more = true;
        return false;
    }
    page->last = place;
    return true;
}

void http_page_add(struct http_page *page, json_t *item)
{
    int failed = json_array_append_new(page->items, item);
    CHECK(failed == 0); /* every item is a whole object: show.h */
}

void http_page_answer(struct http_request *request, struct http_page *page)
{
    json_t *next = page->more ? json_sprintf("%llu", (unsigned long long)page->last) : json_null();
    json_t *answer =
        json_pack("{s:I, s:o, s:o}", "revision", (json_int_t)loop_revision(http_loop(request)),
                  "items", page->items, "next", next);
    page->items = NULL;
    http_answer(request, 200, answer);
}
