// Findings of a step (sums, flag) that are not cleared before the next step.

#include <cstddef>

#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

using cuda::DeviceStep;
using cuda::device::StepFound;

class WrongClear : public DeviceStep {
 public:
  using DeviceStep::DeviceStep;

 protected:
  /// Bytes of the findings, from one member to another.
  static void clear(StepFound* found, std::size_t begin, std::size_t end) {
    cuda::device_space().fill(reinterpret_cast<std::byte*>(found) + begin, 0,
                              static_cast<std::int64_t>(end - begin));
  }
  void begin(StepFound* found) {
    measurement_ = found;
    num_measured_ = 0;
  }
};

/// The sums are cleared only when a state is loaded.
class SumsKept final : public WrongClear {
  using WrongClear::WrongClear;
  void begin_measurement(StepFound* found) override {
    begin(found);
    clear(found, offsetof(StepFound, amax), sizeof(StepFound));
  }
};

/// The flag is cleared only when a state is loaded.
class FlagKept final : public WrongClear {
  using WrongClear::WrongClear;
  void begin_measurement(StepFound* found) override {
    begin(found);
    clear(found, 0, offsetof(StepFound, found_inf));
    clear(found, offsetof(StepFound, digest), sizeof(StepFound));
  }
};

}  // namespace

MakeDeviceStep wrong_record(std::string_view fault, const FaultContext& context) {
  constexpr DeviceStepRow rows[] = {{"sums-not-cleared", device_step_of<SumsKept>},
                                    {"flag-not-cleared", device_step_of<FlagKept>}};
  return step_in(rows, fault, context);
}

}  // namespace zeroproof::verification
