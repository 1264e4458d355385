#pragma once
// A plan as text, JSON and picture.

#include <string>
#include <vector>

#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

inline constexpr std::size_t plan_columns = 100;

/// Selects the counts that are shown.
struct PlanSections {
  bool contract = true, zero_paper = false, deepspeed = false, megatron = false, claims = false;
};

/// Tables of at most plan_columns columns.
std::string plan_text(const Plan& plan, const PlanSections& sections, bool colour);

/// Schema zeroproof-plan/1; it contains every count.
std::string plan_json(const Plan& plan);

/// A bar per stage, of the classes at the moment when their sum is largest, on the largest rank.
std::string plan_svg(const Plan& plan);

/// A file's name as it may be printed: no control characters.
std::string shown_name(const std::string& text);

/// 1234567890 as "1.235 GB": four digits, powers of 1000.
std::string short_bytes(double bytes);

}  // namespace zeroproof::verification
