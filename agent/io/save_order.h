/* save_order.h: the helper child's verbs for checkpoints, and the lines that they print: one JSON
 * object a line, which is also what a site's own reader prints for what it finds.
 *
 *   {"step": 100, "complete": true, "path": "/…", "bytes": N, "files": N, "attempt": A,
 *    "first_ms": N, "last_ms": N, "parts": ["weights", …], "hash": "32 hex digits", "note": "…"}
 *        one checkpoint; a reader of a site may leave out all but the first three; first_ms and
 *        last_ms are wall time
 *   {"done": BYTES, "total": BYTES}      how far a verification is
 *   {"ok": true, "seen": N, "note": ""}  the last line of each verb that ended
 *
 * The exit status is 0 when there is such a last line; else an errno after a sentence. */
#ifndef KEEPSTEP_AGENT_SAVE_ORDER_H
#define KEEPSTEP_AGENT_SAVE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct save_order {
    const char *verb; /* list, verify, remove */
    const char *path;
    uint64_t number;
    uint32_t number2;
    const char *text;
    const char *text2;
};

bool save_order_known(const struct save_order *order);
int save_order_run(const struct save_order *order);

#endif
