// Work that several threads share.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace qkv {

// work(next) in so many threads; next(i) hands out the numbers from 0 to count - 1, each once. What one of them throws is
// thrown here, when all have ended.
template <class F> void share(size_t count, int threads, F work) {
    std::atomic<size_t> given{0};
    std::atomic<bool> failed{false};
    std::exception_ptr failure;
    std::mutex lock;
    const auto next = [&](size_t &i) { return !failed && (i = given++) < count; };
    const auto guarded = [&] {
        try {
            work(next);
        } catch (...) {
            const std::lock_guard<std::mutex> held(lock);
            failure = std::current_exception(), failed = true;
        }
    };
    std::vector<std::thread> others;
    try {
        for (size_t i = 1; i < std::min(static_cast<size_t>(std::max(threads, 1)), count); i++)
            others.emplace_back(guarded);
    } catch (const std::exception &) {
    }  // fewer threads than asked for: those that are here do it all
    guarded();
    for (std::thread &other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace qkv
