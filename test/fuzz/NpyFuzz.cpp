/// A NumPy file; an accepted matrix is complete.
#include "test/fuzz/Fuzz.h"
#include "tools/run/Npy.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  auto matrix =
      readNpyMatrix(folder.write("x.npy", fuzz::textOf(data, size)), 1 << 16);
  if (!matrix.ok())
    return 0;
  fuzz::require(matrix->values.size() == matrix->rows * matrix->columns,
                "as many numbers as its shape says");
  fuzz::require(matrix->values.size() * 2 < size, "they come from the file");
  return 0;
}
