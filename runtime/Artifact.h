/// Compiled code on disk: checked whole before any of it runs, then loaded.
#pragma once

#include "runtime/Abi.h"
#include "runtime/File.h"
#include "runtime/Manifest.h"
#include "runtime/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cria {

/// An open artifact. Immutable; share it between threads.
class Artifact {
public:
  /// Checks footer, format version, checksum, manifest and target, in this
  /// order, then loads the code. See cria_artifact_open for the codes. A CPU
  /// that cannot run the code for CPUs is an error only where there is no code
  /// for anything else.
  static Result<std::shared_ptr<const Artifact>> open(const std::string &path);

  /// Reads and checks as `open` does, all but the CPU, and loads no code: for
  /// looking at artifacts of other machines.
  static Result<std::shared_ptr<const Artifact>>
  inspect(const std::string &path);

  Artifact(const Artifact &) = delete;
  Artifact &operator=(const Artifact &) = delete;
  ~Artifact();

  const std::string &path() const { return file; }
  const Manifest &manifest() const { return contents; }
  /// The manifest as it stands in the file.
  const std::string &manifestText() const { return text; }
  uint64_t fileBytes() const { return bytes; }

  /// Whether this machine's CPU can run the code for CPUs, or why not.
  const Status &cpuStatus() const { return cpu; }
  /// The entry functions; null where the artifact was only inspected, or has
  /// no code for the CPU.
  CriaEntry prefill() const { return prefillEntry; }
  CriaEntry decode() const { return decodeEntry; }
  CriaEntry encode() const { return encodeEntry; }
  /// The bytes of `image`, as the object holds them. PTX ends with a NUL, which
  /// is not part of it.
  Result<std::string_view> image(const cuda::Image &image) const;

private:
  Artifact() = default;
  Status load();
  Status findEntries();

  std::string file;
  std::string text;
  Manifest contents;
  uint64_t bytes = 0;
  Status cpu;
  std::optional<File> object; // what `library` is loaded from
  void *library = nullptr;
  CriaEntry prefillEntry = nullptr;
  CriaEntry decodeEntry = nullptr;
  CriaEntry encodeEntry = nullptr;
};

} // namespace cria
