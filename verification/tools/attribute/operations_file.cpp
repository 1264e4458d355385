#include "verification/tools/attribute/operations_file.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "common/io/files/regular_file.hpp"
#include "common/io/json.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* operations_schema = "zeroproof-operations/1";
constexpr std::int64_t most_ranks = 4096;
constexpr const char* record_again = "record it again with zproof.torch.operations";

/// Reads one file line by line.
class OperationsReader {
 public:
  explicit OperationsReader(OperationsFile& file) : file_(file) {}

  void read() {
    require_regular_file(file_.path, "recording");
    std::ifstream stream(file_.path, std::ios::binary);
    ZP_CHECK(stream.good(), ErrorCode::io, "recording " + file_.path + " cannot be read", "",
             "name a file that zproof.torch.operations wrote");
    bool ended = false;
    std::string stopped;
    for (std::string text; std::getline(stream, text);) {
      ++number_;
      if (stream.eof() && number_ > 1) break;  // without its line break: the program was ended
      if (ended || !stopped.empty()) refuse("goes on after its end");
      Json value;
      try {
        value = Json::parse(text);
        if (number_ == 1) {
          header(value);
        } else if (value.kind() == Json::Kind::array) {
          file_.operations.push_back(operation(value));
        } else if (value.contains("end")) {
          if (whole(value.at("end")) != static_cast<std::int64_t>(file_.operations.size()))
            refuse("counts " + value.at("end").dump() + " operations and has " +
                   std::to_string(file_.operations.size()));
          ended = true;
        } else if (value.contains("stopped")) {
          stopped = value.at("stopped").get<std::string>();
        } else if (value.contains("settings")) {
          file_.settings.emplace_back(file_.operations.size(), texts(value.at("settings")));
        } else {
          line(value.at("line"));
        }
      } catch (const JsonError& error) {
        refuse(number_ == 1 ? "is no recording of operations"
                            : "is not valid there: " + sentence(error.what()));
      }
    }
    ZP_CHECK(number_ > 0, ErrorCode::io, "recording " + file_.path + " is empty", "", record_again);
    if (!stopped.empty()) {
      file_.ends_early = "the recorder stopped: " + stopped;
    } else if (!ended) {
      file_.ends_early = "the program ended before the recording";
    }
    ZP_CHECK(!file_.operations.empty(), ErrorCode::io,
             "recording " + file_.path + " has no operation",
             file_.ends_early.empty() ? "nothing would be compared" : file_.ends_early,
             "run the program inside of zproof.torch.operations");
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail(ErrorCode::io, "line " + std::to_string(number_) + " of " + file_.path + " " + problem, "",
         record_again);
  }

  static NamedTexts texts(const Json& object) {
    if (object.kind() != Json::Kind::object) throw JsonError("no object");
    NamedTexts found;
    for (const Json::Member& member : object.members())
      found.emplace_back(member.name, member.value.get<std::string>());
    return found;
  }

  void header(const Json& value) {
    if (value.kind() != Json::Kind::object || !value.contains("schema"))
      refuse("is no recording of operations");
    const auto schema = value.at("schema").get<std::string>();
    if (schema != operations_schema)
      refuse("has the schema " + sentence(schema) + ", not " + operations_schema);
    file_.rank = whole(value.at("rank"));
    file_.world = whole(value.at("world"));
    if (file_.world < 1 || file_.world > most_ranks || file_.rank < 0 || file_.rank >= file_.world)
      refuse("has rank " + std::to_string(file_.rank) + " of " + std::to_string(file_.world));
    file_.libraries = texts(value.at("libraries"));
    file_.machine = texts(value.at("machine"));
    file_.environment = texts(value.at("environment"));
    file_.seed = value.at("seed").get<std::string>();
  }

  void line(const Json& value) {
    const auto items = items_of(value, 3);
    file_.lines.push_back(
        {items[0].get<std::string>(), whole(items[1]), items[2].get<std::string>()});
  }

