/// The functions that translated code calls for mbarriers, bulk copies and
/// products of warpgroups.
#pragma once

#include "tools/emulator/run/Thread.h"

extern "C" {
/// mbarrier, at a host address. Arrivals and bytes may be for an mbarrier of
/// another block of the cluster.
/// @{
void emulatorMbarrierInit(cria::emulator::Thread *thread, void *address,
                          uint32_t count, int line);
void emulatorMbarrierInvalidate(cria::emulator::Thread *thread, void *address,
                                int line);
uint64_t emulatorMbarrierArrive(cria::emulator::Thread *thread, void *address,
                                uint32_t count, uint32_t bytes, uint32_t flags,
                                int line);
void emulatorMbarrierBytes(cria::emulator::Thread *thread, void *address,
                           uint32_t bytes, uint32_t expects, int line);
uint32_t emulatorMbarrierWait(cria::emulator::Thread *thread, void *address,
                              uint64_t phase, uint32_t flags, int line);
/// fence.proxy.async, or fence.mbarrier_init.
void emulatorFenceProxy(cria::emulator::Thread *thread, uint32_t ofMbarriers);
/// @}

/// barrier.cluster, mapa, and the host address of what mapa returns.
/// @{
void emulatorClusterBarrier(cria::emulator::Thread *thread, uint32_t flags,
                            int line);
uint64_t emulatorMapShared(cria::emulator::Thread *thread, uint64_t address,
                           uint32_t rank, int line);
void *emulatorClusterAddress(cria::emulator::Thread *thread, uint64_t address,
                             int line);
/// @}

/// cp.async.bulk between host addresses. `blocks`: for a multicast, a bit for
/// each block of the cluster that receives it, and bit 16; else 0.
/// @{
void emulatorBulkLoad(cria::emulator::Thread *thread, void *target,
                      void *source, uint32_t bytes, void *mbarrier,
                      uint32_t blocks, int line);
void emulatorBulkStore(cria::emulator::Thread *thread, void *target,
                       void *source, uint32_t bytes, int line);
void emulatorTensorLoad(cria::emulator::Thread *thread, void *target, void *map,
                        const int32_t *coordinates, uint32_t rank,
                        void *mbarrier, uint32_t blocks, int line);
void emulatorTensorStore(cria::emulator::Thread *thread, void *map,
                         const int32_t *coordinates, uint32_t rank,
                         void *source, int line);
void emulatorBulkCommit(cria::emulator::Thread *thread);
void emulatorBulkWait(cria::emulator::Thread *thread, uint32_t left,
                      uint32_t reads);
/// @}

/// wgmma. `sums` and `serials` have one word for each register of the function
/// that is an accumulator. `values` are the registers of a product, and
/// `places` are their words. While a product runs, its accumulators are in
/// `sums`. `serials` has the product's number, 0 for none, and ~0 when it has
/// just ended: translated code then moves the sum to its register.
/// @{
void emulatorProduct(cria::emulator::Thread *thread, uint32_t config,
                     uint64_t a, uint64_t b, uint32_t addsToD,
                     const uint32_t *wordsOfA, uint32_t *values, uint32_t *sums,
                     uint32_t *serials, const uint32_t *places, int line);
void emulatorFenceProducts(cria::emulator::Thread *thread, int line);
void emulatorCommitProducts(cria::emulator::Thread *thread, int line);
void emulatorWaitProducts(cria::emulator::Thread *thread, uint32_t left,
                          uint32_t *serials, uint32_t count, int line);
/// @}

/// setmaxnreg.
void emulatorSetRegisters(cria::emulator::Thread *thread, uint32_t count,
                          int line);
}
