// OH_NNTensorDesc_* and OH_NNTensor_* (API level 11).
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "graph.hpp"

using namespace reference;

NN_Tensor::~NN_Tensor() {
    if (mapped) munmap(data - offset, mapped);
}

#if OHFORGE_API_LEVEL >= 11

static constexpr size_t largest_tensor = size_t{1} << 30;

NN_TensorDesc *OH_NNTensorDesc_Create(void) { return new (std::nothrow) NN_TensorDesc; }

OH_NN_ReturnCode OH_NNTensorDesc_Destroy(NN_TensorDesc **description) {
    if (!description || !*description) return OH_NN_INVALID_PARAMETER;
    delete *description;
    *description = nullptr;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_SetName(NN_TensorDesc *description, const char *name) {
    if (!description || !name) return OH_NN_INVALID_PARAMETER;
    description->description.name = name;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_GetName(const NN_TensorDesc *description, const char **name) {
    if (!description || !name || *name) return OH_NN_INVALID_PARAMETER;
    *name = description->description.name.c_str();
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_SetDataType(NN_TensorDesc *description, OH_NN_DataType type) {
    if (!description || type < OH_NN_UNKNOWN || type > OH_NN_FLOAT64) return OH_NN_INVALID_PARAMETER;
    description->description.type = type;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_GetDataType(const NN_TensorDesc *description, OH_NN_DataType *type) {
    if (!description || !type) return OH_NN_INVALID_PARAMETER;
    *type = description->description.type;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_SetShape(NN_TensorDesc *description, const int32_t *shape, size_t length) {
    if (!description || !shape || length == 0 || !valid_shape(shape, length)) return OH_NN_INVALID_PARAMETER;
    description->description.shape.assign(shape, shape + length);
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_GetShape(const NN_TensorDesc *description, int32_t **shape, size_t *length) {
    if (!description || !shape || *shape || !length) return OH_NN_INVALID_PARAMETER;
    *shape = const_cast<int32_t *>(description->description.shape.data());
    *length = description->description.shape.size();
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_SetFormat(NN_TensorDesc *description, OH_NN_Format format) {
    if (!description || format < OH_NN_FORMAT_NONE || format > OH_NN_FORMAT_ND) return OH_NN_INVALID_PARAMETER;
    description->description.format = format;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensorDesc_GetFormat(const NN_TensorDesc *description, OH_NN_Format *format) {
    if (!description || !format) return OH_NN_INVALID_PARAMETER;
    *format = description->description.format;
    return OH_NN_SUCCESS;
}

// Open dimensions: DYNAMIC_SHAPE and 0 cells, but success and 0 bytes.
OH_NN_ReturnCode OH_NNTensorDesc_GetElementCount(const NN_TensorDesc *description, size_t *count) {
    if (!description || !count || description->description.shape.empty()) return OH_NN_INVALID_PARAMETER;
    std::optional<size_t> cells = description->description.cells();
    *count = cells.value_or(0);
    return cells ? OH_NN_SUCCESS : OH_NN_DYNAMIC_SHAPE;
}

OH_NN_ReturnCode OH_NNTensorDesc_GetByteSize(const NN_TensorDesc *description, size_t *bytes) {
    if (!description || !bytes || description->description.shape.empty()) return OH_NN_INVALID_PARAMETER;
    *bytes = description->description.bytes().value_or(0);
    return OH_NN_SUCCESS;
}

static NN_Tensor *make_tensor(size_t device, const NN_TensorDesc *description, size_t size) {
    if (!description || !reference_device_by_id(device)) return nullptr;
    std::optional<size_t> bytes = description->description.bytes();
    if (description->description.shape.empty() || !bytes || *bytes == 0 || size < *bytes || size > largest_tensor)
        return nullptr;
    NN_Tensor *tensor = new (std::nothrow) NN_Tensor;
    if (!tensor) return nullptr;
    tensor->description = *description;
    tensor->size = size;
    return tensor;
}

NN_Tensor *OH_NNTensor_CreateWithSize(size_t device, NN_TensorDesc *description, size_t size) {
    NN_Tensor *tensor = make_tensor(device, description, size);
    if (!tensor) return nullptr;
    tensor->memory.resize(size);
    tensor->data = tensor->memory.data();
    return tensor;
}

NN_Tensor *OH_NNTensor_Create(size_t device, NN_TensorDesc *description) {
    std::optional<size_t> bytes = description ? description->description.bytes() : std::nullopt;
    return bytes ? OH_NNTensor_CreateWithSize(device, description, *bytes) : nullptr;
}

NN_Tensor *OH_NNTensor_CreateWithFd(size_t device, NN_TensorDesc *description, int fd, size_t size, size_t offset) {
    if (fd < 0 || offset >= size) return nullptr;
    NN_Tensor *tensor = make_tensor(device, description, size);
    if (!tensor) return nullptr;
    std::optional<size_t> bytes = description->description.bytes();
    void *memory = size - offset < *bytes ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        delete tensor;
        return nullptr;
    }
    tensor->data = static_cast<uint8_t *>(memory) + offset;
    tensor->mapped = size, tensor->offset = offset, tensor->fd = fd;
    return tensor;
}

OH_NN_ReturnCode OH_NNTensor_Destroy(NN_Tensor **tensor) {
    if (!tensor || !*tensor) return OH_NN_INVALID_PARAMETER;
    delete *tensor;
    *tensor = nullptr;
    return OH_NN_SUCCESS;
}

NN_TensorDesc *OH_NNTensor_GetTensorDesc(const NN_Tensor *tensor) {
    return tensor ? const_cast<NN_TensorDesc *>(&tensor->description) : nullptr;
}

void *OH_NNTensor_GetDataBuffer(const NN_Tensor *tensor) { return tensor ? tensor->data : nullptr; }

// Plain memory has no file; the real runtime's tensors always have one, of shared memory.
OH_NN_ReturnCode OH_NNTensor_GetFd(const NN_Tensor *tensor, int *fd) {
    if (!tensor || !fd) return OH_NN_INVALID_PARAMETER;
    *fd = tensor->fd;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensor_GetSize(const NN_Tensor *tensor, size_t *size) {
    if (!tensor || !size) return OH_NN_INVALID_PARAMETER;
    *size = tensor->size;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNTensor_GetOffset(const NN_Tensor *tensor, size_t *offset) {
    if (!tensor || !offset) return OH_NN_INVALID_PARAMETER;
    *offset = tensor->offset;
    return OH_NN_SUCCESS;
}

#endif
