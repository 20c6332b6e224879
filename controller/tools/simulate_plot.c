/* simulate_plot.c: a sweep as a picture: goodput of each setting, what theory says of it, and the
 * spread over the seeds. Plain SVG, readable in print and without colour. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/tools/simulate.h"

enum { WIDTH = 720, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 60, GRID = 5 };

struct scale {
    double low;
    double high;
    uint32_t count;
};

static double x_of(const struct scale *scale, uint32_t index)
{
    double span = WIDTH - LEFT - RIGHT;
    return scale->count < 2 ? LEFT + span / 2 : LEFT + span * index / (scale->count - 1);
}

static double y_of(const struct scale *scale, double value)
{
    double span = HEIGHT - TOP - BOTTOM;
    return TOP + span * (scale->high - value) / (scale->high - scale->low);
}

static struct scale scale_of(const struct simulate_point *points, uint32_t count)
{
    struct scale scale = {.low = 1, .high = 0, .count = count};
    for (uint32_t index = 0; index < count; index++) {
        const double values[] = {points[index].least, points[index].most,
                                 points[index].form.goodput};
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            scale.low = values[i] < scale.low ? values[i] : scale.low;
            scale.high = values[i] > scale.high ? values[i] : scale.high;
        }
    }
    double margin = (scale.high - scale.low) * 0.1 + 0.001;
    scale.low = scale.low - margin > 0 ? scale.low - margin : 0;
    scale.high = scale.high + margin < 1 ? scale.high + margin : 1;
    return scale;
}

static void draw_frame(FILE *file, const struct simulate *simulate, const struct scale *scale)
{
    (void)fprintf(file,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n"
                  "<text x=\"%d\" y=\"22\" font-size=\"15\">goodput by %s (preset %s, %u runs each)"
                  "</text>\n",
                  WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, simulate->sweep.key, simulate->preset,
                  simulate->seeds);
    for (int line = 0; line <= GRID; line++) {
        double value = scale->low + (scale->high - scale->low) * line / GRID;
        double y = y_of(scale, value);
        (void)fprintf(file,
                      "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ccc\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f%%</text>\n",
                      LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, 100 * value);
    }
}

static void draw_curve(FILE *file, const struct simulate_point *points, const struct scale *scale,
                       bool theory)
{
    (void)fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"",
                  theory ? "#888" : "#06c", theory ? " stroke-dasharray=\"6 4\"" : "");
    for (uint32_t index = 0; index < scale->count; index++) {
        double value = theory ? points[index].form.goodput : points[index].goodput;
        (void)fprintf(file, "%.1f,%.1f ", x_of(scale, index), y_of(scale, value));
    }
    (void)fprintf(file, "\"/>\n");
}

static void draw_points(FILE *file, const struct simulate_point *points, const struct scale *scale)
{
    for (uint32_t index = 0; index < scale->count; index++) {
        double x = x_of(scale, index);
        (void)fprintf(file,
                      "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#06c\"/>"
                      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#06c\"/>"
                      "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                      x, x, y_of(scale, points[index].least), y_of(scale, points[index].most), x,
                      y_of(scale, points[index].goodput), x, HEIGHT - BOTTOM + 20,
                      points[index].text);
    }
    (void)fprintf(file,
                  "<text x=\"%d\" y=\"%d\">line: simulated, bars: least and most of the runs; "
                  "dashes: closed form</text>\n</svg>\n",
                  LEFT, HEIGHT - 12);
}

int simulate_plot(const struct simulate *simulate, const struct simulate_point *points,
                  struct err *err)
{
    struct scale scale = scale_of(points, simulate->sweep.count);
    FILE *file = fopen(simulate->plot, "we");
    if (file == NULL) {
        return err_set(err, -errno, "--plot %.120s cannot be written: %s", simulate->plot,
                       strerror(errno));
    }
    draw_frame(file, simulate, &scale);
    draw_curve(file, points, &scale, true);
    draw_curve(file, points, &scale, false);
    draw_points(file, points, &scale);
    bool failed = ferror(file) != 0;
    return fclose(file) != 0 || failed
               ? err_set(err, -EIO, "--plot %.120s could not be written whole", simulate->plot)
               : 0;
}
