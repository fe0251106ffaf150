/* Layer and RMS norms, and their gradients: over the dimensions in which the scale is not 1, for
 * each index of the others. See dnn.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/dnn.h"

bool dnn_norm_split(const DnnTensor *x, const DnnTensor *scale, int64_t *rows,
                    int64_t *columns)
{
    bool inside = false, in_order = true;
    *rows = *columns = 1;
    for (uint32_t d = 0; d < x->rank; d++) {
        bool is_column = scale->dims[d] != 1;
        in_order = in_order && (is_column || !inside || x->dims[d] == 1);
        inside = inside || is_column;
        *(is_column ? columns : rows) *= x->dims[d];
    }
    return in_order;
}

bool dnn_norm(DnnRun *run, const DnnNode *n)
{
    const double *x = dnn_input(run, n, DNN_X), *scale = dnn_input(run, n, DNN_SCALE);
    const double *bias = dnn_input(run, n, DNN_BIAS);
    double epsilon = *dnn_input(run, n, DNN_T);
    double *y = dnn_output(run, n, DNN_Y), *mean = dnn_output(run, n, DNN_MEAN);
    double *deviation = dnn_output(run, n, DNN_DEVIATION);
    int64_t rows, columns;
    dnn_norm_split(dnn_tensor(run, n, DNN_X), dnn_tensor(run, n, DNN_SCALE), &rows,
                   &columns);
    for (int64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double sum = 0, squares = 0;
        for (int64_t c = 0; c < columns; c++)
            sum += x[c];
        double middle = n->mode == CUDNN_RMS_NORM ? 0 : sum / (double)columns;
        for (int64_t c = 0; c < columns; c++)
            squares += (x[c] - middle) * (x[c] - middle);
        double inverse = 1 / sqrt(squares / (double)columns + epsilon);
        for (int64_t c = 0; c < columns; c++)
            y[c] = (x[c] - middle) * inverse * scale[c] + (bias != NULL ? bias[c] : 0);
        if (mean != NULL)
            mean[r] = middle;
        if (deviation != NULL)
            deviation[r] = inverse;
    }
    return true;
}

bool dnn_norm_gradient(DnnRun *run, const DnnNode *n)
{
    const double *x = dnn_input(run, n, DNN_X), *dy = dnn_input(run, n, DNN_T);
    const double *scale = dnn_input(run, n, DNN_SCALE),
                 *mean = dnn_input(run, n, DNN_MEAN);
    const double *deviation = dnn_input(run, n, DNN_DEVIATION);
    double *dx = dnn_output(run, n, DNN_Y), *dscale = dnn_output(run, n, DNN_B);
    double *dbias = dnn_output(run, n, DNN_BIAS);
    int64_t rows, columns;
    dnn_norm_split(dnn_tensor(run, n, DNN_X), dnn_tensor(run, n, DNN_SCALE), &rows,
                   &columns);
    memset(dscale, 0, (size_t)columns * sizeof *dscale);
    if (dbias != NULL)
        memset(dbias, 0, (size_t)columns * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++, x += columns, dy += columns, dx += columns) {
        double middle = mean != NULL ? mean[r] : 0, inverse = deviation[r];
        double sum = 0, product = 0; /* of g = dy * scale, and of g with x normalised */
        for (int64_t c = 0; c < columns; c++) {
            double normal = (x[c] - middle) * inverse;
            sum += dy[c] * scale[c];
            product += dy[c] * scale[c] * normal;
            dscale[c] += dy[c] * normal;
            if (dbias != NULL)
                dbias[c] += dy[c];
        }
        sum = n->mode == CUDNN_RMS_NORM ? 0 : sum / (double)columns;
        product /= (double)columns;
        for (int64_t c = 0; c < columns; c++) {
            double normal = (x[c] - middle) * inverse;
            dx[c] = inverse * (dy[c] * scale[c] - sum - normal * product);
        }
    }
    return true;
}
