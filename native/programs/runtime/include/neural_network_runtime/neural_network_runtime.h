/* Models, quantisation, and the executor calls of API level 9 of the NNRt C API: our own declarations of its ABI.
 *
 * The calls under "deprecated" are still there from API level 11 on. */
#ifndef OHFORGE_NEURAL_NETWORK_RUNTIME_H
#define OHFORGE_NEURAL_NETWORK_RUNTIME_H

#include "neural_network_runtime/neural_network_core.h"

#ifdef __cplusplus
extern "C" {
#endif

NNRT_API OH_NNModel *OH_NNModel_Construct(void);
NNRT_API OH_NN_ReturnCode OH_NNModel_Finish(OH_NNModel *model);
NNRT_API void OH_NNModel_Destroy(OH_NNModel **model);
NNRT_API OH_NN_ReturnCode OH_NNModel_AddTensor(OH_NNModel *model, const OH_NN_Tensor *tensor);
NNRT_API OH_NN_ReturnCode OH_NNModel_SetTensorData(OH_NNModel *model, uint32_t index, const void *dataBuffer,
                                                   size_t length);
NNRT_API OH_NN_ReturnCode OH_NNModel_AddOperation(OH_NNModel *model, OH_NN_OperationType op,
                                                  const OH_NN_UInt32Array *paramIndices,
                                                  const OH_NN_UInt32Array *inputIndices,
                                                  const OH_NN_UInt32Array *outputIndices);
NNRT_API OH_NN_ReturnCode OH_NNModel_SpecifyInputsAndOutputs(OH_NNModel *model, const OH_NN_UInt32Array *inputIndices,
                                                             const OH_NN_UInt32Array *outputIndices);
NNRT_API OH_NN_ReturnCode OH_NNModel_GetAvailableOperations(OH_NNModel *model, size_t deviceID,
                                                            const bool **isSupported, uint32_t *opCount);

/* deprecated from API level 11 on */
NNRT_API OH_NN_ReturnCode OH_NNExecutor_SetInput(OH_NNExecutor *executor, uint32_t inputIndex,
                                                 const OH_NN_Tensor *tensor, const void *dataBuffer, size_t length);
NNRT_API OH_NN_ReturnCode OH_NNExecutor_SetOutput(OH_NNExecutor *executor, uint32_t outputIndex, void *dataBuffer,
                                                  size_t length);
NNRT_API OH_NN_ReturnCode OH_NNExecutor_Run(OH_NNExecutor *executor);
NNRT_API OH_NN_Memory *OH_NNExecutor_AllocateInputMemory(OH_NNExecutor *executor, uint32_t inputIndex, size_t length);
NNRT_API OH_NN_Memory *OH_NNExecutor_AllocateOutputMemory(OH_NNExecutor *executor, uint32_t outputIndex, size_t length);
NNRT_API void OH_NNExecutor_DestroyInputMemory(OH_NNExecutor *executor, uint32_t inputIndex, OH_NN_Memory **memory);
NNRT_API void OH_NNExecutor_DestroyOutputMemory(OH_NNExecutor *executor, uint32_t outputIndex, OH_NN_Memory **memory);
NNRT_API OH_NN_ReturnCode OH_NNExecutor_SetInputWithMemory(OH_NNExecutor *executor, uint32_t inputIndex,
                                                           const OH_NN_Tensor *tensor, const OH_NN_Memory *memory);
NNRT_API OH_NN_ReturnCode OH_NNExecutor_SetOutputWithMemory(OH_NNExecutor *executor, uint32_t outputIndex,
                                                            const OH_NN_Memory *memory);

#if OHFORGE_API_LEVEL >= 11
NNRT_API NN_QuantParam *OH_NNQuantParam_Create(void);
NNRT_API OH_NN_ReturnCode OH_NNQuantParam_Destroy(NN_QuantParam **quantParams);
NNRT_API OH_NN_ReturnCode OH_NNQuantParam_SetScales(NN_QuantParam *quantParams, const double *scales,
                                                    size_t quantCount);
NNRT_API OH_NN_ReturnCode OH_NNQuantParam_SetZeroPoints(NN_QuantParam *quantParams, const int32_t *zeroPoints,
                                                        size_t quantCount);
NNRT_API OH_NN_ReturnCode OH_NNQuantParam_SetNumBits(NN_QuantParam *quantParams, const uint32_t *numBits,
                                                     size_t quantCount);
NNRT_API OH_NN_ReturnCode OH_NNModel_AddTensorToModel(OH_NNModel *model, const NN_TensorDesc *tensorDesc);
NNRT_API OH_NN_ReturnCode OH_NNModel_SetTensorQuantParams(OH_NNModel *model, uint32_t index, NN_QuantParam *quantParam);
NNRT_API OH_NN_ReturnCode OH_NNModel_SetTensorType(OH_NNModel *model, uint32_t index, OH_NN_TensorType tensorType);
#endif

#ifdef __cplusplus
}
#endif
#endif
