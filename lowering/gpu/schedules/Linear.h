/// Elements as linear functions of other elements.
#pragma once

#include "lowering/gpu/build/Evaluator.h"

#include <memory>

namespace cria::simt {

/// How a number is computed: it is an element, or an op's result.
struct Formula;
using FormulaRef = std::shared_ptr<const Formula>; ///< null: zero
struct Formula {
  enum Kind { One, Read, Clone, Add, Sub, Neg, Mul } kind;
  Element element = {};          ///< of Read
  mlir::Operation *op = nullptr; ///< of Clone
  llvm::SmallVector<FormulaRef, 2> operands = {};
};

/// Whether a formula reads an element that `is` one of some.
bool reads(const FormulaRef &formula,
           llvm::function_ref<bool(const Element &)> is);
/// The value of a formula, f32, in a kernel. `read` gives elements as f32.
mlir::Value evaluate(KernelBuilder &b, const FormulaRef &formula,
                     llvm::function_ref<mlir::Value(const Element &)> read);

/// rest + the sum of factors[i] * (variable i).
struct Linear {
  FormulaRef rest;
  llvm::SmallVector<FormulaRef> factors;
};

/// Reads elements as linear functions of `variables`. Elements that are `known`
/// are read as they are; of others the payloads are followed.
class LinearReader {
public:
  LinearReader(Elements &elements, llvm::ArrayRef<Size> box,
               llvm::function_ref<bool(const Element &)> known)
      : elements(elements), box(box), known(known) {}

  /// Nothing if the element is no such function. The last rounding to the
  /// element's type is left out.
  std::optional<Linear> read(const Element &element,
                             llvm::ArrayRef<Element> variables);

private:
  using Payload = Elements::Definition;
  std::optional<Linear> read(const Element &element);
  std::optional<Linear> read(mlir::Value value, const Payload &of);
  Linear ofRest(FormulaRef rest);

  Elements &elements;
  llvm::ArrayRef<Size> box;
  llvm::function_ref<bool(const Element &)> known;
  llvm::ArrayRef<Element> variables;
};

} // namespace cria::simt
