/// Declares the weights of a model, reads them, and builds ops that several
/// parts of a model have. Ops are at the location of a module of the model.
#pragma once

#include "dialect/Dialect.h"
#include "lowering/import/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cria::forward {

/// Numbers of layers, in ascending order.
using Layers = llvm::ArrayRef<int64_t>;

/// The symbol of a module: "q_proj" for "self_attn.q_proj".
llvm::StringRef lastName(llvm::StringRef path);

/// The symbol of a linear or a norm. The prefix tells modules of one name apart
/// that a layer has, or layers of several kinds.
std::string prefixed(llvm::StringRef prefix, llvm::StringRef path);

/// The symbol of the bias beside a matrix.
std::string biasSymbol(llvm::StringRef symbol);

class ModelBuilder : public mlir::ImplicitLocOpBuilder {
  using Value = mlir::Value;
  using StringRef = llvm::StringRef;

public:
  /// Builds at the end of `module`. Weights have the type `type`, and so has
  /// what is computed, unless an op says otherwise.
  ModelBuilder(const ModelConfig &config, mlir::Type type,
               mlir::ModuleOp module);

  const ModelConfig &config;
  const Family &family;
  const mlir::Type type;

  // The location of the ops that are built next: a module of the model, a
  // module of a layer, or the module of a weight.
  void at(const llvm::Twine &path);
  void atLayer(StringRef path = "");
  void atWeight(StringRef symbol);

  /// Declares a weight of the module `path`: one of each of some layers, or, if
  /// there are none, one of the model. Without a path it is the layer's own.
  llama::WeightOp declare(StringRef path, StringRef kind,
                          llvm::ArrayRef<int64_t> shape, Layers layers,
                          StringRef symbol = "");
  /// Declares a tensor by its whole name, or nothing if that is empty. Its
  /// symbol is the last part of the name, if none is given.
  llama::WeightOp declareTensor(StringRef name, llvm::ArrayRef<int64_t> shape,
                                Layers layers, StringRef symbol = "");
  /// Declares a linear; returns its matrix. If `fused` is given, matrix and
  /// bias are the rows [row, row + out) of the `rows` rows of the module
  /// `fused`.
  llama::WeightOp declareLinear(StringRef symbol, StringRef path, int64_t out,
                                int64_t in, bool bias, Layers layers,
                                StringRef fused = "", int64_t row = 0,
                                int64_t rows = 0);
  /// Declares a linear whose symbol is its last name.
  void declareLinear(StringRef path, int64_t out, int64_t in, bool bias,
                     Layers layers) {
    declareLinear(lastName(path), path, out, in, bias, layers);
  }
  /// Declares the tensors of a norm, or nothing if `path` is empty. The norm is
  /// the model's if there are no layers.
  void declareNorm(StringRef path, int64_t size, Layers layers,
                   StringRef prefix = "");

  bool isDeclared(StringRef symbol) { return module.lookupSymbol(symbol); }
  template <typename Op> Op declared(StringRef symbol) {
    return module.lookupSymbol<Op>(symbol);
  }
  /// The weight of a layer, or of the model.
  Value weight(StringRef symbol, Value layer = {});
  /// The weight, or null if none is declared.
  Value optionalWeight(StringRef symbol, Value layer = {});

  /// The norm of the module `path`, of the model or of a layer.
  Value norm(StringRef path, Value x, Value layer = {},
             std::optional<double> eps = {}, StringRef prefix = "");
  /// An RMS norm without a weight, or with one that is no module's.
  Value plainNorm(Value x, Value weight = {});
  /// The linear of a module, with a bias if one is declared.
  Value linear(StringRef path, Value x, Value layer = {});
  /// A linear whose result stays in f32.
  Value linearInF32(StringRef symbol, Value x, Value layer,
                    bool hasBias = true);
  /// A gated unit, with a limit unless that is 0.
  Value gated(Value gate, Value up, llama::Activation function,
              double limit = 0, double alpha = 1);
  /// x * factor, which has x's type.
  Value scaled(Value tokens, Value x, double factor);

  mlir::RankedTensorType tensorType(llvm::ArrayRef<int64_t> shape) {
    return mlir::RankedTensorType::get(shape, type);
  }
  Value index(int64_t value);
  /// Reshapes (n, count * D) to (n, count, D).
  Value splitHeads(Value tokens, Value x, int64_t count);
  /// Puts the heads (n, count, D) of each token together.
  Value mergeHeads(Value heads);
  /// The numbers [first, first + size) of each row.
  Value part(Value tokens, Value x, int64_t first, int64_t size);
  /// Tensors one after the other along a dimension.
  Value joined(mlir::ValueRange parts, int64_t dim);
  /// A vector as a matrix of one row.
  Value row(Value vector);

private:
  StringRef normSymbol(StringRef path, bool layered) const;

  const std::string layerPath;
  mlir::ModuleOp module;
};

} // namespace cria::forward
