#include "verification/tools/trace/table.hpp"

#include <algorithm>

#include "common/base/float_formats.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::size_t width_of(const TraceColumn& column) {
  std::size_t width = column.title.size();
  for (const std::string& cell : column.cells) width = std::max(width, cell.size());
  return width;
}

std::string without_trailing_spaces(const std::string& line) {
  const std::size_t last = line.find_last_not_of(' ');
  return last == std::string::npos ? "" : line.substr(0, last + 1);
}

}  // namespace

std::string shown_value(std::uint64_t bits, DType dtype) {
  return visit_format(dtype, [&](auto format) {
    using Format = decltype(format);
    const std::size_t width = 2 + 2 * sizeof(typename Format::Bits);
    if constexpr (Format::is_float) {
      const int digits = std::max(9, Format::digits);  // those of fp32, as the value is used
      return fmt::format("{:#0{}x} {:.{}g}", bits, width, value_of<Format>(bits), digits);
    } else {
      return fmt::format("{:#0{}x} {}", bits, width, bits);
    }
  });
}

std::string table(const TraceColumn& labels, const std::vector<TraceColumn>& columns) {
  const std::size_t label_width = width_of(labels);
  std::string out;
  for (std::size_t first = 0; first < columns.size();) {
    std::size_t last = first;
    if (first > 0) out += "\n";
    std::size_t width = 2 + label_width;
    do {
      width += 2 + width_of(columns[last++]);
    } while (last < columns.size() && width + 2 + width_of(columns[last]) <= trace_columns);
    const auto row = [&](const std::string& label, const auto& cell) {
      std::string line = "  " + padded(label, label_width);
      for (std::size_t c = first; c < last; ++c)
        line += "  " + padded(cell(columns[c]), width_of(columns[c]));
      out += without_trailing_spaces(line) + "\n";
    };
    row(labels.title, [](const TraceColumn& column) { return column.title; });
    for (std::size_t r = 0; r < labels.cells.size(); ++r) {
      row(labels.cells[r], [r](const TraceColumn& column) { return column.cells[r]; });
    }
    first = last;
  }
  return out;
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  const bool row = ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
  if (row) return "ranks " + std::to_string(ranks.front()) + "-" + std::to_string(ranks.back());
  std::string text = "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace zeroproof::verification
