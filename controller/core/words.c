/* words.c: the word tables of words.h. */
#include "controller/core/words.h"

#define WORDS_TEXT(constant, word) word,
#define X(name, list)              const char *const name##_words[] = {list(WORDS_TEXT)};
WORD_SETS(X)
#undef X

const char *word_of(const char *const *words, uint32_t count, uint32_t value)
{
    return value < count ? words[value] : "?";
}
