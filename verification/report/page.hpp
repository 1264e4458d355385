#pragma once
// Pages of HTML: a template of the tree (NAME.html, embedded by cli/program/embed_pages.cmake) with
// values filled in.

#include <map>
#include <string>
#include <string_view>

#include "common/io/json.hpp"

namespace zeroproof::verification {

extern const char* const report_page;  ///< report/report.html
extern const char* const trace_page;   ///< tools/trace/trace.html

/// The page with every {{name}} replaced by the part of that name. Errors: std::out_of_range, there
/// is no such part.
std::string filled_page(std::string_view page, const std::map<std::string, std::string>& parts);

/// A value for a script element, in one line: without the characters that could end the element or
/// open markup.
std::string script_json(const Json& value);

}  // namespace zeroproof::verification
