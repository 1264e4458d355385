#include "verification/faults/fault_recording.hpp"

#include <array>
#include <cmath>
#include <vector>

#include "common/io/safetensors/safetensors.hpp"
#include "verification/cli/program/temporary_file.hpp"
#include "verification/model/recorded.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t steps = 2;
constexpr std::int64_t micro_batches = 64;
constexpr std::size_t numel = 8;

std::array<float, numel> leaf(std::int64_t micro_batch) {
  std::array<float, numel> values;
  for (std::size_t i = 0; i < numel; ++i) {  // 2^-10 to 2^-9
    values[i] = std::ldexp(
        1.0F + static_cast<float>(micro_batch + 3 * static_cast<std::int64_t>(i)) / 128, -10);
  }
  const bool first = micro_batch == 0;
  const bool last = micro_batch == micro_batches - 1;
  values[3] = first ? 0x1p-6F : micro_batch == 1 ? 1.0F : 0.0F;
  values[4] = first ? 0x1p-6F : last ? 1.0F : 0.0F;
  // 63 significands of the bin that starts at 2^-29 add up to 2^29 + 32, that is 2^53 + 2^29 in units of
  // 2^-53.
  constexpr std::int64_t total = (std::int64_t{1} << 29) + 32;
  const std::int64_t significand = total / 63 + (micro_batch < total % 63 ? 1 : 0);
  values[5] = last ? 0x1p-53F : std::ldexp(static_cast<float>(significand), -29);
  return values;
}

class Recording {
 public:
  Recording() {
    std::vector<SafeTensorSpec> specs;
    const auto for_all = [](const auto& body) {
      for (std::int64_t step = 1; step <= steps; ++step) {
        for (std::int64_t j = 0; j < micro_batches; ++j)
          body(workload::gradient_name(step, j, "w"), j);
      }
    };
    for_all([&](const std::string& name, std::int64_t) {
      specs.push_back({name, SafeDType::f32, {std::int64_t{numel}}});
    });
    SafetensorsWriter writer(file_.path(), specs);
    for_all([&](const std::string& name, std::int64_t j) {
      const std::array<float, numel> values = leaf(j);
      writer.write(name, std::as_bytes(Span<const float>(values)));
    });
    writer.finish();
  }

  const std::string& path() const { return file_.path(); }

 private:
  const TemporaryFile file_{"the case of a fault reads its gradients from it"};
};

}  // namespace

std::string bins_recording() {
  static const Recording recording;
  return recording.path();
}

}  // namespace zeroproof::verification
