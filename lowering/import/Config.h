/// config.json of a Llama as data: every key honoured, known to be irrelevant,
/// or refused.
#pragma once

#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>

namespace cria {

/// Types in which weights are stored and activations computed.
enum class DType { F32, F16, BF16 };

/// How inverse frequencies come from the base: `inverseFrequencies` in Rope.h.
struct RopeConfig {
  enum class Kind { Default, Llama3 };
  Kind kind = Kind::Default;
  double theta = 10000.0;
  /// Of llama3: frequencies whose wavelength is beyond originalPositions /
  /// lowFreqFactor are divided by `factor`, those within originalPositions /
  /// highFreqFactor are kept, those between blend.
  double factor = 1.0, lowFreqFactor = 1.0, highFreqFactor = 4.0;
  int64_t originalPositions = 0;
};

/// The shape and arithmetic of one model. Sizes are within bounds whose
/// products do not overflow; `heads` is a multiple of `kvHeads`, `headDim` is
/// even.
struct ModelConfig {
  int64_t vocabSize = 0;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0; // of the MLP
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int64_t maxPositions = 0; // max_position_embeddings
  double rmsNormEps = 0;
  RopeConfig rope;
  bool tied = false; // the head is the embedding
  bool attentionBias = false;
  bool mlpBias = false;
  DType dtype = DType::F32;
  /// The whole config as compact JSON, keys sorted.
  std::string json;
};

/// Reads the text of a config.json. Errors are one line, such as
/// "'hidden_size' is missing".
llvm::Expected<ModelConfig> parseConfig(llvm::StringRef text);

/// Reads a config.json of at most 16 MiB; errors start with the path.
llvm::Expected<ModelConfig> readConfig(llvm::StringRef path);

} // namespace cria
