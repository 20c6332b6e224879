/* fence.h: runs the site's program that cuts a node off (power, switch port), for ACTION_FENCE.
 *
 * The program gets the node's name and address as its two arguments, an empty environment but PATH,
 * /dev/null as input and our log as output; after FENCE_TIMEOUT_MS it is killed. Its exit status is
 * logged. Whether the node is really gone is still proven by the agents' reports, never by this. */
#ifndef KEEPSTEP_IO_FENCE_H
#define KEEPSTEP_IO_FENCE_H

#include <stdint.h>
#include <uv.h>

enum { FENCE_TIMEOUT_MS = 60000, FENCE_RUNS_MAX = 16 };

struct fence;

/* program: absolute path, copied. */
struct fence *fence_create(uv_loop_t *uv, const char *program);
/* Starts the program; a failure to start is logged and nothing more: the core asks again. Above
 * FENCE_RUNS_MAX at a time it is refused in the same way. */
void fence_node(struct fence *fence, const char *node, const char *address);
uint32_t fence_running(const struct fence *fence);
/* Kills what runs; fence_free() once the uv loop has ended. Both take NULL. */
void fence_close(struct fence *fence);
struct fence *fence_free(struct fence *fence);

#endif
