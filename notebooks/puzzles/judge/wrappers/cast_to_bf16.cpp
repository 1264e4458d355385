// Passes operands of the plug-in interface to CastToBf16Fn.

#include "plugin_wrapper.hpp"

namespace zeroproof::wrapper {
namespace {

std::int32_t run(const zeroproof_call* call) {
  return whole(call, [&] {
    mine::cast_to_bf16({call->num_threads}, {data<float>(call, 0), size(call)},
                       {data<bf16>(call, 1), size(call)});
  });
}

}  // namespace
}  // namespace zeroproof::wrapper

PUZZLE_PLUGIN("cast_to_bf16", zeroproof::wrapper::run)
