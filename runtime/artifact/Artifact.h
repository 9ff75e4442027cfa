/// Compiled code, copied to memory that nobody can change, checked there before
/// any of it runs, and loaded from there.
#pragma once

#include "runtime/Abi.h"
#include "runtime/artifact/ElfCheck.h"
#include "runtime/artifact/Manifest.h"
#include "runtime/base/SealedMemory.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// An open artifact. Immutable; share it between threads.
class Artifact {
public:
  /// Reads the file once and checks footer, format version, checksum, manifest,
  /// target and ELF object, in this order. Then it loads the code for CPUs,
  /// which runs none of it, and chooses the first code that this CPU can run;
  /// the code for `cpu` if that is not empty. See cria_artifact_open for the
  /// error codes. That this CPU can run no code is an error only if there is no
  /// code for another device.
  static Result<std::shared_ptr<const Artifact>>
  open(const std::string &path, const std::string &cpu = "");

  /// The same for an artifact in memory, which may be freed or changed
  /// afterwards.
  static Result<std::shared_ptr<const Artifact>>
  openMemory(std::string_view bytes);

  /// The same for the file that `descriptor` is open for, which stays open.
  static Result<std::shared_ptr<const Artifact>> openDescriptor(int descriptor);

  /// Reads the file and checks everything except the target and the object;
  /// loads no code. For looking at artifacts, including those for other
  /// machines.
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
  /// The file's checksum, by which artifacts are told apart.
  uint64_t checksum() const { return sum; }

  /// Whether this machine's CPU can run some of the code for CPUs, or why not.
  const Status &cpuStatus() const { return cpu; }
  /// The chosen code for CPUs; null if there is none.
  const CpuCode *cpuCode() const { return chosen; }
  /// The entry functions; null if the artifact was only inspected, or has no
  /// code for the CPU.
  CriaEntry prefill() const { return prefillEntry; }
  CriaEntry decode() const { return decodeEntry; }
  CriaEntry encode() const { return encodeEntry; }
  /// The entry functions of an artifact with KV caches in pages, in place of
  /// the others.
  CriaBatchEntry pagedPrefill() const { return pagedPrefillEntry; }
  CriaBatchEntry batch() const { return batchEntry; }
  /// The code of `image`, unpacked; none if the artifact was only inspected.
  Result<std::string> image(const cuda::Image &image) const;

private:
  Artifact() = default;
  static Result<std::shared_ptr<const Artifact>> open(const Result<File> &file,
                                                      const std::string &cpu);
  static Result<std::shared_ptr<Artifact>> parse(std::string_view bytes,
                                                 const std::string &path);
  static Result<std::shared_ptr<const Artifact>>
  load(SealedMemory memory, const std::string &path, const std::string &cpu);
  Status choose(const std::string &name);
  Status checkCode();
  Status loadCode();
  const ExportedSymbol *find(const std::string &symbol) const;
  /// The data of `image` as they lie in the file.
  Result<std::string_view> packed(const cuda::Image &image) const;

  std::string file;
  std::string text;
  Manifest contents;
  uint64_t bytes = 0, sum = 0;
  Status cpu;
  const CpuCode *chosen = nullptr;     // one of `contents`
  SealedMemory memory;                 // what `library` is loaded from
  std::vector<ExportedSymbol> symbols; // of the code; names lie in `memory`
  void *library = nullptr;
  CriaEntry prefillEntry = nullptr;
  CriaEntry decodeEntry = nullptr;
  CriaEntry encodeEntry = nullptr;
  CriaBatchEntry pagedPrefillEntry = nullptr;
  CriaBatchEntry batchEntry = nullptr;
};

} // namespace cria
