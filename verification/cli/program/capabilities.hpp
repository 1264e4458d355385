#pragma once
// Capabilities of this build on this machine, with the reasons of missing ones.

#include <string>
#include <vector>

namespace zeroproof::verification {

struct Capability {
  std::string name;
  bool available = false;
  std::string detail;
};

/// compiler, instruction sets, threads, mpi, cuda build, cuda device, planted faults, floating-point
/// environment.
std::vector<Capability> capabilities();

/// True if a CUDA device can run the device implementations.
bool device_answers();

/// Why no ranks can run as processes here, with a remedy; "" if they can.
std::string mpi_obstacle();
bool mpi_answers();
/// The program that starts ranks; "" without one.
const std::string& mpi_launcher_path();

}  // namespace zeroproof::verification
