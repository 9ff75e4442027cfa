/// The architectures of GGUF that are families of Cria, and the names of their
/// tensors in Hugging Face's checkpoints.
#pragma once

#include <string>
#include <string_view>

namespace cria::gguf {

/// How GGUF differs from Hugging Face's checkpoints for one architecture.
struct Architecture {
  const char *name;      // general.architecture
  const char *modelType; // config.json's
  /// Rows of queries and keys are in the order of pairs that rope rotates: 0,
  /// D/2, 1, D/2 + 1, ... of each head of D.
  bool interleaved;
  /// Norms have 1 added to them.
  bool normsPlusOne;
  /// What ffn_norm is: the norm before the MLP.
  const char *mlpNorm;
};

/// The architecture called `name`, or null.
const Architecture *findArchitecture(std::string_view name);

/// "gemma, gemma2, ... or smollm3"
std::string architectureNames();

/// The name of a tensor in a checkpoint of Hugging Face:
/// "model.layers.0.self_attn.q_proj.weight" for "blk.0.attn_q.weight". Empty
/// if the architecture has no such tensor.
std::string checkpointName(const Architecture &architecture,
                           std::string_view name);

/// Whether the tensor is one of rope's frequencies, which are read with the
/// config: rope_freqs, rope_factors_long, rope_factors_short.
bool isRopeTensor(std::string_view name);

} // namespace cria::gguf
