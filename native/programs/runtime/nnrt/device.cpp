// OH_NNDevice_*: the devices that the environment lends us (devices.h).
#include <vector>

#include "graph.hpp"
#include "ohforge_reference.h"

const char *ohforge_reference_nnrt(void) { return "ohforge reference runtime 1 for NNRt"; }

OH_NN_ReturnCode OH_NNDevice_GetAllDevicesID(const size_t **ids, uint32_t *count) {
    static std::vector<size_t> known;
    if (!ids || *ids || !count) return OH_NN_INVALID_PARAMETER;
    known.clear();
    for (size_t i = 0; i < reference_device_count(); i++) known.push_back(reference_device(i)->id);
    *count = static_cast<uint32_t>(known.size());
    if (known.empty())
        reference_note("nnrt got no device"); // Success all the same, as with the real runtime.
    else
        *ids = known.data();
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNDevice_GetName(size_t id, const char **name) {
    if (!name || *name) return OH_NN_INVALID_PARAMETER;
    const ReferenceDevice *device = reference_device_by_id(id);
    if (!device) return OH_NN_FAILED;
    *name = device->name;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNDevice_GetType(size_t id, OH_NN_DeviceType *type) {
    const ReferenceDevice *device = reference_device_by_id(id);
    if (!device || !type) return OH_NN_INVALID_PARAMETER;
    *type = static_cast<OH_NN_DeviceType>(device->type);
    return OH_NN_SUCCESS;
}
