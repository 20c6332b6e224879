/* fence.h: runs the site's program that cuts a node off (power, switch port), for ACTION_FENCE.
 *
 * The program gets the node's name and address as its two arguments, an empty environment but PATH,
 * /dev/null as input and our log as output; after FENCE_TIMEOUT_MS it is killed. A new controller
 * may start it again for the same node: it must bear that. Status 0 means that the node is cut off;
 * whether nothing runs there is still proven by the agents' reports, never by this. */
#ifndef KEEPSTEP_IO_FENCE_H
#define KEEPSTEP_IO_FENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum { FENCE_TIMEOUT_MS = 60000, FENCE_RUNS_MAX = 16 };

struct fence;

/* Called once for each fence_node(), possibly from within it, but never after fence_close(). */
typedef void fence_ended(void *context, uint32_t node, bool ok);

/* program: absolute path, copied. */
struct fence *fence_create(uv_loop_t *uv, const char *program, fence_ended *ended, void *context);
/* Starts the program; above FENCE_RUNS_MAX at a time it waits its turn. name and address: copied. A
 * failure to start is logged, and an end that is not ok. */
void fence_node(struct fence *fence, uint32_t node, const char *name, const char *address);
uint32_t fence_running(const struct fence *fence);
/* Kills what runs, forgets what waits; fence_free() once the uv loop has ended. Both take NULL. */
void fence_close(struct fence *fence);
struct fence *fence_free(struct fence *fence);

#endif
