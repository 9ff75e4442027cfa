// RUN: cria-opt %s --convert-linalg-to-gpu --verify-diagnostics

module attributes {gpu.container_module} {
  // expected-error @below {{expected no @kernels before the GPU's are built}}
  gpu.module @kernels {
  }
}
