/// The options of cria-compile that change the program. Each is a member of
/// ProgramOptions and a row of the table in Options.cpp. The command line,
/// --help, the manifest's flags and resuming from a text all follow the table.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <variant>

namespace cria {

class Manifest;

/// What the user asked for. A member is empty if the user did not say.
struct ProgramOptions {
  /// "f32", "f16" or "bf16": the type of weights, activations and caches,
  /// instead of the config's.
  std::optional<std::string> dtype;
  /// Positions of the caches.
  std::optional<int64_t> maxSeq;
  /// Formats of blocks, as the user wrote them: "q4_0,head=q8_0".
  std::optional<std::string> quantize;
  /// The format of caches: "q8_0" or "none".
  std::optional<std::string> kv;
  /// The caches of layers with a window: "ring" or "whole".
  std::optional<std::string> windowCache;
  /// The most LoRA adapters that the program has room for, as the sum of their
  /// ranks.
  std::optional<int64_t> loraRank;
  /// The part of the model: ImagePart::name. Empty: its text.
  std::optional<std::string> part;
  /// How many ranks share the model.
  std::optional<int64_t> shards;
  /// The most tokens of one call of the prefill entry.
  std::optional<int64_t> chunk;
  /// The most sequences that the batch entry runs together, over paged caches.
  /// Empty: there is a decode entry instead.
  std::optional<int64_t> batch;
  /// Sizes of the GPU's schedules that differ from the defaults
  /// (simt::Tuning::changes).
  std::optional<std::string> schedules;

  int64_t chunkSize() const { return chunk.value_or(512); }
  /// Whether layers with a window are to have caches of their own, which keep
  /// the window alone: rings, or in pages of a batch.
  bool keepsWindows() const { return windowCache != "whole"; }
};

/// A row of the table.
struct ProgramOption {
  struct Number {
    std::optional<int64_t> ProgramOptions::*member;
    int64_t least, most;
  };
  struct Text {
    std::optional<std::string> ProgramOptions::*member;
    /// The value that an argument stands for, or an error. Null: the argument
    /// is the value. "" is no value.
    llvm::Expected<std::string> (*read)(llvm::StringRef argument);
  };
  /// Where a manifest says what its program was made with.
  enum class Recorded {
    InFlags,
    InModel,  // of programs that were written by hand, too
    OfCaches, // the same, for programs with caches
  };
  /// Which passes read the option.
  enum class ReadBy {
    Import, // in every text of --emit, it has already had its effect
    Later,  // going on from a later text, it is taken from the manifest
    Both,   // going on from any text, it is taken from the manifest
  };

  /// The name on the command line, "max-seq" for --max-seq. In manifests its
  /// words are joined by "_".
  llvm::StringLiteral name;
  /// How --help shows an argument, and what it says of the option.
  const char *argument, *help;
  std::variant<Number, Text> value;
  Recorded recorded;
  /// Whether the manifest's flags have the value.
  bool isFlag;
  /// The value that a program was made with if its manifest has none.
  const char *otherwise;
  ReadBy readBy;
};

llvm::ArrayRef<ProgramOption> programOptions();

/// Reads a whole number from `least` to `most` in plain decimal. The error
/// names the option.
llvm::Expected<int64_t> readNumber(llvm::StringRef option,
                                   llvm::StringRef argument, int64_t least,
                                   int64_t most);

/// Sets an option to what an argument of the command line says.
llvm::Error readOption(const ProgramOption &option, llvm::StringRef argument,
                       ProgramOptions &options);

/// Sets the flags of a program's manifest.
void setFlags(Manifest &manifest, const ProgramOptions &options);

/// Fails if the user asked for another value of a flag than the one that the
/// program of the file `input` was made with. Nothing: the user did not ask.
llvm::Error expectMade(llvm::StringRef flag,
                       std::optional<llvm::StringRef> asked,
                       llvm::StringRef made, llvm::StringRef input);

/// Checks that a program, of the file `input`, was made with the options that
/// the user asked for, as far as its manifest's `model` tells.
llvm::Error checkModel(const ProgramOptions &options, llvm::StringRef input,
                       const Manifest &manifest);

/// Checks all options, for a text of --emit. Sets them to those with which
/// compilation goes on. At Import (`isImport`), the user's own values of
/// options that no pass has read are taken.
llvm::Error resumeOptions(ProgramOptions &options, llvm::StringRef input,
                          const Manifest &manifest, bool isImport);

} // namespace cria
