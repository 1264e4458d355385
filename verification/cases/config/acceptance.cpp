#include "verification/cases/config/acceptance.hpp"

#include <string_view>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof {

std::string Acceptance::text() const {
  if (!dialect.empty()) return "the dialect " + dialect;
  if (!any_order) return "";
  return fp32_powers ? "any legal order, with powers of beta in fp32" : "any legal order";
}

Acceptance acceptance_of(const std::string& words, const std::string& subject,
                         AcceptedDialects dialects) {
  constexpr std::string_view dialect = "dialect:", powers = "fp32-powers";
  if (words.empty() || words == "bits") return {};
  if (words == "any-order") return {.any_order = true};
  if (words == "any-order,fp32-powers" || words == "fp32-powers,any-order")
    return {.any_order = true, .fp32_powers = true};
  const std::string problem = subject + " is '" + words + "'";
  const bool of_dialect = words.starts_with(dialect);
  if (of_dialect && dialects == AcceptedDialects::yes && words.size() > dialect.size())
    return {.dialect = words.substr(dialect.size())};
  ZP_CHECK(of_dialect || words.find(powers) == std::string::npos ||
               words.find("any-order") != std::string::npos,
           ErrorCode::config, problem,
           "powers of beta in fp32 are judged by the bound of any legal order",
           "use any-order,fp32-powers");
  fail(ErrorCode::config, problem, "it selects how results are compared",
       suggestion(words, {"bits", "any-order", "any-order,fp32-powers"},
                  dialects == AcceptedDialects::yes
                      ? "use bits, any-order, any-order,fp32-powers or dialect:NAME"
                      : "use bits, any-order or any-order,fp32-powers"));
}

}  // namespace zeroproof
