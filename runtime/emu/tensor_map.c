/* Tensor maps: the 128 bytes hold what the encoder was given, for the emulated TMA operations
 * to read. */
#include <string.h>

#include "runtime/emu/context.h"

enum { TENSOR_MOST_RANK = 5 };

typedef struct TensorMap {
    uint64_t address;
    uint64_t sizes[TENSOR_MOST_RANK];       /* elements, innermost first */
    uint64_t strides[TENSOR_MOST_RANK - 1]; /* bytes, of dimensions 1 and up */
    uint32_t box[TENSOR_MOST_RANK];
    uint8_t data_type, rank, interleave, swizzle, oob_fill;
    uint8_t element_strides[TENSOR_MOST_RANK];
} TensorMap;

_Static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap), "a tensor map has 128 bytes");

CUresult cuTensorMapEncodeTiled(CUtensorMap *out, int data_type, cuuint32_t rank,
                                void *address, const cuuint64_t *sizes,
                                const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, int interleave,
                                int swizzle, int l2_promotion, int oob_fill)
{
    TensorMap m = {.address = (uintptr_t)address};
    (void)l2_promotion;
    CUresult r = emu_enter("cuTensorMapEncodeTiled", NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || rank == 0 || rank > TENSOR_MOST_RANK || m.address % 16 != 0 ||
        sizes == NULL || box == NULL || element_strides == NULL ||
        (strides == NULL && rank > 1))
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "a tensor map of rank %u at 0x%llx cannot be encoded", rank,
                          (unsigned long long)m.address);
    for (cuuint32_t i = 0; i < rank; i++) {
        bool bad_stride =
            i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >> 40 != 0);
        if (sizes[i] == 0 || sizes[i] > UINT64_C(1) << 32 || box[i] == 0 ||
            box[i] > 256 || element_strides[i] == 0 || element_strides[i] > 8 ||
            bad_stride)
            return emu_refuse(
                CUDA_ERROR_INVALID_VALUE,
                "dimension %u of a tensor map: size %llu, box %u, element stride "
                "%u%s",
                i, (unsigned long long)sizes[i], box[i], element_strides[i],
                bad_stride ? ", a stride that is no multiple of 16" : "");
        m.sizes[i] = sizes[i];
        m.box[i] = box[i];
        m.element_strides[i] = (uint8_t)element_strides[i];
        if (i > 0)
            m.strides[i - 1] = strides[i - 1];
    }
    m.data_type = (uint8_t)data_type;
    m.rank = (uint8_t)rank;
    m.interleave = (uint8_t)interleave;
    m.swizzle = (uint8_t)swizzle;
    m.oob_fill = (uint8_t)oob_fill;
    memset(out, 0, sizeof *out);
    memcpy(out, &m, sizeof m);
    return CUDA_SUCCESS;
}
