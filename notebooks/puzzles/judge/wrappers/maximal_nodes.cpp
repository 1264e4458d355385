// maximal_nodes as a C function: the number of nodes, and level and index of the first `capacity`.

#include "wrapper.hpp"

extern "C" std::int32_t puzzle_call(std::int64_t first, std::int64_t last, std::int64_t* nodes,
                                    std::int64_t capacity, std::int64_t* count, char* message,
                                    std::size_t size) {
  using namespace zeroproof;
  const auto call = [&] {
    *count = 0;
    for (const TreeNode& node : mine::maximal_nodes(first, last)) {
      if (*count < capacity) {
        nodes[2 * *count] = node.level;
        nodes[2 * *count + 1] = node.index;
      }
      ++*count;
    }
  };
  return wrapper::outcome_of(call, message, size);
}
