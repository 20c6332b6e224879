/* parameters.h: which weights the model has, what they are called, and which part of each is whose.
 *
 * A table of all parameters of the whole model in one canonical order (token and position
 * embedding; per block those of enum block_parameter; gain and bias of the last norm; head), and
 * for one place in the layout where its part of each lies in its flat array of weights:
 *
 *   pipeline   stage s of P holds the blocks s x layers / P …; the first stage the embeddings
 *              too, the last one the last norm and the head
 *   tensor     COLUMNS: rank t of T holds a T-th of the columns, of each of `groups` equal groups
 *              of columns (queries, keys and values are split each on its own, by heads); ROWS: a
 *              T-th of the rows; WHOLE: every rank holds all of it, and gets the same gradient
 *   data       nothing: replicas are equal
 *
 * In the flat array the split parameters come first and the whole ones after them, each in
 * canonical order, so that "what tensor rank 0 alone counts" is one range.
 *
 * Initial values are a function of (seed, name, index in the whole parameter) alone: every layout
 * begins with the same model. Pure; the header is the only thing that a checkpoint's shards and the
 * file of final weights depend on. */
#ifndef KEEPSTEP_TRAINER_PARAMETERS_H
#define KEEPSTEP_TRAINER_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/shape.h"

enum { PARAMETER_NAME_SIZE = 40 };

enum block_parameter {
    NORM1_GAIN,
    NORM1_BIAS,
    QKV,
    QKV_BIAS,
    JOIN,
    JOIN_BIAS,
    NORM2_GAIN,
    NORM2_BIAS,
    WIDEN,
    WIDEN_BIAS,
    NARROW,
    NARROW_BIAS,
};
enum front_parameter { TOKENS, POSITIONS };
enum back_parameter { LAST_GAIN, LAST_BIAS, HEAD };
enum {
    BLOCK_PARAMETERS = NARROW_BIAS + 1,
    FRONT_PARAMETERS = POSITIONS + 1,
    BACK_PARAMETERS = HEAD + 1,
};

enum parameter_split { SPLIT_WHOLE, SPLIT_COLUMNS, SPLIT_ROWS };

struct parameter {
    char name[PARAMETER_NAME_SIZE]; /* "block3.qkv" */
    enum parameter_split split;
    size_t groups; /* of SPLIT_COLUMNS */
    /* of the whole */
    size_t whole_rows, whole_columns;
    size_t whole_offset; /* in the canonical array of all weights */
    float range;         /* initial values are uniform in +-range … */
    float constant;      /* … around this */
    /* of this place */
    bool present;
    size_t rows, columns;
    size_t offset;      /* in the flat array of this place */
    size_t row_begin;   /* of SPLIT_ROWS: the first row in the whole */
    size_t part, parts; /* of SPLIT_COLUMNS: this rank's and how many; 0 of 1 when whole */
};

struct parameters {
    struct model_shape shape;
    struct comm_layout layout;
    struct comm_layout place;
    uint32_t layer_begin, layer_count; /* blocks of this place */
    bool is_first, is_last;            /* stage of the pipeline */
    size_t count;                      /* of the whole model's table */
    struct parameter *list;            /* owned; in canonical order */
    size_t split_elements;             /* of the flat array: those of split parameters, first … */
    size_t elements;                   /* … and all */
};

/* The shape fits the layout (shape_check). -ENOMEM. Freed with parameters_done. */
MUST_CHECK int parameters_init(struct parameters *parameters, const struct model_shape *shape,
                               const struct comm_layout *layout, const struct comm_layout *place);
void parameters_done(struct parameters *parameters); /* takes one of zeros */

/* One parameter; in a block: layer counted over the whole model. Borrowed. */
const struct parameter *parameters_front(const struct parameters *parameters,
                                         enum front_parameter which);
const struct parameter *parameters_block(const struct parameters *parameters, uint32_t layer,
                                         enum block_parameter which);
const struct parameter *parameters_back(const struct parameters *parameters,
                                        enum back_parameter which);

/* Weights of the whole model. */
size_t parameters_whole_elements(const struct parameters *parameters);
/* Index in the whole parameter, row-major, of element (row, column) of this place's part. */
size_t parameter_whole_index(const struct parameter *parameter, size_t row, size_t column);

/* Fills the flat array (`elements` floats, host memory) with the initial values. */
void parameters_draw(const struct parameters *parameters, uint64_t seed, float *flat);
/* Copies what this place holds from its flat array to where it belongs in the canonical array of
 * all weights. Both are host memory. */
void parameters_place(const struct parameters *parameters, const float *flat, float *whole);

#endif
