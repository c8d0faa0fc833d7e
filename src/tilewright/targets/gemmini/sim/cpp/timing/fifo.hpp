// A first-in first-out queue in a ring that grows to what it needs.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace cosim {

template <typename T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  T& front() { return ring_[head_]; }
  const T& front() const { return ring_[head_]; }
  T& operator[](std::size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  const T& operator[](std::size_t i) const { return ring_[(head_ + i) & (ring_.size() - 1)]; }

  void push(T value) {
    if (size_ == ring_.size()) grow();
    ring_[(head_ + size_) & (ring_.size() - 1)] = std::move(value);
    size_++;
  }

  void pop() {
    head_ = (head_ + 1) & (ring_.size() - 1);
    size_--;
  }

 private:
  void grow() {
    std::vector<T> larger(ring_.size() * 2);
    for (std::size_t i = 0; i < size_; i++) larger[i] = std::move((*this)[i]);
    ring_ = std::move(larger);
    head_ = 0;
  }

  std::vector<T> ring_ = std::vector<T>(16);
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace cosim
