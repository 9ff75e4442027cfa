/// Threads for what takes milliseconds: JSON, templates, tokenizing.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

namespace cria::serve {

class Workers {
public:
  explicit Workers(int count) {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([this] { work(); });
  }
  /// Waits for the works that run; those that have not begun are dropped.
  ~Workers() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Runs `work` on one of the threads, after works that were added before have
  /// begun. An exception of `work` is dropped with it. Any thread may add.
  void add(std::function<void()> work) {
    std::lock_guard lock(mutex);
    works.push_back(std::move(work));
    wake.notify_one();
  }

private:
  void work() {
    pthread_setname_np(pthread_self(), "cria-worker");
    for (std::function<void()> next;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stopping || !works.empty(); });
        if (stopping)
          return;
        next = std::move(works.front());
        works.pop_front();
      }
      try {
        next();
      } catch (const std::exception &) {
      }
      next = nullptr;
    }
  }

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> works;
  bool stopping = false;
  std::vector<std::thread> threads;
};

} // namespace cria::serve
