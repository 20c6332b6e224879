/* log.h: one line of log to stderr: JSON lines under a service manager, text on a terminal.
 *
 * Only the shells log; core and base never do. Logging is the one place with mutable statics.
 * log_line's trailing arguments are pairs of (const char *key, const char *value), ended by NULL:
 *     log_line(LOG_WARN, "commit-failed", "the journal could not be written, trying again",
 *              "path", path, "error", err.text, NULL);
 * Values of keys that look secret (KEY, TOKEN, SECRET, PASSWORD in any case) print as ***. */
#ifndef KEEPSTEP_BASE_LOG_H
#define KEEPSTEP_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* program: borrowed for ever. Format: JSON unless stderr is a terminal; KEEPSTEP_LOG is not read.
 */
void log_init(const char *program, enum log_level level);
void log_format_json(bool json);
void log_line(enum log_level level, const char *event, const char *message, ...)
    __attribute__((sentinel));
/* From now on an abort is the last line of the log, a library's too, which would end us silently
 * where the system refuses it what it needs. It still ends the process by SIGABRT. */
void log_last_words(void);
/* true when an environment or configuration key names a secret */
bool log_is_secret(const char *key);

#endif
