#pragma once
// One communicator of NCCL's. It needs nccl.h: for nccl_*.cpp only.

#include <chrono>
#include <string>

#include "cuda/comm/nccl_functions.hpp"

namespace zeroproof::cuda {

/// Owns an ncclComm_t that was made not to block: whatever may take long is begun, and looked at until it has ended or
/// a time limit has. One host thread at a time.
class NcclHandle {
 public:
  using Limit = std::chrono::milliseconds;

  NcclHandle(const NcclFunctions& nccl, std::string name);
  ~NcclHandle() { abort(); }
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Begins to make it, on the device of this host thread. Returns whether it was made within the limit.
  /// Errors: unavailable if a device, two ranks on one or the system is to blame, else comm.
  bool connect(int world_size, int rank, const ncclUniqueId& id, Limit limit);

  /// For a call that returned `result`: whether it has been enqueued within the limit. `what` says which one it was.
  /// Errors: comm with what NCCL says.
  bool settle(ncclResult_t result, const std::string& what, Limit limit);

  /// Errors: comm if NCCL has come upon one since; `during` is what is waited for.
  void look(const std::string& during);

  /// Ends what it was given, on this rank's device, and lets go of it. Nothing happens the second time.
  void abort() noexcept;

  /// Lets go of it when all ranks do, who have nothing enqueued any more. False if they did not within the limit.
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

/// "NCCL says: remote process exited or there was a network error", with the details that it has. comm may be null.
std::string nccl_says(const NcclFunctions& nccl, ncclResult_t result, ncclComm_t comm);

/// A communicator that has one.
class NcclMember {
 public:
  virtual ~NcclMember() = default;
  virtual NcclHandle& nccl_handle() = 0;

  /// For a collective call that is enqueued nowhere and returned `result`: until it has ended on this rank.
  /// Errors: comm with what NCCL says; why it did not end within the limit. The communicator is broken then.
  virtual void settle(ncclResult_t result, const std::string& what) = 0;
};

}  // namespace zeroproof::cuda
