#include "verification/tools/train/run_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/error.hpp"
#include "common/io/files/regular_file.hpp"
#include "verification/cli/program/file_text.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

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
  // A run that was ended in the middle of a line.
  char last = '\n';
  struct stat status {};
  if (::fstat(handle_, &status) == 0 && status.st_size > 0)
    ::pread(handle_, &last, 1, status.st_size - 1);
  write((last == '\n' ? "" : "\n") +
        Json({{"training", start.training},
              {"run", start.run},
              {"from", start.from},
              {"bucket_numel", start.bucket_numel}})
            .dump() +
        "\n");
}

RunLog::~RunLog() {
  if (handle_ >= 0) ::close(handle_);
}

void RunLog::add(const StepRecord& record) { write(to_json(record).dump() + "\n"); }

void RunLog::write(const std::string& line) {
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(handle_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    ZP_CHECK(count > 0, ErrorCode::io, file_ + " cannot be written: " + std::strerror(errno),
             "a step without its line cannot be audited",
             "check the free space and run again with --resume");
    done += static_cast<std::size_t>(count);
  }
}

ReadLog read_log(const std::string& file) {
  require_regular_file(file, "log");
  const std::optional<std::string> content = file_text(file);
  ZP_CHECK(content.has_value(), ErrorCode::io, file + " cannot be read: " + std::strerror(errno),
           "it has the results of every step", "name the --checkpoint folder of a zeroproof train");
  const std::string& text = *content;
  ReadLog log;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end == std::string::npos ? text.size() : end + 1;
    ++number;
    try {
      const Json json = Json::parse(line);
      if (json.contains("training")) {
        log.starts.push_back(start_from(json));
        continue;
      }
      if (log.starts.empty()) throw JsonError("there is no start before it");
      StepRecord record = record_from(json);
      const std::int64_t step = record.step;
      log.steps[step] = {std::move(record), log.starts.size() - 1};
    } catch (const JsonError& error) {
      // Truncated: the last line, or the one before another start.
      const bool cut = begin == text.size() || text.compare(begin, 12, "{\"training\":") == 0;
      if (cut && !log.starts.empty()) continue;
      fail(ErrorCode::damaged,
           file + " line " + std::to_string(number) + " is not a line of a log: " + error.what(),
           "its steps cannot be compared", "name the log of a zeroproof train");
    }
  }
  return log;
}

}  // namespace zeroproof::verification
