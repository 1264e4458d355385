#include "tests/cuda/comm/nccl/fake_nccl_plan.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace zp_fake_nccl {

namespace {

std::vector<std::string> parts_of(const std::string& text, char between) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, between);) parts.push_back(part);
  return parts;
}

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "libzp_fake_nccl: \"%s\" is not a plan\n", what.c_str());
  std::abort();
}

}  // namespace

Plan read_plan(const std::string& text) {
  Plan plan;
  for (const std::string& item : parts_of(text, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) refuse(item);
    const std::string what = item.substr(0, equals), value = item.substr(equals + 1);
    const std::vector<std::string> words = parts_of(value, what == "version" ? '.' : ':');
    const auto number = [&](std::size_t i) {
      return i < words.size() ? std::atoi(words[i].c_str()) : 0;
    };
    if (what == "fail" && words.size() >= 2) {
      plan.fail_call = words[0];
      plan.fail_number = number(1);
      plan.fail_rank = number(2);
    } else if (what == "stall" && words.size() == 2) {
      plan.stall_rank = number(0);
      plan.stall_number = number(1);
    } else if (what == "async" && words.size() == 2) {
      plan.async_rank = number(0);
      plan.async_number = number(1);
    } else if (what == "patience") {
      plan.patience = std::chrono::milliseconds(number(0));
    } else if (what == "ranks_per_device" && words.size() == 1) {
      plan.ranks_per_device = number(0);
    } else if (what == "version" && words.size() == 3) {
      plan.version = number(0) * 10000 + number(1) * 100 + number(2);
    } else {
      refuse(item);
    }
  }
  return plan;
}

}  // namespace zp_fake_nccl
