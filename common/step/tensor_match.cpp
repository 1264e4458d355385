#include "common/step/tensor_match.hpp"

#include <algorithm>
#include <string_view>

namespace zeroproof {
namespace {

bool glob_matches(std::string_view glob, std::string_view name) {
  std::size_t g = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::
      npos;  // the last * so far: only it may need to match more, so time is a product
  std::size_t taken = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

}  // namespace

bool matches_tensor(const std::vector<std::string>& match, bool vectors, const TensorSlot& tensor) {
  return (vectors && tensor.shape.size() <= 1) ||
         std::any_of(match.begin(), match.end(),
                     [&](const std::string& glob) { return glob_matches(glob, tensor.name); });
}

}  // namespace zeroproof
