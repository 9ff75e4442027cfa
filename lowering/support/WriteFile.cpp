#include "lowering/support/WriteFile.h"

#include "llvm/Support/Signals.h"

llvm::Error cria::writeFile(llvm::StringRef name, llvm::ArrayRef<char> bytes,
                            OutputFile::Named named) {
  OutputFile file(name.str(), named);
  if (!file.temporary().empty())
    llvm::sys::RemoveFileOnSignal(file.temporary());
  file.write(bytes.data(), bytes.size());
  bool done = file.commit();
  if (!file.temporary().empty())
    llvm::sys::DontRemoveFileOnSignal(file.temporary());
  return done ? llvm::Error::success()
              : llvm::createStringError(file.error().message());
}
