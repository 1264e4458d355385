#include "common/layout/peer_layouts.hpp"

#include <array>

namespace zeroproof {
namespace {

constexpr std::array<std::string_view, 6> kinds = {"contract",        "megatron", "deepspeed_flat",
                                                   "deepspeed_param", "fsdp2",    "greedy"};

}  // namespace

Span<const std::string_view> names_of(LayoutKind) { return kinds; }

}  // namespace zeroproof
