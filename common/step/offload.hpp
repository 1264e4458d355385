#pragma once
// Offload of a part of a rank's state to other memory. It never changes a bit.

#include <unistd.h>

#include <cstdint>
#include <string>

#include "common/step/policy.hpp"

namespace zeroproof {

/// Master and the rule's buffers of a part of a rank's elements are in host memory or a file, and
/// the host updates them; every rank may have its own settings. Norm, clipping and parameters are
/// not offloaded, the gradient sum only with `grads`.
struct Offload {
  /// Place file: number of files of a rank's state, all of them open during the lifetime of its
  /// optimizer.
  static constexpr int state_files = 4;

  double fraction = 0;  ///< of the elements with state on this rank, 0 to 1
  OffloadOrder order = OffloadOrder::flat;
  OffloadPlace place = OffloadPlace::host;
  std::int64_t chunk_numel = std::int64_t{1} << 18;  ///< elements copied and updated together
  bool overlap = true;                               ///< copies the next chunk while one is updated
  std::string folder;  ///< place file: folder of the file; "": the system's temporary folder
  bool grads = false;  ///< offloads the gradient sum of those elements too, page by page

  bool on() const { return fraction > 0; }
  bool moves_grads() const { return on() && grads; }
};

/// Elements of a gradient sum in a page of memory, the unit of its offload.
inline std::int64_t grad_page_numel() {
  return ::sysconf(_SC_PAGESIZE) / static_cast<std::int64_t>(sizeof(float));
}

}  // namespace zeroproof
