// Passes norms and limits of the plug-in interface, one by one, to ClipCoefFn.

#include "plugin_wrapper.hpp"

namespace zeroproof::wrapper {
namespace {

std::int32_t run(const zeroproof_call* call) {
  return whole(call, [&] {
    for (std::size_t i = 0; i < size(call); ++i) {
      std::optional<double> max_norm;
      if (data<std::uint32_t>(call, 2)[i] != 0) max_norm = data<double>(call, 1)[i];
      float coef = 0;
      const std::uint32_t refused =
          refuses([&] { coef = mine::clip_coef(data<double>(call, 0)[i], max_norm); });
      data<std::uint32_t>(call, 4)[i] = refused;
      data<float>(call, 3)[i] = refused != 0 ? 0 : coef;
    }
  });
}

}  // namespace
}  // namespace zeroproof::wrapper

PUZZLE_PLUGIN("clip_coef", zeroproof::wrapper::run)
