/* nvidia_line.h: the lines in which the NVIDIA drivers report errors, taken apart. Pure.
 *
 *     NVRM: Xid (PCI:0000:3b:00): 79, pid=18211, name=python3, GPU has fallen off the bus.
 *     NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:00): 31, pid='<unknown>', name=<unknown>, …
 *     NVRM: Xid (0000:03:00): 14, Channel 00000001        NVRM: Xid (PCI:0000:3f:00): 46
 *     nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress …
 *
 * and two ways to say Xid 79 without its number. */
#ifndef KEEPSTEP_AGENT_NVIDIA_LINE_H
#define KEEPSTEP_AGENT_NVIDIA_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NVIDIA_PCI_SIZE = 20, /* "0000:3b:00.0", with the NUL */
    NVIDIA_UNIT_SIZE = 32,
    NVIDIA_PROCESS_SIZE = 32,
    NVIDIA_WORDS_MAX = 8, /* in parentheses behind 74, 136, 144-150 */
    XID_RECOVERY = 154,
    XID_OFF_THE_BUS = 79,
    NVLINK5_FIRST = 144,
    NVLINK5_LAST = 150,
};

enum nvidia_severity { NVIDIA_UNSAID, NVIDIA_NONFATAL, NVIDIA_FATAL };
enum nvidia_answer { NVIDIA_NO, NVIDIA_YES, NVIDIA_NOT_SAID };

struct nvidia_line {
    bool is_switch; /* an SXid of a switch, not an Xid of a GPU */
    bool is_detail; /* of an SXid: one of the lines that only add registers */
    bool follows;   /* said of all channels after a critical error: `code` was reported before */
    bool inferred;  /* said in words, without a number */
    uint32_t code;
    char pci[NVIDIA_PCI_SIZE];         /* of an Xid without the function digit; "" = not said */
    int64_t pid;                       /* -1: unknown or not said */
    char process[NVIDIA_PROCESS_SIZE]; /* "" = unknown or not said */
    int32_t instance;                  /* of a MIG device; -1 */
    uint32_t previous;                 /* "caused by previous Xid N"; 0 */
    const char *text;                  /* behind all of that; borrowed */
    size_t text_size;
    /* 154 */
    int32_t action_from; /* the recovery action; -1: not said */
    int32_t action_to;
    /* SXid, 144-150 */
    uint8_t severity;            /* enum nvidia_severity */
    int32_t link;                /* also of 74, 136; -1: not said */
    char unit[NVIDIA_UNIT_SIZE]; /* 144-150: "NETIR_LINK_EVT" */
    /* The first words in parentheses: 144-150 interrupt and error status and more, 74 and 136
     * the link's registers. */
    uint32_t word_count;
    uint32_t words[NVIDIA_WORDS_MAX];
    /* 94, 95; enum nvidia_answer */
    uint8_t contained;
    uint8_t reset_needed;
    uint8_t drain_needed;
    /* 13: where on the GPU; -1: not said */
    int32_t gpc;
    int32_t tpc;
    int32_t sm;
};

/* False: the line says nothing of the kind. The text may have its carrier still. */
bool nvidia_line_read(const char *text, size_t size, struct nvidia_line *ret_line);

/* Whether the 32 characters of a pattern (0, 1, - for any; the first is bit 31) fit the word. */
bool nvidia_bits_fit(const char *pattern, uint32_t word);

#endif
