/// The memory and processor time that this process may use, by the system and
/// by its control groups (cgroups, of version 1 and 2).
///
/// A limit of a control group holds for all groups below it. So the limits of
/// the process's own group and of every group above it are read, as far up as
/// they are mounted, and the least one counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cria {

/// Bytes of memory that the process may still use: the system's available
/// memory, or a control group's limit minus its use, if that is less. `root` is
/// the folder with proc and sys.
uint64_t availableMemory(const std::string &root = "");

/// How many cores' worth of time control groups leave the process, rounded up,
/// at least 1; nothing where they set no quota.
std::optional<int> coreQuota(const std::string &root = "");

} // namespace cria
