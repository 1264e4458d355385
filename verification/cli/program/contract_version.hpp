#pragma once

namespace zeroproof::verification {

/// Version of common/CONTRACT.md that this program implements; part of every hash and report.
inline constexpr unsigned contract_version = 2;

}  // namespace zeroproof::verification
