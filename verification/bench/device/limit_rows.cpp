#include "cuda/device/runtime/memory.hpp"
#include "verification/bench/device/suite.hpp"

namespace zeroproof::verification::bench {

void add_limit_rows(DeviceRows& rows, const KernelData& data) {
  const std::int64_t numel = data.numel();
  const auto add = [&](const std::string& shape, const std::string& form, double num_bytes, auto body) {
    Row row{"limit " + shape + form, num_bytes, numel, {}};
    row.shape = shape;
    rows.add(std::move(row), [body] { return device_seconds(body); });
  };
  for (const int unroll : unrolls) {
    const std::string form = " x" + std::to_string(unroll);
    add("R", form, 4, [&data, numel, unroll] { enqueue_read_loop(unroll, data.grad(), numel, data.sink()); });
    add("RW", form, 8,
        [&data, numel, unroll] { enqueue_copy_loop(unroll, data.grad(), data.scratch(), numel); });
    add("4R3W+W2", form, 30, [&data, numel, unroll] { enqueue_step_loop(unroll, data.access(), numel); });
    for (const int count : {1, 2, 4, 8}) {
      if (count > data.num_leaves()) continue;
      const std::string shape = count == 1 ? "R2W4" : std::to_string(count) + "xR2W4";
      add(shape, form, 2.0 * count + 4, [&data, numel, unroll, count] {
        enqueue_fold_loop(unroll, data.leaves(count), data.scratch(), numel);
      });
    }
  }
  add("RW", " copy of the runtime", 8,
      [&data, numel] { cuda::device::enqueue_on_device(data.scratch(), data.grad(), 4 * numel); });
}

}  // namespace zeroproof::verification::bench
