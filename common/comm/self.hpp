#pragma once
// The world of one rank.

#include <memory>

#include "common/comm/communicator.hpp"

namespace zeroproof {

/// A communicator of world size 1: every collective is a copy.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace zeroproof
