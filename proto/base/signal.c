/* signal.c: the words of signal.h, and how grave each advice is. */
#include "proto/base/signal.h"

#include <stdbool.h>
#include <string.h>

#define SIGNAL_TEXT(constant, word) word,
const char *const signal_label_words[] = {SIGNAL_LABEL(SIGNAL_TEXT)};
const char *const signal_advice_words[] = {SIGNAL_ADVICE(SIGNAL_TEXT)};
const char *const signal_role_words[] = {SIGNAL_ROLE(SIGNAL_TEXT)};

static const char *word_at(const char *const *words, uint32_t count, uint32_t value)
{
    return value < count ? words[value] : "?";
}

static int number_of(const char *const *words, uint32_t count, const char *word, size_t size)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strlen(words[i]) == size && memcmp(words[i], word, size) == 0) {
            return (int)i;
        }
    }
    return -1;
}

const char *signal_label_word(uint32_t label)
{
    return word_at(signal_label_words, signal_label_count, label);
}

const char *signal_advice_word(uint32_t advice)
{
    return word_at(signal_advice_words, signal_advice_count, advice);
}

const char *signal_role_word(uint32_t role)
{
    return word_at(signal_role_words, signal_role_count, role);
}

int signal_label_of(const char *word, size_t size)
{
    return number_of(signal_label_words, signal_label_count, word, size);
}

int signal_advice_of(const char *word, size_t size)
{
    return number_of(signal_advice_words, signal_advice_count, word, size);
}

int signal_role_of(const char *word, size_t size)
{
    return number_of(signal_role_words, signal_role_count, word, size);
}

static bool is_broken(uint32_t label, uint32_t advice)
{
    switch (advice) {
    case ADVICE_EVICT:
        return label == LABEL_HARDWARE;
    case ADVICE_EVICT_RESET:
    case ADVICE_EVICT_REBOOT:
    case ADVICE_EVICT_RMA:
        return label == LABEL_HARDWARE || label == LABEL_SOFTWARE;
    default:
        return false;
    }
}

uint8_t signal_severity(uint32_t label, uint32_t advice, uint32_t role)
{
    if (role < ROLE_SYMPTOM || advice < ADVICE_WATCH) {
        return 0;
    }
    return role == ROLE_ROOT && is_broken(label, advice) ? 3 : 1;
}
