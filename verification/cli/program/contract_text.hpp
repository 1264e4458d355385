#pragma once
// The doc blocks of common/contracts, which were copied into this program when it was built.

#include <string>
#include <vector>

namespace zeroproof::verification {

struct ContractHeader {
  std::string name;  ///< "adam.hpp"
  std::string content;
};

/// Every header of common/contracts.
const std::vector<ContractHeader>& contract_headers();

struct ImplementationFile {
  std::string file;      ///< "reference/update/adam.cpp"
  std::string function;  ///< "adamw_update"
};

/// The functions that the sources of reference, cuda, cuda/host and cuda/device define, and the tests in
/// tests/reference that call them.
const std::vector<ImplementationFile>& implementation_files();

/// The doc block above "using TYPE =" with its slashes taken away, one string per line; empty if there is none.
/// Function types that share a block are declared directly below one another.
std::vector<std::string> doc_block(const std::string& type);

/// Types a block refers to instead of saying it again ("as AdamwUpdateFn").
std::vector<std::string> referred_types(const std::vector<std::string>& block);

/// Lines of a block in at most `width` columns; continued lines keep the indentation of their text.
std::string wrapped(const std::vector<std::string>& block, std::size_t width,
                    const std::string& indent);

}  // namespace zeroproof::verification
