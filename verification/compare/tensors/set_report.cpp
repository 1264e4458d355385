#include "verification/compare/tensors/set_report.hpp"

#include <cmath>

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t name_width = 33;
constexpr std::size_t line_width = 100;

/// A name shortened in the middle to at most `most` columns.
std::string cut(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  const std::size_t kept = (most - 3) / 2;
  return name.substr(0, kept) + "..." + name.substr(name.size() - kept);
}

std::string shape_text(const SafeTensorSpec& spec) {
  std::string text = std::string(name(spec.dtype)) + " [";
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(spec.shape[i]);
  }
  return text + "]";
}

/// "2.98e-08 @ 1234", of an element.
std::string shown(const Greatest& greatest) {
  return greatest.index < 0 ? "" : fmt::format("{:.2e} @ {}", greatest.value, greatest.index);
}

/// Why two tensors could not be compared.
std::string unmatched(const TensorDifference& tensor, const std::string& first,
                      const std::string& second) {
  switch (tensor.match) {
    case TensorMatch::only_first:
      return "only in " + cut(first, 60);
    case TensorMatch::only_second:
      return "only in " + cut(second, 60);
    case TensorMatch::other_dtype:
    case TensorMatch::other_shape:
      return cut(shape_text(tensor.first), 27) + " against " + cut(shape_text(tensor.second), 27);
    case TensorMatch::compared:
      break;
  }
  return "";
}

/// A name that is too long is printed on a separate line.
std::string begin_row(const std::string& name) {
  if (name.size() <= name_width) return fmt::format("{:<{}}", name, name_width);
  return cut(name, line_width) + "\n" + std::string(name_width, ' ');
}

/// A separate line with the number of elements at each distance.
std::string ulps_line(const UlpHistogram& ulps) {
  return fmt::format("    ulps  1: {}  2: {}  3-15: {}  16+: {}  sign or NaN: {}\n", ulps.counts[1],
                     ulps.counts[2], ulps.counts[3], ulps.counts[4], ulps.sign_or_nan);
}

std::string row(const TensorDifference& tensor, const std::string& first, const std::string& second,
                bool with_ulps) {
  std::string text = begin_row(tensor.name);
  if (tensor.match != TensorMatch::compared)
    return text + "  " + unmatched(tensor, first, second) + "\n";
  if (tensor.equal())
    return text + (tensor.bits.same_bits ? "  equal\n" : "  equal, NaNs have other bits\n");
  text += fmt::format(" {:>9} {:>9} {:>22} {:>22}\n",
                      share(tensor.bits.compared - tensor.bits.differing, tensor.bits.compared),
                      has_ulps(tensor.first.dtype) ? shown_ulps(tensor.ulps.largest) : "-",
                      shown(tensor.absolute), shown(tensor.relative));
  if (with_ulps && has_ulps(tensor.first.dtype)) text += ulps_line(tensor.ulps);
  return text;
}

/// Number of differing elements at each distance.
std::string histogram(const UlpHistogram& ulps) {
  if (ulps.counts[1] + ulps.counts[2] + ulps.counts[3] + ulps.counts[4] + ulps.sign_or_nan == 0)
    return "";
  return fmt::format("{:<14}{:>14}{:>14}{:>14}{:>14}{:>16}\n{:<14}{:>14}{:>14}{:>14}{:>14}{:>16}\n",
                     "ulps apart", "1", "2", "3-15", "16+", "sign or NaN", "elements",
                     grouped(ulps.counts[1]), grouped(ulps.counts[2]), grouped(ulps.counts[3]),
                     grouped(ulps.counts[4]), grouped(ulps.sign_or_nan));
}

Json real(double value) {
  if (std::isnan(value)) return "nan";
  return std::isinf(value) ? Json(value > 0 ? "inf" : "-inf") : Json(value);
}

Json json_of(const UlpHistogram& ulps) {
  return {{"largest", ulps.largest},
          {"0", ulps.counts[0]},
          {"1", ulps.counts[1]},
          {"2", ulps.counts[2]},
          {"3-15", ulps.counts[3]},
          {"16+", ulps.counts[4]},
          {"sign_or_nan", ulps.sign_or_nan}};
}

Json json_of(const Greatest& greatest) {
  if (greatest.index < 0) return nullptr;
  return {{"value", real(greatest.value)}, {"index", greatest.index}};
}

