#include "verification/bench/product/product_case.hpp"

#include <bit>

#include "common/base/error.hpp"
#include "verification/bench/measure/machine.hpp"

namespace zeroproof::verification::bench {
namespace {

std::int64_t padded(const ProductCase& what) {
  const std::int64_t each = (what.numel + what.tensors - 1) / what.tensors;
  return what.tensors * ((each + layout_alignment - 1) / layout_alignment * layout_alignment);
}

}  // namespace

std::string ProductCase::text() const {
  return "M = " + std::to_string(micro_batches) + ", " + std::to_string(tensors) +
         (tensors == 1 ? " tensor" : " tensors") + ", stage " + std::to_string(stage) + ", " +
         std::string(name(grad_dtype)) + " gradients" +
         (ranks == 1 ? "" : ", " + std::to_string(ranks) + " ranks") +
         (offload.on() ? ", " + std::string(name(offload.place)) + " has " + std::to_string(offload.fraction)
                       : "");
}

FlatLayout layout_of(const ProductCase& what) {
  std::vector<ParamSpec> params;
  const std::int64_t each = what.numel / what.tensors;
  for (std::int64_t i = 0; i < what.tensors; ++i) {
    const std::int64_t count = each + (i < what.numel % what.tensors ? 1 : 0);
    params.push_back({"weight" + std::to_string(i), {count}});
  }
  return FlatLayout(params);
}

double needed_bytes(const ProductCase& what) {
  const auto leaf = static_cast<double>(what.num_leaves() * num_bytes(what.grad_dtype));
  const double nodes = 4.0 * (2 + std::bit_width(static_cast<std::uint64_t>(what.micro_batches)));
  // The shards of all ranks are one state; nodes and whole parameters each of them has.
  const double product = 4 + 12 + 2 + what.ranks * (2 + nodes);
  const double twins = 12 + 2 + 4, wanted = 12 + 2 + 4;
  const int products = what.offload.on() ? 2 : 1;  // one beside it that offloads nothing
  return static_cast<double>(padded(what)) * (leaf + products * product + twins + wanted);
}

void require_possible(const ProductCase& what) {
  ZP_CHECK(what.numel >= what.tensors, ErrorCode::invalid_argument,
           std::to_string(what.numel) + " parameters cannot be " + std::to_string(what.tensors) + " tensors",
           "a tensor has one element or more", "choose a larger --numel or fewer --tensors");
  require_memory(what.text() + " of " + std::to_string(what.numel) + " parameters", needed_bytes(what),
                 "--numel");
}

}  // namespace zeroproof::verification::bench
