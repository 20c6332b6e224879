/* check.h: assertions that stay on in release builds.
 *
 * CHECK is for our own mistakes only; what a peer, an operator or a disk does wrong is an error.
 * The handler prints "file:line: function: condition" to stderr and aborts. Pure rooms may use it:
 * it is the one symbol of theirs that ends the process. */
#ifndef KEEPSTEP_BASE_CHECK_H
#define KEEPSTEP_BASE_CHECK_H

__attribute__((noreturn, cold)) void check_failed(const char *condition, const char *file, int line,
                                                  const char *function);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_failed(#condition, __FILE__, __LINE__, __func__);                                \
        }                                                                                          \
    } while (0)

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
