#pragma once
// A recording of the operations of a PyTorch program on one rank, as zproof.torch.operations writes it (README.md).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zeroproof::verification {

/// Values by name, in the order of the file.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;
/// The value of a name; "" if there is none.
std::string text_of(const NamedTexts& texts, const std::string& name);

/// One input or output of an operation.
struct OperationValue {
  /// Origin of an input's memory.
  enum class Writer : std::uint8_t { none, operation, parameter, outside };

  std::string name;  ///< of the argument
  std::string text;  ///< a number or option; of a tensor dtype, shape and layout
  bool is_tensor = false;
  std::optional<std::uint64_t> digest;  ///< none: a view, or not compared
  bool uncompared = false;              ///< memory that was never set, a running collective
  Writer writer = Writer::none;
  std::size_t operation = 0;  ///< of Writer::operation: the last that wrote the memory before
};

struct Operation {
  std::string name;                    ///< "aten.addmm.default"
  std::string phase;                   ///< forward, backward or optimizer
  std::string module;                  ///< path of the module, may be empty
  std::optional<std::size_t> line;     ///< of the program, index of OperationsFile::lines
  std::optional<std::size_t> forward;  ///< of a backward operation: the operation it differentiates
  std::vector<OperationValue> inputs, outputs;
};

struct SourceLine {
  std::string file;
  std::int64_t number = 0;
  std::string text;
};

struct OperationsFile {
  std::string path;
  std::int64_t rank = 0, world = 1;
  NamedTexts libraries, machine, environment;
  std::string seed;
  /// With the number of the first operation that they hold for, ascending.
  std::vector<std::pair<std::size_t, NamedTexts>> settings;
  std::vector<SourceLine> lines;
  std::vector<Operation> operations;
  std::string ends_early;  ///< "" for a complete recording, else why it has no end

  /// As they are when an operation runs.
  const NamedTexts& settings_at(std::size_t operation) const;
};

/// Errors (ErrorCode::io): no such file, not such a recording, a line that is no record of one; no operation.
/// A last line without its end is that of a program that was ended, and left out.
OperationsFile read_operations(const std::string& path);

/// The files of a recording: FILE itself, or FILE.rank0, FILE.rank1, ... before its suffix ("run.operations":
/// "run.rank0.operations"), as ranks of one program write them. Errors (ErrorCode::io): neither exists.
std::vector<std::string> operations_files(const std::string& path);

}  // namespace zeroproof::verification
