#pragma once
// The NCCL functions in use. Needs nccl.h, and with it CUDA headers: for nccl_*.cpp only.

#include <nccl.h>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
#define ZP_NCCL_WINDOWS 1
#endif

// clang-format off
#define ZP_NCCL_NEEDED(X) \
  X(ncclGetVersion) X(ncclGetUniqueId) X(ncclGetErrorString) X(ncclGetLastError) \
  X(ncclCommInitRankConfig) X(ncclCommGetAsyncError) X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommAbort) \
  X(ncclGroupStart) X(ncclGroupEnd) X(ncclSend) X(ncclRecv) \
  X(ncclAllGather) X(ncclBroadcast) X(ncclAllReduce) X(ncclReduceScatter) X(ncclReduce)

#ifdef ZP_NCCL_WINDOWS
#define ZP_NCCL_OPTIONAL(X) \
  X(ncclMemAlloc) X(ncclMemFree) X(ncclCommWindowRegister) X(ncclCommWindowDeregister) \
  X(ncclCommRegister) X(ncclCommDeregister)
#else
#define ZP_NCCL_OPTIONAL(X)
#endif
// clang-format on

namespace zeroproof::cuda {

/// Functions of one loaded library. Optional ones may be null.
struct NcclFunctions {
#define ZP_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  ZP_NCCL_NEEDED(ZP_NCCL_MEMBER)
  ZP_NCCL_OPTIONAL(ZP_NCCL_MEMBER)
#undef ZP_NCCL_MEMBER
};

}  // namespace zeroproof::cuda
