#pragma once
// Leaf gradients that are the same on every rank, stage and run: a function of the leaf's number and the element.

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/base/philox.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

/// Values of leaf `unit`, in units of 2^-10 where they are meant to add up exactly.
inline float leaf_value(std::int64_t unit, std::int64_t index, bool exact = false) {
  const Philox philox(7, 3, static_cast<std::uint32_t>(unit));
  const float x = philox.bell(static_cast<std::uint64_t>(index));
  if (exact) return static_cast<float>(static_cast<int>(x * 64.0F)) / 1024.0F;
  return index % 11 == 3 ? x * 1000.0F : x;
}

/// Leaves by number: leaf u is what value(u, global index) says, rounded to the dtype; padding is NaN.
class NumberedLeaves : public LeafSource {
 public:
  using Value = std::function<float(std::int64_t unit, std::int64_t index)>;

  NumberedLeaves(const FlatLayout& layout, DType dtype, Value value = {})
      : layout_(layout),
        value_(value ? std::move(value) : [](std::int64_t u, std::int64_t i) { return leaf_value(u, i); }),
        buffer_(layout.padded_numel(), dtype) {}

  TensorView leaf(std::int64_t micro_batch) override {
    asked.push_back(micro_batch);
    buffer_.poison();
    for (const TensorSlot& slot : layout_.tensors()) {
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
        store(static_cast<std::size_t>(i), value_(unit_of(micro_batch), i));
      }
    }
    if (micro_batch == infinite_in && layout_.numel() > 0) {
      store(static_cast<std::size_t>(layout_.tensors().front().begin),
            std::numeric_limits<float>::infinity());
    }
    return buffer_.view();
  }
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    // Every CP rank knows the tokens of the whole micro-batch; one rank alone must count each once.
    if (tokens_per_part && micro_batch % parts != 0) return 0;
    return 5 + micro_batch / (tokens_per_part ? parts : 1) % 3;
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return !idle || tensor % 2 == 0 || micro_batch == 0;
  }

  std::int64_t parts = 1;  ///< parts of a micro-batch, of which this source gives number `part`
  std::int64_t part = 0;
  bool tokens_per_part = false;  ///< micro-batch numbers are numbers of parts
  bool idle = false;             ///< every other tensor has a gradient in micro-batch 0 only
  std::int64_t infinite_in = -1;
  std::vector<std::int64_t> asked;  ///< micro-batches whose leaf was asked for, in order

 private:
  std::int64_t unit_of(std::int64_t j) const { return tokens_per_part ? j : j * parts + part; }
  void store(std::size_t i, float value) {
    if (buffer_.dtype() == DType::bf16) {
      buffer_.as<bf16>()[i] = to_bf16(value);
    } else if (buffer_.dtype() == DType::fp16) {
      buffer_.as<fp16>()[i] = to_fp16(value);
    } else {
      buffer_.as<float>()[i] = value;
    }
  }

  const FlatLayout& layout_;
  Value value_;
  GuardedBuffer buffer_;
};

}  // namespace zeroproof::tests
