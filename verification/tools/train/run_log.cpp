#include "verification/tools/train/run_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/io/files/regular_file.hpp"
#include "verification/cli/program/file_text.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::string_view before_hash = ",\"hash\":\"";
constexpr std::string_view after_hash = "\"}";
constexpr std::string_view start_of_start = "{\"training\":";
constexpr std::size_t hash_digits = 32;
constexpr std::size_t ending_size = before_hash.size() + hash_digits + after_hash.size();

/// A line is longer than its ending and shorter than that.
constexpr std::int64_t most_line_bytes = std::int64_t{1} << 20;

/// The hash at the end of a line without its newline; nothing if there is none.
std::optional<std::string_view> hash_of(std::string_view line) {
  if (line.size() < ending_size) return std::nullopt;
  const std::string_view ending = line.substr(line.size() - ending_size);
  if (!ending.starts_with(before_hash) || !ending.ends_with(after_hash)) return std::nullopt;
  return ending.substr(before_hash.size(), hash_digits);
}

/// The hash of a line. body: its bytes before the ending.
std::string next_hash(const std::string& previous, std::string_view body) {
  const std::string bytes = previous + std::string(body);
  return to_hex(raw_digest(bytes.data(), static_cast<std::int64_t>(bytes.size())));
}

/// The same, checked. Errors: JsonError.
std::string checked_hash(const std::string& previous, std::string_view line) {
  const auto hash = hash_of(line);
  if (!hash) throw JsonError("it does not end with a hash, or an earlier version wrote it");
  std::string made = next_hash(previous, line.substr(0, line.size() - ending_size));
  if (made != *hash) throw JsonError("it, or the line before it, is not as it was written");
  return made;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

double number_from(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json to_json(const StepRecord& record) {
  Json sums = Json::object();
  for (const auto& [buffer, values] : record.sums) {
    Json list = Json::array();
    for (const std::uint64_t value : values) list.push_back(fmt::format("{:016x}", value));
    sums[buffer] = std::move(list);
  }
  return {{"step", record.step},
          {"applied_steps", record.applied_steps},
          {"loss", number_or_null(record.loss)},
          {"loss_scale_log2", record.log2_loss_scale},
          {"skipped", record.skipped},
          {"grad_norm", number_or_null(record.grad_norm)},
          {"seconds", record.seconds},
          {"sums", std::move(sums)}};
}

std::uint64_t word_from(const std::string& digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value, 16);
  if (error != std::errc{} || rest != end || digits.size() != 16)
    throw JsonError("a sum has 16 digits");
  return value;
}

StepRecord record_from(const Json& line) {
  StepRecord record;
  record.step = line.at("step").get<std::int64_t>();
  record.applied_steps = line.at("applied_steps").get<std::int64_t>();
  record.loss = number_from(line.at("loss"));
  record.log2_loss_scale = line.at("loss_scale_log2").get<int>();
  record.skipped = line.at("skipped").get<bool>();
  record.grad_norm = number_from(line.at("grad_norm"));
  record.seconds = line.at("seconds").get<double>();
  for (const Json::Member& member : line.at("sums").members()) {
    std::vector<std::uint64_t>& sums = record.sums[member.name];
    for (const Json& value : member.value) sums.push_back(word_from(value.get<std::string>()));
  }
  return record;
}

RunStart start_from(const Json& line) {
  RunStart start;
  start.training = line.at("training");
  start.run = line.at("run").get<std::string>();
  start.from = line.at("from").get<std::int64_t>();
  start.bucket_numel = line.at("bucket_numel").get<std::int64_t>();
  return start;
}

}  // namespace

RunLog::RunLog(const std::string& file, const RunStart& start) : file_(file) {
  require_regular_file(file, "log");
  handle_ =
      ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  ZP_CHECK(handle_ >= 0, ErrorCode::io, file + " cannot be written: " + std::strerror(errno),
           "it gets a line for every step", "name a file in a folder you may write to");
  try {
    continue_chain();
    write(Json({{"training", start.training},
                {"run", start.run},
                {"from", start.from},
                {"bucket_numel", start.bucket_numel}}));
  } catch (...) {
    ::close(handle_);
    throw;
  }
}

RunLog::~RunLog() { ::close(handle_); }

void RunLog::add(const StepRecord& record) { write(to_json(record)); }

