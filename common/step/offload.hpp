#pragma once
// Which part of a rank's state lives elsewhere than its other buffers, and where. It never changes a bit.

#include <unistd.h>

#include <cstdint>
#include <string>

#include "common/step/policy.hpp"

namespace zeroproof {

/// Master and the rule's buffers of a part of a rank's elements lie in another place, and the host updates them; every
/// rank may have settings of its own. Norm, clipping and parameters stay where they are, and unless it is asked for the
/// gradient sum.
struct Offload {
  /// Place file: how many a rank's state lies in, all of them open as long as its optimizer lives.
  static constexpr int state_files = 4;

  double fraction = 0;  ///< of the elements a rank keeps state for, 0 to 1
  OffloadOrder order = OffloadOrder::flat;
  OffloadPlace place = OffloadPlace::host;
  std::int64_t chunk_numel = std::int64_t{1}
                             << 18;  ///< elements that travel and are updated together
  bool overlap = true;               ///< the next chunk is on its way while one is updated
  std::string folder;  ///< place file: where the file lies; "": the system's temporary folder
  bool grads = false;  ///< the gradient sum of those elements lies there too, page by page

  bool on() const { return fraction > 0; }
  bool moves_grads() const { return on() && grads; }
};

/// Elements of a gradient sum in a page of memory, the least of them that can lie elsewhere.
inline std::int64_t grad_page_numel() {
  return ::sysconf(_SC_PAGESIZE) / static_cast<std::int64_t>(sizeof(float));
}

}  // namespace zeroproof
