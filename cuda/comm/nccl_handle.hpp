#pragma once
// One NCCL communicator. Needs nccl.h: for nccl_*.cpp only.

#include <chrono>
#include <string>

#include "cuda/comm/nccl_functions.hpp"

namespace zeroproof::cuda {

/// Owns a nonblocking ncclComm_t: long operations are started and polled until they end or a time
/// limit has passed. One host thread at a time.
class NcclHandle {
 public:
  using Limit = std::chrono::milliseconds;

  NcclHandle(const NcclFunctions& nccl, std::string name);
  ~NcclHandle() { abort(); }
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Starts to create it, on the device of this host thread. Returns whether it was created within
  /// the limit. Errors: unavailable if the cause is a device, two ranks on one device or the
  /// system, else comm.
  bool connect(int world_size, int rank, const ncclUniqueId& id, Limit limit);

  /// For a call that returned `result`: whether it was enqueued within the limit. `what` names the
  /// call. Errors: comm with NCCL's message.
  bool settle(ncclResult_t result, const std::string& what, Limit limit);

  /// Errors: comm if NCCL has reported one since; `during` names the wait.
  void poll(const std::string& during);

  /// Ends its work on this rank's device and releases it. No effect the second time.
  void abort() noexcept;

  /// Releases it together with all other ranks, when no work is enqueued. False if they did not
  /// within the limit.
  bool close(Limit limit) noexcept;

  bool alive() const { return comm_ != nullptr; }
  ncclComm_t comm() const { return comm_; }
  const NcclFunctions& nccl() const { return nccl_; }
  const std::string& name() const { return name_; }

 private:
  ncclResult_t wait(ncclResult_t result, Limit limit);

  const NcclFunctions& nccl_;
  std::string name_;
  ncclComm_t comm_ = nullptr;
};

/// "NCCL says: remote process exited or there was a network error", with NCCL's details. comm may
/// be null.
std::string nccl_says(const NcclFunctions& nccl, ncclResult_t result, ncclComm_t comm);

/// A communicator with an NcclHandle.
class NcclMember {
 public:
  virtual ~NcclMember() = default;
  virtual NcclHandle& nccl_handle() = 0;

  /// For a collective call that is enqueued on no stream and returned `result`: waits until it has
  /// ended on this rank. Errors: comm with NCCL's message; the cause if it did not end within the
  /// limit. The communicator is broken then.
  virtual void settle(ncclResult_t result, const std::string& what) = 0;
};

}  // namespace zeroproof::cuda