Json json_of(const GreatestOf& greatest) {
  Json json = json_of(greatest.greatest);
  if (!json.is_null()) json["tensor"] = greatest.tensor;
  return json;
}

Json json_of(const SafeTensorSpec& spec) {
  return {{"dtype", std::string(name(spec.dtype))}, {"shape", Json(spec.shape)}};
}

const char* name_of(TensorMatch match) {
  switch (match) {
    case TensorMatch::only_first:
      return "only_first";
    case TensorMatch::only_second:
      return "only_second";
    case TensorMatch::other_dtype:
      return "other_dtype";
    case TensorMatch::other_shape:
      return "other_shape";
    case TensorMatch::compared:
      break;
  }
  return "compared";
}

}  // namespace

std::string share(std::int64_t part, std::int64_t whole) {
  if (part == whole) return "100 %";
  const auto hundredths = static_cast<std::int64_t>(
      std::floor(static_cast<long double>(part) * 10000 / static_cast<long double>(whole)));
  return fmt::format("{}.{:02} %", hundredths / 100, hundredths % 100);
}

std::string shown_ulps(std::uint64_t distance) {
  return distance < 1'000'000'000 ? std::to_string(distance)
                                  : fmt::format("{:.1e}", static_cast<double>(distance));
}

std::string set_table(const SetComparison& comparison, const std::string& first,
                      const std::string& second, bool all_rows) {
  const TensorTotals& totals = comparison.totals;
  std::string rows;
  std::size_t shown_rows = 0, left_out = 0;
  for (const TensorDifference& tensor : comparison.tensors) {
    if (tensor.equal() && !all_rows) continue;
    if (!all_rows && shown_rows == most_tensor_rows) {
      ++left_out;
      continue;
    }
    ++shown_rows;
    rows += row(tensor, first, second, all_rows);
  }
  if (left_out > 0)
    rows +=
        fmt::format("... and {} more that differ\n", grouped(static_cast<std::int64_t>(left_out)));
  std::string text;
  if (!rows.empty()) {
    text = fmt::format("{:<{}} {:>9} {:>9} {:>22} {:>22}\n", "tensor", name_width, "equal", "ulps",
                       "absolute @ element", "relative @ element") +
           rows + "\n";
  }
  text += histogram(totals.ulps);
  text +=
      fmt::format("{} of {} tensors equal", grouped(totals.equal_tensors), grouped(totals.tensors));
  if (totals.unmatched_tensors > 0)
    text += fmt::format(", {} not comparable", grouped(totals.unmatched_tensors));
  text += fmt::format("; {} of {} elements compared differ", grouped(totals.differing),
                      grouped(totals.compared));
  if (totals.differing > 0) {
    text += fmt::format(" ({} equal)", share(totals.compared - totals.differing, totals.compared));
  }
  return text + "\n";
}

Json to_json_value(const TensorDifference& tensor) {
  Json json = {{"name", tensor.name}, {"match", name_of(tensor.match)}, {"equal", tensor.equal()}};
  if (tensor.match != TensorMatch::only_second) json["first"] = json_of(tensor.first);
  if (tensor.match != TensorMatch::only_first) json["second"] = json_of(tensor.second);
  if (tensor.match != TensorMatch::compared) return json;
  json["compared"] = tensor.bits.compared;
  json["differing"] = tensor.bits.differing;
  json["same_bits"] = tensor.bits.same_bits;
  json["first_index"] = tensor.bits.first ? Json(tensor.bits.first->index) : Json();
  json["ulps"] = json_of(tensor.ulps);
  json["ulps"]["largest_index"] =
      tensor.ulps.largest_index < 0 ? Json() : Json(tensor.ulps.largest_index);
  json["absolute"] = json_of(tensor.absolute);
  json["relative"] = json_of(tensor.relative);
  return json;
}

Json to_json_value(const TensorTotals& totals) {
  Json json = {{"tensors", totals.tensors},
               {"equal_tensors", totals.equal_tensors},
               {"not_comparable", totals.unmatched_tensors},
               {"compared", totals.compared},
               {"differing", totals.differing},
               {"ulps", json_of(totals.ulps)},
               {"absolute", json_of(totals.absolute)},
               {"relative", json_of(totals.relative)}};
  if (totals.ulps.largest_index >= 0) {
    json["ulps"]["largest_index"] = totals.ulps.largest_index;
    json["ulps"]["tensor"] = totals.largest_ulp;
  }
  return json;
}

}  // namespace zeroproof::verification