void RunLog::sync() {
  ZP_CHECK(::fdatasync(handle_) == 0, ErrorCode::io,
           file_ + " cannot be written: " + std::strerror(errno),
           "a checkpoint refers to its step's line", "check the disk and run again with --resume");
}

/// Reads the last line's hash, and removes an incomplete line of a run that was ended while writing
/// it.
void RunLog::continue_chain() {
  struct stat status {};
  ZP_CHECK(::fstat(handle_, &status) == 0, ErrorCode::io,
           file_ + " cannot be read: " + std::strerror(errno), "a run continues its log",
           "name another file with --log");
  std::string end(std::min<std::int64_t>(status.st_size, most_line_bytes), '\0');
  for (std::size_t done = 0; done < end.size();) {
    const ssize_t count =
        ::pread(handle_, end.data() + done, end.size() - done,
                status.st_size - static_cast<off_t>(end.size()) + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    ZP_CHECK(count > 0, ErrorCode::io,
             file_ + " cannot be read: " + (count < 0 ? std::strerror(errno) : "it became shorter"),
             "a run continues its log", "name another file with --log");
    done += static_cast<std::size_t>(count);
  }
  const std::size_t newline = end.rfind('\n');
  const std::size_t complete = newline == std::string::npos ? 0 : newline + 1;
  const std::string_view last = std::string_view(end).substr(0, complete == 0 ? 0 : newline);
  const auto hash = hash_of(last);
  // Without a complete line: the beginning of the first one, or an empty file.
  const bool begins =
      complete == 0 && static_cast<std::int64_t>(end.size()) == status.st_size &&
      start_of_start.starts_with(std::string_view(end).substr(0, start_of_start.size()));
  ZP_CHECK(hash || begins, ErrorCode::config,
           file_ + " cannot be continued: its last line does not end with a hash",
           "it is not a log of zeroproof train, or one of an earlier version",
           "move it away, or name another file with --log");
  if (hash) hash_ = *hash;
  if (complete == end.size()) return;
  const off_t kept = status.st_size - static_cast<off_t>(end.size() - complete);
  ZP_CHECK(::ftruncate(handle_, kept) == 0, ErrorCode::io,
           file_ + " cannot be written: " + std::strerror(errno), "its last line is incomplete",
           "name another file with --log");
}

void RunLog::write(const Json& json) {
  std::string line = json.dump();
  line.pop_back();  // the brace
  std::string hash = next_hash(hash_, line);
  line.append(before_hash).append(hash).append(after_hash).append("\n");
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(handle_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    ZP_CHECK(count > 0, ErrorCode::io, file_ + " cannot be written: " + std::strerror(errno),
             "a step without its line cannot be audited",
             "check the free space and run again with --resume");
    done += static_cast<std::size_t>(count);
  }
  hash_ = std::move(hash);
}

ReadLog read_log(const std::string& file) {
  require_regular_file(file, "log");
  const std::optional<std::string> content = file_text(file);
  ZP_CHECK(content.has_value(), ErrorCode::io, file + " cannot be read: " + std::strerror(errno),
           "it has the results of every step", "name the --checkpoint folder of a zeroproof train");
  const std::string_view text = *content;
  ReadLog log;
  std::string hash;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string_view line = text.substr(begin, end - begin);
    begin = end == std::string::npos ? text.size() : end + 1;
    ++number;
    try {
      if (end == std::string::npos) {
        if (log.starts.empty()) throw JsonError("there is no start before it");
        if (hash_of(line.substr(0, line.size() - 1)))
          throw JsonError("another byte is in place of its newline");
        break;  // incomplete
      }
      hash = checked_hash(hash, line);
      const Json json = Json::parse(line);
      if (json.contains("training")) {
        log.starts.push_back(start_from(json));
        continue;
      }
      if (log.starts.empty()) throw JsonError("there is no start before it");
      StepRecord record = record_from(json);
      LoggedStep& logged = log.steps[record.step];
      logged.record = std::move(record);
      logged.start = log.starts.size() - 1;
      logged.hashes.push_back(hash);
    } catch (const JsonError& error) {
      fail(ErrorCode::damaged,
           file + " line " + std::to_string(number) + " is not a line of a log: " + error.what(),
           "its steps cannot be compared", "name the log of a zeroproof train");
    }
  }
  return log;
}

}  // namespace zeroproof::verification
