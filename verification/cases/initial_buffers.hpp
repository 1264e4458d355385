#pragma once
// The state before the first step: five times the size of the model, created at the first use.

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {

class InitialBuffers {
 public:
  struct Values {
    std::vector<float> master;          // [padded_numel]
    PerSlot<std::vector<float>> slots;  // [padded_numel]
  };

  /// init fills the parameters of master. The first caller creates the buffers, concurrent callers
  /// wait. Exceptions of init are passed on.
  const Values& get(const FlatLayout& layout, const RunConfig& config,
                    const std::function<void(std::vector<float>& master)>& init);

 private:
  std::once_flag made_;
  Values values_;
};

}  // namespace zeroproof::verification