  static std::vector<Json> items_of(const Json& value, std::size_t count) {
    if (value.kind() != Json::Kind::array) throw JsonError("no array");
    std::vector<Json> items(value.begin(), value.end());
    if (items.size() != count) throw JsonError("an array of another length");
    return items;
  }

  static std::int64_t whole(const Json& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value.content())) return *number;
    if (const auto* number = std::get_if<std::uint64_t>(&value.content()))
      return static_cast<std::int64_t>(std::min<std::uint64_t>(*number, INT64_MAX));
    throw JsonError("no whole number");
  }

  /// An index below `limit`; none for -1.
  static std::optional<std::size_t> index(const Json& value, std::size_t limit) {
    const std::int64_t number = whole(value);
    if (number == -1) return std::nullopt;
    if (number < 0 || static_cast<std::size_t>(number) >= limit)
      throw JsonError("a number out of range");
    return static_cast<std::size_t>(number);
  }

  Operation operation(const Json& value) const {
    const auto items = items_of(value, 7);
    Operation made{items[0].get<std::string>(),
                   items[1].get<std::string>(),
                   items[2].get<std::string>(),
                   index(items[3], file_.lines.size()),
                   index(items[4], file_.operations.size()),
                   {},
                   {}};
    for (const Json& one : items[5]) made.inputs.push_back(value_of(one, true));
    for (const Json& one : items[6]) made.outputs.push_back(value_of(one, false));
    return made;
  }

  /// [name, text], or of a tensor [name, text, digest], and the writer of an input.
  OperationValue value_of(const Json& value, bool input) const {
    if (value.kind() != Json::Kind::array) throw JsonError("no array");
    const std::vector<std::string> words = value;
    if (words.size() != 2 && words.size() != (input ? 4U : 3U))
      throw JsonError("an array of another length");
    OperationValue made;
    made.name = words[0];
    made.text = words[1];
    made.is_tensor = words.size() > 2;
    if (!made.is_tensor) return made;
    made.uncompared = words[2] == "?";
    if (!made.uncompared && !words[2].empty()) made.digest = number(words[2], 16);
    if (!input || words[3].empty()) return made;
    using Writer = OperationValue::Writer;
    made.writer = words[3] == "parameter" ? Writer::parameter
                  : words[3] == "outside" ? Writer::outside
                                          : Writer::operation;
    if (made.writer == Writer::operation) {
      made.operation = number(words[3], 10);
      if (made.operation >= file_.operations.size())
        throw JsonError("an operation that comes later");
    }
    return made;
  }

  static std::uint64_t number(const std::string& word, int base) {
    std::uint64_t result = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), result, base);
    if (error != std::errc() || end != word.data() + word.size()) throw JsonError("no number");
    return result;
  }

  OperationsFile& file_;
  std::int64_t number_ = 0;
};

}  // namespace

std::string text_of(const NamedTexts& texts, const std::string& name) {
  const auto found = std::ranges::find(texts, name, &std::pair<std::string, std::string>::first);
  return found == texts.end() ? "" : found->second;
}

const NamedTexts& OperationsFile::settings_at(std::size_t operation) const {
  static const NamedTexts none;
  const NamedTexts* found = &none;
  for (const auto& [first, texts] : settings) {
    if (first <= operation) found = &texts;
  }
  return *found;
}

OperationsFile read_operations(const std::string& path) {
  OperationsFile file;
  file.path = path;
  OperationsReader(file).read();
  return file;
}

std::vector<std::string> operations_files(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return {path};
  std::vector<std::string> files;
  const fs::path name(path);
  while (static_cast<std::int64_t>(files.size()) < most_ranks) {
    const std::string rank = ".rank" + std::to_string(files.size());
    const fs::path file =
        name.parent_path() / (name.stem().string() + rank + name.extension().string());
    if (!fs::exists(file, ignored)) break;
    files.push_back(file.string());
  }
  ZP_CHECK(!files.empty(), ErrorCode::io, "recording " + path + " cannot be opened",
           "neither it nor a file of its rank 0 exists",
           "name a file that zproof.torch.operations wrote");
  return files;
}

}  // namespace zeroproof::verification
