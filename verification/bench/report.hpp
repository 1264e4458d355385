#pragma once
// The tables and the record of all subcommands.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "verification/bench/options.hpp"
#include "verification/bench/rows.hpp"

namespace zeroproof::verification::bench {

using Json = nlohmann::ordered_json;

/// A column of a table, taken from a field of the record: an array of samples is shown by its median, ratios within
/// rounds (ratios_value) as "median [least-most]".
struct Column {
  const char* heading;
  const char* key;
  double scale = 1;
  bool spread = false;  ///< samples are shown as ratios are
};

/// {"min", "median", "max", "per_round"}.
Json ratios_value(const std::vector<double>& ratios);

class Report {
 public:
  /// Writes the machine and its load now into the record, and the arguments of the subcommand.
  explicit Report(const Options& options);

  Json& operator[](const char* key) { return record_[key]; }
  /// A line of text that is not in the record.
  void say(const std::string& line) { text_ += line + '\n'; }

  /// Rows and figures at the top of the record, or in its array "groups". Only the fastest limit of each shape is
  /// printed. judged: goals are.
  void add(const Group& group, bool in_groups = false, bool judged = true);
  /// An array of the record, shown as a table.
  void add(const char* key, Json entries, const std::vector<Column>& columns);
  static std::string table(const Json& entries, const std::vector<Column>& columns);
  /// A figure by itself.
  void add(const Figure& figure) { add(figure, record_, true); }
  void check(const std::string& name, bool ok, const std::string& where = {}) {
    checks_.push_back({name, ok, where});
  }
  /// Counts the switches of rows that are not added as a group.
  void count(const std::vector<Row>& rows);

  bool ok() const;
  std::string text() const;
  std::string json() const;

 private:
  void add(const Figure& figure, Json& to, bool judged);
  bool busy() const { return switches_ * 2 > samples_; }

  Json record_;
  std::string text_;
  std::vector<Check> checks_;
  long switches_ = 0, samples_ = 0;
};

/// Measures, prints and writes. shown: false on ranks that only take part. Returns the exit code: 1 if bits differ.
/// Errors: io if the record cannot be written, before anything is measured.
int reported(const Options& options, bool shown,
             const std::function<void(const Options&, Report&)>& measure);

}  // namespace zeroproof::verification::bench
