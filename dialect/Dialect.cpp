#include "dialect/Dialect.h"

using namespace mlir;
using namespace cria::llama;

#include "dialect/Dialect.cpp.inc"

void LlamaDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialect/Ops.cpp.inc"
      >();
}
