// Breadth-first search over the states of a protocol model: the first counterexample is a shortest
// one.
//
// Seen states are kept as 64-bit fingerprints: at 10^8 states the odds that two states share one
// are below one in a thousand, and a shared one can only hide a state, never invent a failure.
// Whole states live in the frontier only; of each state its parent and which of the parent's steps
// led to it are kept, so that a path is found by walking again.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/model/protocol_model.h"

namespace sarissa::model {

// A set of fingerprints, open addressing; 0 marks a free place.
class FingerprintSet {
 public:
  FingerprintSet() : places_(size_t{1} << 16) {}

  // True if `fingerprint` was not there.
  bool Insert(uint64_t fingerprint) {
    if (fingerprint == 0) fingerprint = 1;
    if ((size_ + 1) * 3 > places_.size() * 2) Grow();
    if (!Place(fingerprint)) return false;
    ++size_;
    return true;
  }

 private:
  bool Place(uint64_t fingerprint) {
    const size_t mask = places_.size() - 1;
    for (size_t at = fingerprint & mask;; at = (at + 1) & mask) {
      if (places_[at] == fingerprint) return false;
      if (places_[at] != 0) continue;
      places_[at] = fingerprint;
      return true;
    }
  }
  void Grow() {
    std::vector<uint64_t> old(places_.size() * 2);
    old.swap(places_);
    for (const uint64_t fingerprint : old) {
      if (fingerprint != 0) Place(fingerprint);
    }
  }

  std::vector<uint64_t> places_;
  size_t size_ = 0;
};

inline uint64_t Fingerprint(const State& state) {
  uint64_t words[kStateWords];
  std::memcpy(words, &state, sizeof(state));
  uint64_t hash = 0x9E3779B97F4A7C15;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93;
    hash ^= hash >> 32;
  }
  hash *= 0xBF58476D1CE4E5B9;
  return hash ^ (hash >> 31);
}

struct SearchResult {
  uint64_t states = 0;
  uint64_t steps = 0;
  int depth = 0;
  bool exhausted = false;  // every reachable state was seen
  std::string violation;   // empty: none found
  std::vector<std::string> path;

  std::string Text() const {
    std::string text = violation;
    for (size_t i = 0; i < path.size(); ++i)
      text += "\n  " + std::to_string(i + 1) + ". " + path[i];
    return text;
  }
};

class StateSearch {
 public:
  // With `only`, violations that do not begin with it are passed over.
  explicit StateSearch(const Protocol& protocol, std::string only = {})
      : protocol_(protocol), only_(std::move(only)) {}

  // Stops at a violation or after `limit` states.
  SearchResult Run(uint64_t limit) {
    SearchResult result;
    std::vector<State> level(1);
    uint32_t level_begin = 0;  // number of level's first state
    Remember(0, 0);
    seen_.Insert(Fingerprint(level.front()));
    std::vector<Successor> successors;
    while (!level.empty()) {
      std::vector<State> next_level;
      for (size_t at = 0; at < level.size(); ++at) {
        const auto parent = static_cast<uint32_t>(level_begin + at);
        successors.clear();
        protocol_.Expand(level[at], successors);
        for (size_t ordinal = 0; ordinal < successors.size(); ++ordinal) {
          ++result.steps;
          const Successor& next = successors[ordinal];
          const char* violation = Wanted(next.violation);
          if (violation == nullptr && !seen_.Insert(Fingerprint(next.state))) continue;
          if (violation == nullptr) violation = Wanted(protocol_.Check(next.state));
          Remember(parent, static_cast<uint8_t>(ordinal));
          if (violation != nullptr) {
            result.violation = violation;
            result.path = PathTo(parents_.size() - 1);
            result.states = parents_.size();
            return result;
          }
          next_level.push_back(next.state);
        }
        if (parents_.size() >= limit) {
          result.states = parents_.size();
          return result;
        }
      }
      level_begin += static_cast<uint32_t>(level.size());
      level.swap(next_level);
      ++result.depth;
    }
    result.states = parents_.size();
    result.exhausted = true;
    return result;
  }

 private:
  const char* Wanted(const char* violation) const {
    const bool wanted = violation != nullptr && std::string_view(violation).starts_with(only_);
    return wanted ? violation : nullptr;
  }
  void Remember(uint32_t parent, uint8_t ordinal) {
    parents_.push_back(parent);
    ordinals_.push_back(ordinal);
  }

  std::vector<std::string> PathTo(size_t number) const {
    std::vector<uint8_t> ordinals;
    for (; number != 0; number = parents_[number]) ordinals.push_back(ordinals_[number]);
    std::vector<std::string> path;
    State state;
    std::vector<Successor> successors;
    for (auto ordinal = ordinals.rbegin(); ordinal != ordinals.rend(); ++ordinal) {
      successors.clear();
      protocol_.Expand(state, successors);
      path.push_back(Describe(successors[*ordinal].step));
      state = successors[*ordinal].state;
    }
    return path;
  }

  const Protocol& protocol_;
  const std::string only_;
  FingerprintSet seen_;
  std::vector<uint32_t> parents_;
  std::vector<uint8_t> ordinals_;
};

}  // namespace sarissa::model
