/// The architectures of GGUF that are families of Cria, and the names of their
/// tensors in Hugging Face's checkpoints.
#pragma once

#include "runtime/gguf/Header.h"

#include <string>
#include <string_view>

namespace cria::gguf {

/// How GGUF differs from Hugging Face's checkpoints for one architecture.
struct Architecture {
  char name[16]; // general.architecture
  /// Rows of queries and keys are in the order of pairs that rope rotates: 0,
  /// D/2, 1, D/2 + 1, ... of each head of D.
  bool interleaved;
  /// Norms have 1 added to them.
  bool normsPlusOne;
  /// Heads of values that share a key are not one after the other: see
  /// runtime/weights/gguf/Order.h.
  bool valuesInTurns = false;
  /// The rows of the joined tensor are all queries, then all keys, then all
  /// values. Hugging Face's tensor has the rows of the first head, then those
  /// of the second.
  bool joinsHeads = false;
};

/// The architecture called `name`, or null.
const Architecture *findArchitecture(std::string_view name);

/// "gemma, gemma2, ... or smollm3"
std::string architectureNames();

/// The name of a tensor in a checkpoint of Hugging Face:
/// "model.layers.0.self_attn.q_proj.weight" for "blk.0.attn_q.weight". Empty
/// if the architecture has no such tensor. A name with `{}` stands for the
/// tensors of all experts, and one with `[...]` has another form; see
/// Matcher::isOther in runtime/weights/Binding.cpp. One with `*` stands for
/// three tensors, with `q`, `k` and `v` there, whose rows follow one another.
std::string checkpointName(const Architecture &architecture,
                           std::string_view name);

/// Whether the tensor is no weight: one of rope's frequencies, which are read
/// with the config (rope_freqs, rope_factors_long, rope_factors_short), or of a
/// layer after the model's last, which would predict a token more.
bool isLeftOut(const Header &header, const Architecture &architecture,
               std::string_view name);

/// The number of layers that a key has; 0 if it has none, or more than any
/// model.
int64_t countOf(const Header &header, const Architecture &architecture,
                std::string_view key);
static constexpr int64_t mostLayers = 1 << 12;

} // namespace cria::gguf
