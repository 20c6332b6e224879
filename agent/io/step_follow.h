/* step_follow.h: the helper's verb `follow`: reads what the ranks of an attempt print while they
 * print it, and says the steps. See step_watch.h for the other end.
 *
 *   follow PATHS 0 0 PATTERN USED
 *       PATHS    the ranks' outputs in their order, a line each; one that stands there twice is
 *                read once, for the first of them
 *       PATTERN  proto/base/step_pattern.h
 *       USED     whose processor time is asked for: the folder of a cgroup, or the numbers of the
 *                sessions that the ranks lead, with commas; "" = nobody's
 *
 *   step L S AGE   local rank L has printed step S, AGE ms ago as far as its file's time tells
 *   used MS        processor time of them all since they began; missing where it cannot be read
 *   still          none of both was due for FOLLOW_STILL_MS
 *
 * While one of the outputs cannot be read it says nothing but steps: silence means "not seen".
 *
 * It is a process of its own, with the rights of the job's user and a limit of memory, since all
 * three are needed: paths of a job are opened, a file system may hang, and a user's pattern is run
 * over what a user's program prints. Whatever comes of it, the agent loses a child. It never ends
 * by itself but for an error: one sentence, and an errno as its exit status. */
#ifndef KEEPSTEP_AGENT_STEP_FOLLOW_H
#define KEEPSTEP_AGENT_STEP_FOLLOW_H

enum {
    FOLLOW_PAUSE_MS = 200, /* at least, between two looks */
    FOLLOW_LOOK_MS = 1000, /* at most: a file system may not tell of changes */
    FOLLOW_STILL_MS = 5000,
    FOLLOW_USED_MS = 5000,      /* between two looks at processor time */
    FOLLOW_FILE_MAX = 64 << 10, /* read of a file at a time: of more, the end */
};

int step_follow(const char *paths, const char *pattern, const char *used);

#endif
